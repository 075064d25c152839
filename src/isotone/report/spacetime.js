"use strict";
/* Space-time diagrams: lanes, messages as lines from send to delivery; zoom, move, follow, hide.
   Data of a figure with id X is the JSON in the element X-data; all text reaches the page as text, never as markup. */
(() => {
  const WIDTH = 1120, LEFT = 92, RIGHT = 26, TOP = 30, COLOURS = 8;
  const SIGNS = { crash: "✕", stop: "■", suspect: "?", trust: "✓", start: "▸", flush: "❚", transitional: "¦", view: "▮" };

  class Diagram {
    constructor(figure, data) {
      Object.assign(this, { figure, data, hidden: new Set(), follow: -1 });
      this.svg = figure.querySelector("svg");
      this.status = figure.querySelector("p.followed");
      this.axis = figure.querySelector('[data-do="axis"]');
      this.chooser = figure.querySelector('[data-do="follow"]');
      this.sends = new Map();
      data.events.forEach((event, rank) => {
        event.rank = rank;
        if (event.k === "send" && !this.sends.has(event.m)) this.sends.set(event.m, event);
      });
      this.anyNamed = data.messages.some((message) => message.named !== undefined);
      data.messages.forEach((message, index) => {
        const option = document.createElement("option");
        option.value = String(index);
        option.textContent = message.id + (message.named === undefined ? "" : " (named by the witness)");
        this.chooser.append(option);
      });
      if (!this.anyNamed && data.timed) this.axis.value = "time";
      this.listen();
      this.reset();
    }

    at(event) { return this.axis.value === "order" ? event.rank : event.t; }

    reset() {
      const [first, last] = this.data.focus;
      this.show(first, last);
      this.setFollow(-1);
    }

    /* Shows the events from one rank to another. */
    show(first, last) {
      const events = this.data.events;
      if (!events.length) { this.from = 0; this.to = 1; this.draw(); return; }
      const low = this.at(events[first]), high = this.at(events[last]);
      const margin = Math.max((high - low) * 0.04, this.axis.value === "order" ? 0.7 : 1000);
      this.from = low - margin;
      this.to = high + margin;
      this.draw();
    }

    zoom(factor, centre = (this.from + this.to) / 2) {
      const span = Math.max((this.to - this.from) * factor, this.axis.value === "order" ? 2 : 100);
      const share = (centre - this.from) / (this.to - this.from);
      this.from = centre - span * share;
      this.to = this.from + span;
      this.schedule();
    }

    move(share) {
      const by = (this.to - this.from) * share;
      this.from += by;
      this.to += by;
      this.schedule();
    }

    schedule() {
      if (this.waiting) return;
      this.waiting = true;
      requestAnimationFrame(() => { this.waiting = false; this.draw(); });
    }

    x(value) { return LEFT + (value - this.from) / (this.to - this.from) * (WIDTH - LEFT - RIGHT); }

    make(name, attributes, parent, text) {
      const element = document.createElementNS(this.svg.namespaceURI, name);
      for (const key in attributes) element.setAttribute(key, attributes[key]);
      if (text !== undefined) element.textContent = text;
      parent.append(element);
      return element;
    }

    draw() {
      const { data, svg } = this;
      const shown = data.lanes.map((_, lane) => lane).filter((lane) => !this.hidden.has(lane));
      this.lane = Math.max(22, Math.min(58, 640 / Math.max(1, shown.length)));
      const row = new Map(shown.map((lane, index) => [lane, TOP + this.lane * (index + 0.5)]));
      const bottom = TOP + this.lane * shown.length;
      svg.setAttribute("viewBox", `0 0 ${WIDTH} ${bottom + 30}`);
      svg.replaceChildren();
      const clip = this.make("clipPath", { id: this.figure.id + "-clip" }, svg);
      this.make("rect", { x: LEFT - 6, y: 0, width: WIDTH - LEFT + 6, height: bottom + 30 }, clip);
      for (const lane of shown) {
        const name = data.lanes[lane], y = row.get(lane);
        this.make("line", { x1: LEFT, x2: WIDTH - 6, y1: y, y2: y, class: "rail" }, svg);
        const label = this.make("text", { x: LEFT - 10, y: y + 4, "text-anchor": "end", class: "lane" }, svg);
        const [base, incarnation] = name.split("#");
        const end = incarnation ? "#…" + incarnation.slice(-3) : "…";
        label.textContent = name.length > 11 ? base.slice(0, 11 - end.length) + end : name;
        this.make("title", {}, label, name);
      }
      const field = this.make("g", { "clip-path": `url(#${this.figure.id}-clip)` }, svg);
      this.drawAxis(field, bottom);
      this.drawAround(field, bottom);
      this.drawTurns(field, row);
      this.drawEvents(field, row);
    }

    drawAxis(field, bottom) {
      this.make("line", { x1: LEFT, x2: WIDTH - 6, y1: bottom, y2: bottom, class: "axis" }, field);
      if (this.axis.value === "order") {
        const events = this.data.events, low = Math.max(0, Math.ceil(this.from)), high = Math.min(events.length - 1, Math.floor(this.to));
        let free = -1;
        for (let rank = low; rank <= high; rank++) {
          const x = this.x(rank);
          if (x < free || x < LEFT + 20) continue;
          this.make("line", { x1: x, x2: x, y1: bottom, y2: bottom + 5, class: "axis" }, field);
          this.make("text", { x, y: bottom + 19, "text-anchor": "middle" }, field, this.moment(events[rank].t, 1e5));
          free = x + 120;
        }
        return;
      }
      let step = 1;
      const span = this.to - this.from;
      while (span / step > 9) step *= span / (step * 2) <= 9 ? 2 : span / (step * 5) <= 9 ? 5 : 10;
      for (let value = Math.ceil(this.from / step) * step; value <= this.to; value += step) {
        const x = this.x(value);
        if (x < LEFT) continue;
        this.make("line", { x1: x, x2: x, y1: TOP - 8, y2: bottom + 5, class: "grid" }, field);
        this.make("text", { x, y: bottom + 19, "text-anchor": "middle" }, field, this.moment(value, step));
      }
    }

    moment(value, step) {
      if (!this.data.timed) return value.toLocaleString("en");
      const digits = Math.max(0, Math.min(9, Math.ceil(9 - Math.log10(step))));
      return (value / 1e9).toFixed(digits) + " s";
    }

    drawAround(field, bottom) {
      const events = this.data.events;
      for (const happening of this.data.around) {
        let place = happening.t;
        if (this.axis.value === "order") place = events.filter((event) => event.t < happening.t).length - 0.5;
        const x = this.x(place);
        if (x < LEFT || x > WIDTH) continue;
        this.make("line", { x1: x, x2: x, y1: 6, y2: bottom, class: "happening " + happening.k }, field);
        this.make("text", { x: x + 4, y: 15, class: "happened" }, field, happening.w);
      }
    }

    /* Switches at a process, from the request on. */
    drawTurns(field, row) {
      for (const turn of this.data.turns) {
        const y = row.get(turn.l);
        if (y === undefined) continue;
        const [x, end] = [turn.first, turn.last].map((rank) => this.x(this.at(this.data.events[rank])));
        if (end < LEFT || x > WIDTH) continue;
        this.make("rect", { x, y: y - 11, width: Math.max(end - x, 2), height: 22, class: "turn" }, field);
      }
    }

    drawEvents(field, row) {
      const { data } = this, groups = new Map();
      const group = (index) => {
        if (!groups.has(index)) {
          const message = data.messages[index];
          const classes = ["message"];
          if (message.named !== undefined) classes.push("named");
          else if (this.anyNamed) classes.push("quiet");
          if (this.follow === index) classes.push("followed");
          else if (this.follow >= 0) classes.push("dim");
          groups.set(index, this.make("g", { class: classes.join(" "), "data-message": index }, field));
        }
        return groups.get(index);
      };
      const visible = data.events.filter((event) => this.at(event) >= this.from && this.at(event) <= this.to).length;
      const roomy = visible < 45, spot = new Map();
      for (const event of data.events) {
        const y = row.get(event.l), x = this.x(this.at(event));
        if (y === undefined) continue;
        if (event.m === undefined) {
          if (x < LEFT - 5 || x > WIDTH) continue;
          const sign = this.make("g", { "data-rank": event.rank }, field);
          if (event.k === "view") {
            this.make("line", { x1: x, x2: x, y1: y - 13, y2: y + 13, class: "local" }, sign);
            if (x - (spot.get(y) ?? -99) > 60) {
              spot.set(y, x);
              this.make("text", { x: x + 4, y: y - 8, class: "name" }, sign, event.v);
            }
          }
          else if (event.k === "switch") {
            sign.setAttribute("class", "turned");
            this.make("line", { x1: x, x2: x, y1: y - 11, y2: y + 11, class: "phase" }, sign);
            if (event.p === "done" && x - (spot.get(y) ?? -99) > 60) {
              spot.set(y, x);
              this.make("text", { x: x + 4, y: y - 8, class: "name" }, sign, "⇄ " + event.v);
            }
          }
          else this.make("text", { x, y: y + 5, class: "sign " + event.k }, sign, SIGNS[event.k] || "•");
          this.make("circle", { cx: x, cy: y, r: 7, class: "grasp" }, sign);
          continue;
        }
        const message = data.messages[event.m], paint = this.paint(message), owner = group(event.m);
        if (event.k === "deliver") {
          const sent = this.sends.get(event.m);
          const start = sent ? row.get(sent.l) : row.get(message.lane);
          if (start !== undefined && (sent || message.sent !== undefined)) {
            const x0 = sent ? this.x(this.at(sent)) : this.axis.value === "time" ? this.x(message.sent) : this.x(-1);
            if (Math.max(x0, x) >= LEFT - 8 && Math.min(x0, x) <= WIDTH) {
              const bend = start === y ? `Q${(x0 + x) / 2} ${y - Math.min(22, Math.abs(x - x0) * 0.4)} ${x} ${y}` : `L${x} ${y}`;
              const path = `M${x0} ${start}${bend}`;
              this.make("path", { d: path, class: "way", style: `stroke:${paint}` }, owner);
              this.make("path", { d: path, class: "wide" }, owner);
            }
          }
        }
        if (x < LEFT - 8 || x > WIDTH) continue;
        const radius = message.named !== undefined || this.follow === event.m ? 6 : 4;
        const fill = event.k === "deliver" ? `fill:${paint};` : "";
        const dot = { cx: x, cy: y, r: radius, class: "dot" + (event.k === "deliver" ? "" : " sent"), style: `${fill}stroke:${paint}` };
        this.make("circle", Object.assign(dot, { "data-rank": event.rank }), owner);
        const wanted = this.follow >= 0 ? this.follow === event.m : message.named !== undefined || roomy;
        if (!wanted || (this.lane < 40 && event.k !== "send")) continue;
        const level = [y + 21, y - 12].find((height) => x - (spot.get(height) ?? -99) > 8 * message.id.length);
        if (level === undefined) continue;
        spot.set(level, x);
        this.make("text", { x, y: level, "text-anchor": "middle", class: "name" }, owner, message.id);
      }
      for (const front of ["turned", "named", "followed"]) field.querySelectorAll("." + front).forEach((element) => field.append(element));
    }

    /* Messages of a witness have colours of their own, others the colour of their origin. */
    paint(message) {
      if (message.named !== undefined) return `var(--c${[0, 1, 3, 2, 5, 6, 4, 7][message.named % COLOURS]})`;
      if (this.anyNamed || message.lane < 0) return "var(--soft)";
      return `var(--c${message.lane % COLOURS})`;
    }

    setFollow(index) {
      this.follow = index;
      this.chooser.value = index < 0 ? "" : String(index);
      if (index < 0) this.status.textContent = "No message is followed.";
      else {
        const told = this.data.events.filter((event) => event.m === index).map((event) => `${this.moment(event.t, 1e3)}: ${event.w}`);
        this.status.textContent = [`Following ${this.data.messages[index].id}`, ...told].join("\n");
      }
      this.draw();
    }

    step(by) {
      const count = this.data.messages.length;
      if (!count) return;
      this.setFollow(this.follow < 0 ? (by > 0 ? 0 : count - 1) : (this.follow + by + count) % count);
      const ranks = this.data.events.filter((event) => event.m === this.follow).map((event) => event.rank);
      const place = this.at(this.data.events[ranks[0]]);
      if (place < this.from || place > this.to) this.move((place - (this.from + this.to) / 2) / (this.to - this.from));
    }

    value(event) {
      const box = this.svg.getBoundingClientRect();
      const x = (event.clientX - box.left) / box.width * WIDTH;
      return this.from + (x - LEFT) / (WIDTH - LEFT - RIGHT) * (this.to - this.from);
    }

    act(what) {
      if (what === "in") this.zoom(0.6);
      else if (what === "out") this.zoom(1 / 0.6);
      else if (what === "all") this.show(0, Math.max(0, this.data.events.length - 1));
      else if (what === "reset") this.reset();
    }

    listen() {
      const { svg, figure } = this;
      figure.addEventListener("click", (event) => event.target.dataset && event.target.tagName === "BUTTON" && this.act(event.target.dataset.do));
      figure.addEventListener("change", (event) => {
        const { lane } = event.target.dataset;
        if (lane !== undefined) {
          this.hidden[event.target.checked ? "delete" : "add"](Number(lane));
          this.draw();
        } else if (event.target === this.axis) this.switchAxis();
        else if (event.target === this.chooser) this.setFollow(event.target.value === "" ? -1 : Number(event.target.value));
      });
      svg.addEventListener("wheel", (event) => {
        if (document.activeElement !== svg && !event.ctrlKey) return;
        event.preventDefault();
        this.zoom(Math.exp(event.deltaY * 0.0015), this.value(event));
      }, { passive: false });
      svg.addEventListener("pointerdown", (event) => { this.grip = { x: event.clientX, far: 0, from: this.from, to: this.to }; });
      window.addEventListener("pointermove", (event) => this.pointer(event));
      window.addEventListener("pointerup", () => { svg.classList.remove("moving"); this.last = this.grip; this.grip = null; });
      svg.addEventListener("click", (event) => {
        if (this.last && this.last.far > 4) return;
        const owner = event.target.closest("[data-message]");
        const index = owner ? Number(owner.dataset.message) : -1;
        this.setFollow(index === this.follow ? -1 : index);
      });
      svg.addEventListener("pointerleave", () => isotone.hint(""));
      svg.addEventListener("keydown", (event) => {
        const keys = {
          ArrowLeft: () => this.move(-0.15), ArrowRight: () => this.move(0.15), "+": () => this.act("in"), "=": () => this.act("in"),
          "-": () => this.act("out"), 0: () => this.act("all"), "[": () => this.step(-1), "]": () => this.step(1),
          Escape: () => this.setFollow(-1),
        };
        if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
        event.preventDefault();
        keys[event.key]();
      });
    }

    pointer(event) {
      if (this.grip) {
        const by = event.clientX - this.grip.x;
        this.grip.far = Math.max(this.grip.far, Math.abs(by));
        if (this.grip.far <= 4) return;
        this.svg.classList.add("moving");
        const value = by / this.svg.getBoundingClientRect().width * WIDTH / (WIDTH - LEFT - RIGHT) * (this.grip.to - this.grip.from);
        this.from = this.grip.from - value;
        this.to = this.grip.to - value;
        this.schedule();
        return;
      }
      if (!this.svg.contains(event.target)) return;
      const holder = event.target.closest("[data-rank]") || event.target.parentNode.closest("[data-rank]");
      const owner = event.target.closest("[data-message]");
      let text = "";
      if (holder) {
        const found = this.data.events[Number(holder.dataset.rank)];
        text = `${this.moment(found.t, 1e3)}\n${found.w}`;
      } else if (owner) text = this.data.messages[Number(owner.dataset.message)].id;
      isotone.hint(text, event.clientX, event.clientY);
    }

    /* Keeps in sight what was in sight on the other axis. */
    switchAxis() {
      const before = this.axis.value === "order" ? (event) => event.t : (event) => event.rank;
      const seen = this.data.events.filter((event) => before(event) >= this.from && before(event) <= this.to);
      if (seen.length) this.show(seen[0].rank, seen[seen.length - 1].rank);
      else this.reset();
    }
  }

  isotone.diagrams = [...document.querySelectorAll("figure.diagram")].map(
    (figure) => new Diagram(figure, JSON.parse(document.getElementById(figure.id + "-data").textContent)));
})();
