// Draws a program as a graph: inputs, tables, steps and outputs as boxes, and references as arrows.

import {el, svg, uniqueId} from "./dom.js";
import {layout} from "./graph_layout.js";
import {typeOf} from "./program_facts.js";

const letter = 7.3, line = 16, padding = 8, narrowest = 132, perResult = 104; // pixels

// Leaves out the middle of a text that is too long.
const shortened = (text, width) => {
  const most = Math.floor((width - padding) / letter), half = Math.max(Math.floor((most - 1) / 2), 1);
  return text.length > most ? `${text.slice(0, half)}…${text.slice(-half)}` : text;
};

// Returns the number of a step as the page shows it, counted from 1. The server counts from 0.
const stepTitle = (step, at) => `${at} ${step.op || "no op"}`;

function boxOf(kind, id, title, columns, facts, label) {
  const rows = [[title], ...columns.length ? [columns.map(([name]) => name), columns.map(([, type]) => type)] : [], ...facts ? [[facts]] : []];
  const width = Math.max(narrowest, perResult * columns.length, ...columns.length < 2 ? [rows.reduce((most, [text]) => Math.max(most, text.length), 0) * letter + 2 * padding] : []);
  return {kind, id, rows, label, width: Math.min(width, perResult * Math.max(columns.length, 2)), height: rows.length * line + 2 * padding};
}

// Returns the boxes and arrows: {boxes: [{kind, id, rows, label, where}], arrows: [{from, port, to}]}.
export function graphOf(program, facts) {
  const boxes = [], arrows = [], makers = new Map(), tables = new Map(), early = new Set(); // boxes that depend on an input
  const add = (where, box) => boxes.push({...box, where}) - 1;
  for (const {name} of program.inputs) {
    const type = typeOf(facts.types.get(name));
    makers.set(name, {from: add("", boxOf("input", name, name, [], type || "input", `input ${name} ${type}`)), port: 0.5});
    early.add(makers.get(name).from);
  }
  for (const table of new Set(program.steps.flatMap(({sources}) => sources.map((source) => source.table)).filter((table) => table !== undefined)))
    tables.set(table, {from: add("late", boxOf("table", table, table, [], "table", `table ${table}`)), port: 0.5});
  program.steps.forEach((step, at) => {
    const columns = step.results.map(({name}) => [name, typeOf(facts.types.get(name))]);
    const taken = [...new Set(step.sources.map(({name, table}) => (table === undefined ? name : `table ${table}`)).filter(Boolean))];
    const told = columns.map((texts) => texts.join(" ")).join(", "), cost = facts.costOf(at);
    const from = step.sources.map(({name, table}) => (table === undefined ? makers.get(name) : tables.get(table))).filter(Boolean);
    const where = from.some((source) => early.has(source.from)) ? "" : "late";
    const to = add(where, boxOf("step", at, stepTitle(step, at), columns, cost, `step ${at}: ${step.op} of ${taken.join(", ") || "values"}, gives ${told || "nothing"}${cost ? `; ${cost}` : ""}`));
    if (!where) early.add(to);
    for (const source of from) arrows.push({...source, to});
    step.results.forEach(({name}, i) => makers.set(name, {from: to, port: (i + 0.5) / step.results.length}));
  });
  for (const name of new Set(program.outputs))
    arrows.push({...makers.get(name), to: add("last", boxOf("output", name, name, [], "output", `output ${name} ${typeOf(facts.types.get(name))}`))});
  return {boxes, arrows};
}

// Returns a curve through the points, which leaves and reaches each of them vertically.
const pathOf = ([{x, y}, ...rest]) => rest.reduce(({d, x: fromX, y: fromY}, to) => {
  const middle = (fromY + to.y) / 2;
  return {d: `${d} C ${fromX} ${middle} ${to.x} ${middle} ${to.x} ${to.y}`, ...to};
}, {d: `M ${x} ${y}`, x, y}).d;

function drawTexts({rows, width}) {
  return rows.flatMap((texts, row) => texts.map((text, column) => svg("text", {class: row ? "fact" : "title", "text-anchor": "middle",
    x: ((column + 0.5) * width) / texts.length, y: padding + (row + 0.75) * line}, shortened(text, width / texts.length))));
}

export class ProgramGraph {
  // onchoose(box): called when the user focuses a box {kind, id}.
  constructor(program, facts, onchoose) {
    Object.assign(this, {...graphOf(program, facts), onchoose});
    this.place = layout(this.boxes, this.arrows);
    this.nodes = this.boxes.map((box, at) => this.drawBox(box, this.place.boxes[at], at));
    this.node = this.draw();
  }

  drawBox(box, {x, y, width, height}, at) {
    return svg("g", {class: `box ${box.kind}`, transform: `translate(${x} ${y})`, role: "button", tabindex: at ? -1 : 0, "aria-label": box.label, "data-id": box.id,
      onfocus: () => this.focused(at)}, svg("title", {}, box.label), svg("rect", {width, height, rx: box.kind === "step" ? 6 : height / 2}), ...drawTexts({...box, width}));
  }

  draw() {
    const {width, height, lines} = this.place, head = uniqueId("arrow");
    const marker = svg("marker", {id: head, viewBox: "0 0 8 8", refX: 7, refY: 4, markerUnits: "userSpaceOnUse", markerWidth: 8, markerHeight: 8, orient: "auto"}, svg("path", {class: "head", d: "M 0 0 L 8 4 L 0 8 z"}));
    this.lines = lines.map((points, i) => svg("path", {class: "arrow", d: pathOf(points), "marker-end": `url(#${head})`, "data-from": this.boxes[this.arrows[i].from].label,
      "data-to": this.boxes[this.arrows[i].to].label}));
    const picture = svg("svg", {class: "graph-picture", width: width + 8, height: height + 8, viewBox: `-4 -4 ${width + 8} ${height + 8}`, role: "group", "aria-label": "boxes",
      onkeydown: (event) => this.onKey(event)}, svg("defs", {}, marker), ...this.lines, ...this.nodes);
    return el("div", {class: "graph", role: "group", "aria-label": "graph of the program; the arrow keys move between the boxes"}, picture);
  }

  // Shows the same part of the picture as an earlier graph, or else the middle of the first layers.
  scrollAs(earlier) {
    const {node} = this;
    [node.scrollLeft, node.scrollTop] = earlier ?? [(node.scrollWidth - node.clientWidth) / 2, 0];
  }

  focused(at) {
    this.nodes.forEach((node, i) => node.setAttribute("tabindex", i === at ? 0 : -1));
    this.choose(at);
    this.onchoose(this.boxes[at]);
  }

  // Highlights a box and its arrows.
  choose(at) {
    this.nodes.forEach((node, i) => node.setAttribute("aria-pressed", String(i === at)));
    this.lines.forEach((node, i) => node.classList.toggle("chosen", this.arrows[i].from === at || this.arrows[i].to === at));
  }

  // Returns the number of the box, or -1.
  indexOf(kind, id) {
    return this.boxes.findIndex((box) => box.kind === kind && box.id === id);
  }

  // Highlights a step in answer to a choice elsewhere.
  show(step) {
    const at = this.indexOf("step", step);
    this.choose(at);
    this.nodes[at]?.scrollIntoView({block: "nearest", inline: "nearest"});
  }

  // Marks the box at which an error happened; no box if there is none of this kind and id.
  blame(kind, id) {
    const bad = this.indexOf(kind, id);
    this.nodes.forEach((node, at) => node.classList.toggle("bad", at === bad));
  }

  // Moves to the nearest box of the layer above or below, or beside in the same layer.
  onKey(event) {
    const at = this.nodes.indexOf(event.target.closest("g.box")), step = {ArrowUp: -1, ArrowDown: 1}[event.key], aside = {ArrowLeft: -1, ArrowRight: 1}[event.key];
    if (at < 0 || !(step || aside)) return;
    event.preventDefault();
    const {x, width, layer} = this.place.boxes[at], middle = x + width / 2;
    const away = (other) => (other.x + other.width / 2 - middle) * (aside ?? 1);
    const found = this.place.boxes.map((other, i) => ({i, other, far: aside ? away(other) : Math.abs(away(other))}))
      .filter(({i, other, far}) => i !== at && other.layer === layer + (step ?? 0) && (!aside || far > 0)).sort((a, b) => a.far - b.far);
    if (found.length) this.nodes[found[0].i].focus();
  }
}
