// Charts of values over time on a canvas: lines, bands between percentiles, or stacked bars. A missing value leaves a gap.
// The pointer and the arrow keys select a time to read its values.

import {labelClass} from "./colours.js";
import {el, replace, select} from "./dom.js";

const height = 150, left = 58, bottom = 18, top = 8, colours = 8;

// Rounds up to the next of 1, 2, 5, 10, ..., or for bytes to the next of 1, 2, 5, ... KiB, MiB, ...
export function roundUp(value, unit) {
  const scale = unit === "bytes" ? 1024 ** Math.floor(Math.log(value) / Math.log(1024)) : 1;
  const power = 10 ** Math.floor(Math.log10(value / scale));
  const most = [1, 2, 5, 10].map((step) => step * power).find((step) => step >= (value / scale) * 0.999);
  return scale * (unit === "bytes" && most >= 1000 ? 1024 : most); // 1 MiB, not 1000 KiB
}

const isEmpty = (values) => Object.keys(values).length > 0 && Object.values(values).every((value) => value === null);

const recentPoints = 15; // a name absent from this many recent points gives its colour to a new name

export class Chart {
  // `kind`: lines, band or bars; `names`: names of the series; others are added as they appear, up to 8 in all;
  // `format`: turns a number into text; `unit`: bytes, seconds or nothing; `span`: milliseconds along x;
  // `also`: returns text to show after the values of a time; `choices`: {name: kind} of the statistics that the user can select;
  // with choices, add() takes the values of every choice.
  constructor(title, {kind = "lines", names = [], format, unit, span, also = () => "", choices = null}) {
    Object.assign(this, {title, kind, names: [...names], format, unit, span, also, choices, points: [], read: null});
    this.canvas = el("canvas", {class: "chart", height, role: "img", tabindex: 0, "aria-label": title});
    this.lens = el("p", {class: "lens"});
    this.legend = el("p", {class: "legend"});
    this.node = el("figure", {class: "picture", "aria-label": title}, el("figcaption", {}, el("h3", {}, title), choices && this.chooser(), this.legend), this.canvas, this.lens);
    this.canvas.addEventListener("pointermove", (event) => this.readAt(event.offsetX));
    this.canvas.addEventListener("pointerleave", () => this.readPoint(null));
    this.canvas.addEventListener("blur", () => this.readPoint(null));
    this.canvas.addEventListener("keydown", (event) => this.onKey(event));
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    this.fixed = names.length; // without fixed names, the legend names even a single series
    this.drawLegend();
  }

  isNamed() {
    return this.names.length > 1 || this.fixed === 0;
  }

  chooser() {
    this.choose(Object.keys(this.choices)[0]);
    return select(Object.keys(this.choices), this.choice, {"aria-label": `${this.title}: statistic`, onchange: (event) => {
      this.choose(event.target.value);
      this.tell();
      this.draw();
    }});
  }

  choose(choice) {
    this.choice = choice;
    this.kind = this.choices[choice];
    for (const point of this.points) point.values = this.chosen(point.given);
  }

  chosen(given) {
    return this.choices && given ? given[this.choice] : given;
  }

  drawLegend() {
    replace(this.legend, ...(this.isNamed() ? this.names.map((name, i) => el("span", {class: "entry"}, el("i", {class: `swatch ${labelClass(i)}`, "aria-hidden": "true"}), name)) : []));
  }

  // `given`: {name: number}; with choices {choice: {name: number}}; null for a gap. If every number is null, there was nothing to measure.
  add(time, given) {
    const values = this.chosen(given);
    const added = Object.keys(values ?? {}).filter((name) => !this.names.includes(name));
    if (added.length > colours - this.names.length) this.names = this.names.filter((name) => this.isRecent(name, values));
    added.length = Math.min(added.length, colours - this.names.length);
    this.names.push(...added);
    if (added.length) this.drawLegend();
    this.points.push({time, values, given});
    while (this.points[0].time < time - this.span) this.points.shift();
    if (!this.points.includes(this.read)) this.read = null;
    this.tell();
    this.draw();
  }

  // True if the name must keep its colour when new names need room.
  isRecent(name, values) {
    return name in values || this.points.slice(-recentPoints).some((point) => point.values && name in point.values);
  }

  tell() {
    const point = this.read ?? this.points[this.points.length - 1];
    if (!point) return;
    const values = point.values && (isEmpty(point.values) ? "" : this.names.map((name) => `${this.isNamed() ? `${name} ` : ""}${this.format(point.values[name] ?? 0)}`).join(", "));
    const text = `${this.choices ? `${this.choice} ` : ""}${new Date(point.time).toLocaleTimeString()}: ${values ? `${values}${this.also(point.values)}` : values === "" ? "none" : "no data"}`;
    replace(this.lens, text);
    this.canvas.setAttribute("aria-label", `${this.title}. ${text}`);
  }

  readPoint(point) {
    this.read = point;
    this.tell();
    this.draw();
  }

  readAt(x) {
    const time = this.scales().time(x);
    this.readPoint(this.points.reduce((best, point) => (best && Math.abs(best.time - time) <= Math.abs(point.time - time) ? best : point), null));
  }

  onKey(event) {
    const step = {ArrowLeft: -1, ArrowRight: 1}[event.key];
    if (!step || this.points.length === 0) return;
    event.preventDefault();
    const at = this.read ? this.points.indexOf(this.read) : this.points.length - 1;
    this.readPoint(this.points[Math.min(Math.max(at + step, 0), this.points.length - 1)]);
  }

  // Returns the milliseconds along x: the time the points cover, but at least a minute.
  shownSpan() {
    const first = this.points[0]?.time ?? 0, last = this.points[this.points.length - 1]?.time ?? 0;
    return Math.min(this.span, Math.max(60000, last - first));
  }

  scales() {
    const width = this.canvas.clientWidth, end = this.points[this.points.length - 1]?.time ?? 0, span = this.shownSpan();
    const heights = this.points.map(({values}) => (!values ? 0 : this.kind === "bars" ? this.names.reduce((sum, name) => sum + (values[name] ?? 0), 0)
      : Math.max(0, ...this.names.map((name) => values[name] ?? 0))));
    const most = roundUp(Math.max(...heights, this.unit === "seconds" ? 1e-6 : 1), this.unit);
    return {width, most, span, x: (time) => left + (1 - (end - time) / span) * (width - left - 4), y: (value) => top + (height - bottom - top) * (1 - value / most),
      time: (x) => end - (1 - (x - left) / (width - left - 4)) * span};
  }

  draw() {
    const ratio = window.devicePixelRatio || 1, scales = this.scales();
    if (!scales.width || this.points.length === 0) return;
    this.canvas.width = scales.width * ratio;
    this.canvas.height = height * ratio;
    const context = this.canvas.getContext("2d"), style = getComputedStyle(this.canvas);
    const colour = (name) => style.getPropertyValue(name);
    context.scale(ratio, ratio);
    this.drawAxes(context, scales, colour);
    const paint = (i) => colour(`--label-${i % colours}`);
    if (this.kind === "bars") this.drawBars(context, scales, paint);
    else {
      if (this.kind === "band") this.drawBand(context, scales, paint(this.names.length - 1));
      this.names.forEach((name, i) => this.drawLine(context, scales, paint(i), name));
    }
    if (this.read) {
      context.fillStyle = colour("--ink");
      context.fillRect(scales.x(this.read.time), top, 1, height - bottom - top);
    }
  }

  drawAxes(context, {width, most, span, y}, colour) {
    context.font = "11px system-ui, sans-serif";
    context.fillStyle = colour("--soft");
    context.strokeStyle = colour("--line");
    for (const part of [0, 0.5, 1]) {
      const at = Math.round(y(most * part)) + 0.5;
      context.fillText(this.format(most * part), 0, at + 4);
      context.beginPath();
      context.moveTo(left, at);
      context.lineTo(width, at);
      context.stroke();
    }
    const minutes = Math.round(span / 60000);
    context.fillText(`${minutes} minute${minutes === 1 ? "" : "s"} ago`, left, height - 3);
    context.fillText("now", width - 26, height - 3);
  }

  // Returns the runs of points between gaps.
  runs() {
    const runs = [[]];
    for (const point of this.points)
      if (point.values && !isEmpty(point.values)) runs[runs.length - 1].push(point);
      else if (runs[runs.length - 1].length) runs.push([]);
    return runs.filter((run) => run.length);
  }

  drawLine(context, {x, y}, colour, name) {
    context.strokeStyle = colour;
    context.lineWidth = 1.5;
    for (const run of this.runs()) {
      context.beginPath();
      context.moveTo(x(run[0].time) - 1, y(run[0].values[name] ?? 0)); // makes a single point visible
      for (const {time, values} of run) context.lineTo(x(time), y(values[name] ?? 0));
      context.stroke();
    }
  }

  // Fills the area between the first and the last series, the lowest and the highest percentile.
  drawBand(context, {x, y}, colour) {
    const low = this.names[0], high = this.names[this.names.length - 1];
    context.fillStyle = colour;
    context.globalAlpha = 0.2;
    for (const run of this.runs()) {
      context.beginPath();
      for (const {time, values} of run) context.lineTo(x(time), y(values[high]));
      for (const {time, values} of [...run].reverse()) context.lineTo(x(time), y(values[low]));
      context.fill();
    }
    context.globalAlpha = 1;
  }

  drawBars(context, {x, y}, paint) {
    const gaps = this.points.slice(1).map((point, i) => point.time - this.points[i].time);
    const wide = gaps.length ? Math.max(1, (x(Math.min(...gaps)) - x(0)) * 0.8) : 4;
    for (const {time, values} of this.points) {
      let sum = 0;
      for (const [i, name] of this.names.entries()) {
        const value = values?.[name] ?? 0;
        if (!value) continue;
        context.fillStyle = paint(i);
        context.fillRect(x(time) - wide, y(sum + value), wide, y(sum) - y(sum + value));
        sum += value;
      }
    }
  }
}
