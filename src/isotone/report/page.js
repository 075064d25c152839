"use strict";
/* Hints on whatever carries data-tip, by pointer and by keyboard; the choice of light or dark. */
const isotone = { errors: [] };
window.addEventListener("error", (event) => isotone.errors.push(String(event.message)));
(() => {
  const tip = document.getElementById("tip");
  const place = (x, y) => {
    const box = tip.getBoundingClientRect();
    tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - box.width - 8)) + "px";
    tip.style.top = (y + 18 + box.height > innerHeight ? Math.max(4, y - box.height - 10) : y + 18) + "px";
  };
  isotone.hint = (text, x, y) => {
    tip.hidden = !text;
    if (!text) return;
    tip.textContent = text;
    place(x, y);
  };
  const told = (target) => target.closest && target.closest("[data-tip]");
  document.addEventListener("pointermove", (event) => {
    const element = told(event.target);
    if (element) isotone.hint(element.dataset.tip, event.clientX, event.clientY);
    else if (!event.target.closest || !event.target.closest(".spacetime")) isotone.hint("");
  });
  /* One moment in all figures of a run that share the axis of time. */
  document.addEventListener("pointermove", (event) => {
    const chart = event.target.closest && event.target.closest("svg.time");
    document.querySelectorAll(".cross").forEach((line) => line.remove());
    if (!chart) return;
    const box = chart.getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width * chart.viewBox.baseVal.width;
    for (const other of chart.closest(".of-run").querySelectorAll("svg.time")) {
      const line = document.createElementNS(other.namespaceURI, "line");
      const ends = { x1: x, x2: x, y1: 0, y2: other.viewBox.baseVal.height - 24, class: "cross" };
      for (const key in ends) line.setAttribute(key, ends[key]);
      other.append(line);
    }
  });
  document.addEventListener("focusin", (event) => {
    const element = told(event.target);
    if (!element || !element.matches(":focus-visible")) return;
    const box = element.getBoundingClientRect();
    isotone.hint(element.dataset.tip, box.left, box.bottom - 12);
  });
  document.addEventListener("focusout", () => isotone.hint(""));
  document.addEventListener("keydown", (event) => event.key === "Escape" && isotone.hint(""));
  document.getElementById("theme").addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });
})();
