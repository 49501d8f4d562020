// Lines over time on a canvas, drawn by hand: a gap where there is no value, the values under the pointer below it.

import {labelClass} from "./colours.js";
import {el, replace} from "./dom.js";

const height = 140, left = 56, bottom = 18;

export class Chart {
  // `names`: of the lines; `format`: a number as text; `span`: milliseconds along x.
  constructor(title, names, format, span) {
    Object.assign(this, {title, names, format, span, points: []});
    this.canvas = el("canvas", {class: "chart", height, role: "img", tabindex: 0, "aria-label": title});
    this.lens = el("output", {class: "lens"});
    this.legend = el("p", {class: "legend"}, ...names.map((name, i) => el("span", {class: labelClass(i)}, `— ${name} `)));
    this.node = el("figure", {class: "picture", "aria-label": title}, el("figcaption", {}, el("h3", {}, title), names.length > 1 ? this.legend : null), this.canvas, this.lens);
    this.canvas.addEventListener("pointermove", (event) => this.read(event.offsetX));
    this.canvas.addEventListener("pointerleave", () => this.tell());
  }

  // values: one a line, null for none.
  add(time, values) {
    this.points.push({time, values});
    while (this.points.length && this.points[0].time < time - this.span) this.points.shift();
    this.tell();
    this.draw();
  }

  tell(point = this.points[this.points.length - 1]) {
    if (!point) return;
    const texts = this.names.map((name, i) => `${this.names.length > 1 ? `${name} ` : ""}${point.values[i] === null ? "no answer" : this.format(point.values[i])}`);
    const text = `${new Date(point.time).toLocaleTimeString()}: ${texts.join(", ")}`;
    replace(this.lens, text);
    this.canvas.setAttribute("aria-label", `${this.title}. ${text}`);
  }

  // Milliseconds along x: from a minute on as many as there are points for.
  shownSpan() {
    const first = this.points[0]?.time ?? 0, last = this.points[this.points.length - 1]?.time ?? 0;
    return Math.min(this.span, Math.max(60000, last - first));
  }

  read(x) {
    const span = this.shownSpan(), from = this.points[this.points.length - 1]?.time - span, width = this.canvas.clientWidth - left;
    const time = from + ((x - left) / width) * span;
    this.tell(this.points.reduce((best, point) => (Math.abs(point.time - time) < Math.abs((best?.time ?? Infinity) - time) ? point : best), undefined));
  }

  draw() {
    const scale = window.devicePixelRatio || 1, width = this.canvas.clientWidth;
    if (!width) return;
    this.canvas.width = width * scale;
    this.canvas.height = height * scale;
    const context = this.canvas.getContext("2d"), style = getComputedStyle(this.canvas);
    context.scale(scale, scale);
    const most = Math.max(...this.points.flatMap((point) => point.values.filter((value) => value !== null)), 1e-9);
    const end = this.points[this.points.length - 1].time, span = this.shownSpan();
    const x = (time) => left + (1 - (end - time) / span) * (width - left - 2), y = (value) => (height - bottom) * (1 - value / (most * 1.1));
    context.font = "11px system-ui, sans-serif";
    context.fillStyle = style.getPropertyValue("--soft");
    context.strokeStyle = style.getPropertyValue("--line");
    for (const part of [0, 0.5, 1]) {
      context.fillText(this.format(most * part), 0, Math.max(10, y(most * part) + 4));
      context.beginPath();
      context.moveTo(left, y(most * part));
      context.lineTo(width, y(most * part));
      context.stroke();
    }
    context.fillText(`${Math.round(span / 60000)} min ago`, left, height - 3);
    this.names.forEach((_, i) => this.line(context, style.getPropertyValue(`--label-${i % 8}`), i, x, y));
  }

  line(context, colour, i, x, y) {
    context.strokeStyle = colour;
    context.lineWidth = 1.5;
    context.beginPath();
    let drawing = false;
    for (const {time, values} of this.points) {
      if (values[i] === null) drawing = false;
      else if (drawing) context.lineTo(x(time), y(values[i]));
      else {
        context.moveTo(x(time), y(values[i]));
        context.lineTo(x(time) + 0.5, y(values[i]));
        drawing = true;
      }
    }
    context.stroke();
  }
}
