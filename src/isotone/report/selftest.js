"use strict";
/* Opened with #selftest the page uses itself and writes what it saw into an attribute of its body. */
if (location.hash === "#selftest") {
  const seen = { diagrams: isotone.diagrams.length };
  const diagram = isotone.diagrams[0];
  if (diagram) {
    const { svg, figure } = diagram;
    const press = (key) => svg.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
    const count = (selector) => svg.querySelectorAll(selector).length;
    seen.messages = count(".message");
    seen.dimBefore = count(".dim");
    const line = svg.querySelector(".message .dot");
    if (line) line.dispatchEvent(new MouseEvent("click", { bubbles: true }));
    seen.dimAfter = count(".dim");
    seen.followed = count(".followed");
    seen.told = figure.querySelector("p.followed").textContent;
    press("Escape");
    seen.dimEscaped = count(".dim");
    const span = diagram.to - diagram.from;
    press("+");
    seen.zoomed = diagram.to - diagram.from < span;
    const from = diagram.from;
    press("ArrowRight");
    seen.moved = diagram.from > from;
    svg.focus();
    svg.dispatchEvent(new WheelEvent("wheel", { deltaY: 400, clientX: 400, bubbles: true, cancelable: true }));
    seen.wheeled = diagram.to - diagram.from > span * 0.6;
    const lanes = count("text.lane");
    figure.querySelector("input[data-lane]").click();
    seen.hidden = lanes - count("text.lane");
    figure.querySelector("input[data-lane]").click();
    diagram.act("reset");
  }
  seen.witnesses = document.querySelectorAll("svg.witness").length;
  const edge = document.querySelector("svg.witness .edge path");
  if (edge) {
    edge.dispatchEvent(new PointerEvent("pointermove", { bubbles: true, clientX: 200, clientY: 100 }));
    seen.edgeHint = document.getElementById("tip").textContent;
  }
  seen.turns = document.querySelectorAll("svg.time .turn").length;
  seen.turned = document.querySelectorAll("svg.spacetime .turn").length;
  const band = document.querySelector(".band");
  if (band) {
    band.dispatchEvent(new PointerEvent("pointermove", { bubbles: true, clientX: 300, clientY: 100 }));
    seen.hint = document.getElementById("tip").textContent;
    seen.crossed = document.querySelectorAll("svg.time .cross").length === document.querySelectorAll(".of-run svg.time").length;
  }
  const paper = () => getComputedStyle(document.body).backgroundColor, before = paper();
  document.getElementById("theme").click();
  seen.themed = paper() !== before;
  seen.errors = isotone.errors;
  document.body.dataset.selftest = JSON.stringify(seen);
}
