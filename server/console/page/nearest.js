// A form that finds the rows of a table nearest to one of its rows, or to a vector, and the list of the rows found.

import {Problem, Unreachable} from "./api.js";
import {run} from "./background.js";
import {extremes} from "./colours.js";
import {el, labelled, markInvalid, replace, select} from "./dom.js";
import {errorView} from "./error_view.js";
import {isInteger, partOf} from "./keys.js";
import {bytes, element, grouped} from "./numbers.js";
import {inputOf, listOps, tableOp, tablePath} from "./ops.js";
import {runOp} from "./run_op.js";
import {mostCells, nestedText, numel, toNumber} from "./tensor.js";

const mostRows = 1000; // in a list of rows
const mostBytes = 1 << 20; // of a file with one vector
const usual = {k: "10", metric: "cosine"}; // not stored in the address
const quantised = ["int8", "uint8"]; // dtypes whose rows mean nothing without a scale

// Returns the parts of the table that are resident beside it, as members of a request.
function partsBeside(table, parts, names) {
  if (!quantised.includes(table.dtype)) return {};
  const beside = parts.map((part) => [part, partOf(table.name, part)]).filter(([, name]) => names.includes(name));
  return Object.fromEntries(beside.map(([part, name]) => [part, {ref: name}]));
}

// Draws a score as a bar from zero. `low` and `high`: the ends of the scale, which include zero.
function bar(score, low, high) {
  const part = el("i", {class: score < 0 ? "below" : null});
  const share = (length) => `${high > low ? (100 * length) / (high - low) : 0}%`;
  part.style.marginLeft = share(Math.min(score, 0) - low);
  part.style.width = share(Math.abs(score));
  return el("div", {class: "score-bar", "aria-hidden": "true"}, Number.isFinite(score) ? part : null);
}

export class NearestRows {
  // `names`: the names of all tables; `wanted`: {near, k, metric} from the address, where `near` is a row; keep() stores these members
  // after a search. The node stays hidden if the rows of the table cannot be compared.
  constructor(table, names, wanted, keep) {
    Object.assign(this, {table, names, wanted, keep});
    this.node = el("section", {class: "nearest", "aria-label": "nearest rows", hidden: true});
  }

  async open() {
    try {
      this.op = await tableOp("nearest_rows");
      this.parts = partsBeside(this.table, (await listOps()).table_parts, this.names);
      if (!this.isPossible()) return;
      this.draw();
      if (this.wanted.near) this.searchFrom(this.rowNamed(this.wanted.near));
    } catch (error) {
      replace(this.node, el("p", {class: "problem-text", role: "alert"}, error.message));
    }
    this.node.hidden = false;
  }

  isPossible() {
    const {dtype, shape} = this.table;
    return shape.length === 2 && numel(shape) > 0 && inputOf(this.op, "table").dtypes.includes(dtype) && (!quantised.includes(dtype) || this.parts.scale !== undefined);
  }

  draw() {
    const {keys, shape: [, width]} = this.table, row = keys ? "key" : "row number";
    this.kind = select([[row, "row"], ["vector", "vector"]], "row", {onchange: () => this.kindChosen()});
    this.text = el("input", {type: "text", required: true, spellcheck: "false", autocomplete: "off", inputmode: keys ? "text" : "numeric", oninput: () => this.forgive()});
    this.vector = el("textarea", {rows: 2, spellcheck: "false", autocomplete: "off", placeholder: "[0.5, 1, …]", oninput: () => {
      this.file.value = "";
      this.forgive();
    }});
    this.file = el("input", {type: "file", accept: ".npy,.safetensors,.json", onchange: () => this.takeFile(this.file.files[0])});
    this.k = el("input", {type: "number", required: true, min: 1, max: mostRows, value: /^\d+$/.test(this.wanted.k) ? this.wanted.k : usual.k});
    this.metric = select(this.op.attributes.find((attribute) => attribute.name === "metric").values, this.wanted.metric || usual.metric);
    this.rowField = labelled(keys && keys !== "string" ? `key (${keys})` : row, this.text);
    this.vectorFields = el("div", {class: "vector", hidden: true}, labelled(`vector of ${grouped(width)} ${width === 1 ? "number" : "numbers"}`, this.vector), labelled("or a file with the vector", this.file));
    this.told = el("p", {class: "help", role: "status"});
    this.found = el("div", {});
    const takesVector = width <= mostCells; // more numbers do not fit into a field
    const form = el("form", {class: "row", onsubmit: (event) => {
      event.preventDefault();
      this.search();
    }}, takesVector ? labelled("search by", this.kind) : null, this.rowField, this.vectorFields, labelled("rows (k)", this.k), labelled("metric", this.metric), el("button", {type: "submit"}, "Search"));
    replace(this.node, el("h3", {}, "Nearest rows"), form, this.told, this.found);
    if (!takesVector) return;
    this.node.addEventListener("dragover", (event) => event.preventDefault());
    this.node.addEventListener("drop", (event) => {
      event.preventDefault();
      this.takeFile(event.dataTransfer.files[0]);
    });
  }

  kindChosen() {
    const isVector = this.kind.value === "vector";
    this.rowField.hidden = isVector;
    this.text.required = !isVector; // a hidden field that is required and empty would stop the form without a message
    this.vectorFields.hidden = !isVector;
    this.forgive();
  }

  forgive() {
    for (const field of [this.text, this.vector]) markInvalid(field, false);
  }

  // Returns the row that a text names: a key, or a row number in a table without keys. An integer keeps all its digits.
  rowNamed(text) {
    if (this.table.keys === "string") return text;
    return isInteger(text.trim()) ? BigInt(text.trim()) : text.trim();
  }

  search() {
    if (this.kind.value === "row") this.searchFrom(this.rowNamed(this.text.value));
    else this.searchVector();
  }

  searchFrom(row) {
    const text = String(row), {keys} = this.table;
    this.kind.value = "row";
    this.kindChosen();
    this.text.value = text;
    const said = keys === "string" ? `"${element(row)}"` : keys ? `key ${text}` : `row ${text}`;
    this.ask(said, this.op.inputs.find((input) => input.keys), () => (keys ? {keys: [row]} : [row]), text);
  }

  // `file`: a file whose numbers replace those in the field, or undefined.
  searchVector(file) {
    this.ask("the vector", this.op.inputs.find((input) => !input.part && !input.keys), async (signal) => {
      const text = file ? await this.textOf(file) : this.vector.value;
      if (!signal.aborted) this.vector.value = text;
      return this.readVector(text.trim());
    });
  }

  takeFile(file) {
    if (!file) return;
    this.kind.value = "vector";
    this.kindChosen();
    this.searchVector(file);
  }

  async textOf(file) {
    if (file.size > mostBytes) throw new Error(`${file.name} has ${bytes(file.size)}; a file with one vector has at most ${bytes(mostBytes)}`);
    if (file.name.endsWith(".json")) return file.text();
    const {tensor} = await run("file", {file}, file.size);
    this.checkLength(file.name, tensor);
    return nestedText({shape: [tensor.flat.length], flat: tensor.flat});
  }

  // `typed`: a list in JSON, or numbers separated by blanks or commas.
  async readVector(typed) {
    const text = typed.startsWith("[") ? typed : `[${typed.split(/[\s,;]+/).filter(Boolean)}]`;
    const {tensor} = await run("text", {text, dtype: this.table.dtype === "float64" ? "float64" : "float32"}, text.length).catch((error) => {
      throw error instanceof SyntaxError ? new Error(`the vector is not a list of numbers: ${error.message}`) : error;
    });
    this.checkLength("the vector", tensor);
    return {dtype: tensor.dtype, data: tensor.flat};
  }

  checkLength(name, {shape}) {
    const length = numel(shape), {name: table, shape: [, width]} = this.table;
    if (length !== width) throw new Error(`${name} has ${grouped(length)} ${length === 1 ? "number" : "numbers"}; a row of ${table} has ${grouped(width)}`);
  }

  // `said`: the row or vector to search from; `input`: of the op; value(signal): returns the input's value; `near`: the row, for the address.
  async ask(said, input, value, near) {
    if (!this.k.reportValidity()) return;
    this.running?.abort();
    const {signal} = this.running = new AbortController(), [k, metric] = [this.k.value, this.metric.value];
    this.forgive();
    this.found.setAttribute("aria-busy", "true");
    this.keep({near, k: k === usual.k ? "" : k, metric: metric === usual.metric ? "" : metric});
    try {
      const {read} = await runOp(tablePath(this.table.name, this.op), {[input.name]: await value(signal), ...this.parts, k: Number(k), metric}, {signal});
      if (!signal.aborted) this.show(Object.fromEntries(read.outputs.map(({name, tensor}) => [name, tensor.flat])), said, metric);
    } catch (error) {
      if (!signal.aborted) this.refuse(error, input);
    } finally {
      if (!signal.aborted) this.found.removeAttribute("aria-busy");
    }
  }

  // `indices`: of rows, or −1 after the last row that qualified.
  show({scores, indices, keys}, said, metric) {
    const n = indices.filter((index) => index >= 0).length, numbers = scores.slice(0, n).map(toNumber), [least, most] = extremes(numbers);
    replace(this.told, `${grouped(n)} ${n === 1 ? "row" : "rows"} nearest to ${said} by ${metric}${n > 1 ? ", the nearest first" : ""}.${n ? " Select a row to search from it." : ""}`);
    const rows = keys ?? indices;
    const line = (score, i) => el("tr", {}, el("td", {class: "text"}, el("button", {type: "button", class: "link", onclick: () => this.searchFrom(rows[i])}, element(rows[i]))),
      keys ? el("td", {class: "row-number"}, String(indices[i])) : null, el("td", {}, element(scores[i])), el("td", {}, bar(score, Math.min(least, 0), Math.max(most, 0))));
    const heads = [...(keys ? [["key"]] : []), ["row", keys ? "number" : null], ["score", "number"]];
    this.replaceFound(n ? el("table", {class: "listing"}, el("caption", {class: "hidden"}, `rows nearest to ${said}`),
      el("thead", {}, el("tr", {}, ...heads.map(([head, kind]) => el("th", {scope: "col", class: kind}, head)), el("td", {}))),
      el("tbody", {}, ...numbers.map(line))) : null);
  }

  refuse(error, input) {
    const isAboutField = error instanceof Problem ? error.document.input === input.name : !(error instanceof Unreachable);
    replace(this.told);
    markInvalid(this.kind.value === "vector" ? this.vector : this.text, isAboutField);
    this.replaceFound(errorView(error));
  }

  // If the focus is in this view, scrolls to the result, and moves the focus from a row that is replaced to the new list.
  replaceFound(content) {
    const {activeElement: focused} = document, isHere = this.node.contains(focused), isInList = this.found.contains(focused);
    replace(this.found, content);
    if (isInList) (this.found.querySelector("button") ?? this.text).focus();
    if (isHere) this.node.scrollIntoView({block: "nearest"});
  }
}
