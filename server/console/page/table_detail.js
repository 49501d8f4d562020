// The view of one resident tensor: statistics, any of its rows, the same rows of another tensor for comparison, and nearest rows.

import * as api from "./api.js";
import {css, extremes, scaleOf} from "./colours.js";
import {el, labelled, notify, replace, uniqueId} from "./dom.js";
import {grid} from "./grid.js";
import {heatmap} from "./heatmap.js";
import * as json from "./json.js";
import {KeySearch} from "./key_search.js";
import {NearestRows} from "./nearest.js";
import {bytes, element, grouped} from "./numbers.js";
import {tableRequest} from "./ops.js";
import {runOp} from "./run_op.js";
import {cellAt, mostCells, numel, toNumber, typeText} from "./tensor.js";

const mostRows = 1000;

const path = (name) => `/v1/tensors/${encodeURIComponent(name)}`;

const shownMembers = [["numel", "elements"], ["min", "minimum"], ["max", "maximum"], ["mean", "mean"], ["std", "standard deviation"], ["l2_norm", "L2 norm"],
  ["zeros", "zeros"], ["true", "true"], ["nans", "NaN"], ["positive_infinities", "+infinity"], ["negative_infinities", "−infinity"],
  ["bytes", "bytes of text"], ["shortest", "shortest"], ["longest", "longest"]];

function list(statistics) {
  const pairs = shownMembers.filter(([member]) => statistics[member] !== undefined && statistics[member] !== null);
  return el("dl", {class: "facts"}, ...pairs.flatMap(([member, text]) => [el("dt", {}, text),
    el("dd", {}, typeof statistics[member] === "number" && Number.isInteger(statistics[member]) ? grouped(statistics[member]) : element(statistics[member]))]));
}

const meansOf = {elements: "means", absolute: "means of absolute values", lengths: "mean lengths in bytes"};

// Draws the means of blocks as a picture of the whole tensor.
function strip({blocks, values}, name) {
  const rows = blocks.means.length, columns = rows ? blocks.means[0].length : 0;
  if (!rows || !columns) return null;
  const numbers = blocks.means.flat().map((value) => (value === null ? NaN : toNumber(value)));
  const [least, most] = extremes(numbers), scale = scaleOf(least, most), means = meansOf[values];
  const canvas = el("canvas", {class: "heatmap strip", width: columns, height: rows, role: "img",
    "aria-label": `${means} by block (${rows} by ${columns} blocks) of ${name}, from ${element(least)} to ${element(most)}`});
  const context = canvas.getContext("2d"), image = context.createImageData(columns, rows);
  numbers.forEach((value, at) => image.data.set([...scale(value), 255], at * 4));
  context.putImageData(image, 0, 0);
  const lens = el("output", {class: "lens"}, `${means} by block, ${element(least)} to ${element(most)}`);
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    const row = Math.floor(((event.clientY - box.top) / box.height) * rows), column = Math.floor(((event.clientX - box.left) / box.width) * columns);
    if (row >= 0 && row < rows && column >= 0 && column < columns)
      replace(lens, `rows ${blocks.rows[row]} to ${blocks.rows[row + 1] - 1}, elements ${blocks.columns[column]} to ${blocks.columns[column + 1] - 1}: mean ${element(numbers[row * columns + column])}`);
  });
  const ramp = Array.from({length: 24}, () => el("i", {}));
  ramp.forEach((step, i) => {
    step.style.background = css(scale(least + ((most - least) * i) / 23));
  });
  return el("figure", {class: "picture"}, canvas, el("figcaption", {}, el("span", {class: "ramp", "aria-hidden": "true"}, ...ramp), lens));
}

async function drawStatistics(node, name) {
  replace(node, el("p", {class: "help"}, "computing"));
  const statistics = await api.getJson(`${path(name)}/statistics`);
  replace(node, list(statistics), statistics.blocks ? strip(statistics, name) : null);
}

// Parses row numbers such as "0-9, 12", or keys, into queries.
function queriesOf(text, isKey, rows) {
  if (isKey) return {keys: new json.Raw(text.trim().startsWith("[") ? text : `[${/^-?\d+$/.test(text.trim()) ? text.trim() : JSON.stringify(text.trim())}]`)};
  const ranges = text.split(",").map((part) => {
    if (!/^\d+(-\d+)?$/.test(part.trim())) throw new Error(`"${part.trim()}" is neither a row number nor a range such as 0-9`);
    const [begin, end = begin] = part.trim().split("-").map(Number);
    if (begin >= rows) throw new Error(`there is no row ${begin}: the table has ${grouped(rows)}`);
    return {begin, length: Math.max(0, Math.min(end, rows - 1) - begin + 1)};
  });
  const wanted = ranges.reduce((sum, {length}) => sum + length, 0);
  if (wanted > mostRows) throw new Error(`${grouped(wanted)} rows requested; at most ${grouped(mostRows)} can be shown`);
  return ranges.flatMap(({begin, length}) => Array.from({length}, (_, i) => begin + i));
}

// Returns the keys in a field that holds a list of keys.
function keysIn(text) {
  try {
    return [json.parse(text)].flat();
  } catch {
    return [];
  }
}

async function takeRows(name, rows) {
  return (await runOp(...await tableRequest("rows", name, rows))).read.outputs[0].tensor;
}

// Shows the rows as cells or as a heat map; strings are always cells. `labels`: of the rows.
function draw(tensor, name, labels, as) {
  const isPicture = as === "heat map" && tensor.dtype !== "string" && tensor.flat?.length > 1;
  return isPicture ? {node: heatmap({...tensor, rowLabels: labels}, name), light: () => {}} : grid(tensor, name, {rowLabels: labels});
}

// `wanted`: {rows, by, with, as} from the address; keep() stores these members when the user shows something else.
function rowsView(tensor, others, wanted, keep) {
  const rows = tensor.shape[0] ?? 0, width = rows ? numel(tensor.shape) / rows : 0;
  const first = Math.max(0, Math.min(rows, 10, Math.floor(mostCells / Math.max(width, 1))) - 1);
  const text = el("input", {type: "text", value: wanted.rows ?? `0-${first}`, spellcheck: "false"});
  const key = el("input", {type: "checkbox", checked: Boolean(tensor.keys && wanted.by === "key")});
  const other = el("input", {type: "text", list: uniqueId("others"), spellcheck: "false", placeholder: "name of another table", value: wanted.with ?? ""});
  const names = el("datalist", {id: other.getAttribute("list")}, ...others.filter((name) => name !== tensor.name).map((name) => el("option", {value: name})));
  const shown = el("div", {class: "rows", "aria-live": "polite"});
  let showing, as = wanted.as === "heat map" ? "heat map" : "table";
  const forms = ["table", "heat map"].map((form) => el("button", {type: "button", "aria-pressed": String(form === as), onclick: (event) => {
    as = form;
    for (const button of forms) button.setAttribute("aria-pressed", String(button === event.currentTarget));
    show();
  }}, form));
  const show = async () => {
    const mine = showing = {}, name = other.value.trim();
    keep({...(text.value === `0-${first}` ? {} : {rows: text.value}), ...(key.checked ? {by: "key"} : {}), ...(name ? {with: name} : {}), ...(as === "table" ? {} : {as})});
    let parts;
    try {
      const queries = queriesOf(text.value, key.checked, rows), own = await takeRows(tensor.name, queries);
      const labels = key.checked ? keysIn(queries.keys.text).map(String) : queries;
      parts = [el("h4", {}, tensor.name), draw(own, tensor.name, labels, as).node];
      if (name) parts.push(...compare(own, await takeRows(name, queries), name, labels, as));
    } catch (error) {
      parts = [el("p", {class: "problem-text", role: "alert"}, error.message)];
    }
    if (mine === showing) replace(shown, ...parts);
  };
  const form = el("form", {class: "row", onsubmit: (event) => {
    event.preventDefault();
    show();
  }}, labelled("rows, such as 0-9, 12", text), tensor.keys ? el("label", {class: "check"}, key, " by key") : null,
  labelled("compare with", other), names, el("button", {type: "submit"}, "Show"));
  const chosen = () => (key.checked ? keysIn(text.value) : []);
  const search = new KeySearch({isChosen: (one) => chosen().includes(one), ontoggle: (one) => {
    const left = chosen().includes(one) ? chosen().filter((other) => other !== one) : [...chosen(), one];
    key.checked = true;
    text.value = json.stringify(left);
    show();
  }});
  search.of(tensor.keys ? tensor : null);
  if (rows) show();
  return el("section", {"aria-label": "rows"}, el("h3", {}, "Rows"), form, search.node,
    tensor.dtype === "string" ? null : el("div", {class: "forms", role: "group", "aria-label": "rows as"}, ...forms), shown);
}

const isDifferent = (value, other) => value !== other && String(value) !== String(other);

// Shows the same rows of another table and highlights the cells that differ.
function compare(own, other, name, labels, as) {
  const view = draw(other, name, labels, as);
  const same = own.shape.join() === other.shape.join();
  const differing = [];
  if (same && (!own.flat || !other.flat)) return [el("h4", {}, name), el("p", {class: "help"}, "too many strings to compare"), view.node];
  for (let i = 0; same && i < numel(own.shape); i++) if (isDifferent(cellAt(own, i), cellAt(other, i))) differing.push(i);
  if (numel(own.shape) <= mostCells) view.light(differing);
  return [el("h4", {}, name), el("p", {class: "help"}, same ? `${grouped(differing.length)} of ${grouped(numel(other.shape))} cells differ`
    : `cannot compare: its rows have shape [${other.shape.slice(1)}], not [${own.shape.slice(1)}]`), view.node];
}

// `others`: the names of all tables; `wanted`, keep(): see rowsView and NearestRows.
export async function drawDetail(node, tensor, others, wanted, keep) {
  const {near, k, metric} = wanted, kept = {rows: {}, nearest: {near, k, metric}};
  const keepIn = (part) => (shown) => {
    kept[part] = shown;
    keep({...kept.rows, ...kept.nearest});
  };
  const nearest = new NearestRows(tensor, others, wanted, keepIn("nearest"));
  const statistics = el("div", {class: "statistics", "aria-live": "polite"});
  replace(node, el("h2", {}, tensor.name), el("p", {class: "help"}, typeText(tensor.dtype, tensor.shape), `, ${bytes(tensor.bytes)}`,
    tensor.keys ? `, keys ${tensor.keys}` : "", tensor.source ? `, from ${tensor.source}` : "", tensor.persisted ? ", on disk" : ", in memory only", `, change ${grouped(tensor.version)}`),
  statistics, tensor.shape.length ? rowsView(tensor, others, wanted, keepIn("rows")) : null, nearest.node);
  nearest.open();
  try {
    await drawStatistics(statistics, tensor.name);
  } catch (error) {
    replace(statistics, el("p", {class: "problem-text"}, error.message));
    if (!(error instanceof api.Problem)) notify(error.message, "error");
  }
}
