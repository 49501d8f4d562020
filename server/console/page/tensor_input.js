// One tensor of a request: typed as text, dropped as a file, or a resident table; for row numbers also keys.

import * as api from "./api.js";
import {isLarge, run} from "./background.js";
import {describedAlso, el, isInSight, labelled, markInvalid, notify, replace, select, uniqueId} from "./dom.js";
import {excerpt} from "./excerpt.js";
import {elementsOf, sizeOf} from "./files.js";
import {grid} from "./grid.js";
import {KeySearch} from "./key_search.js";
import * as json from "./json.js";
import {bytes, count} from "./numbers.js";
import {readText} from "./tasks.js";
import {flatten, fromReply, indexOf, mostCells, nestedText, numel, typeText} from "./tensor.js";

const mostNames = 1000; // of the tensors of a file
const mostBytes = 1 << 20; // of a resident table that is shown: strings may be long

export class TensorInput {
  // `spec`: an input of /v1/ops; `label`: its name, with its place in a list; `help`: what it is, or ""; `tables`: a function that returns the resident tables by name;
  // onchange: the request has changed; onparsed: the shape of what was typed is known. `ready`: a promise of that, while it is not.
  constructor(spec, label, {help, onchange, onparsed, tables}) {
    Object.assign(this, {spec, label, help, onchange, onparsed, tables, held: null, cells: null, shape: null, dtype: null, before: null});
    this.kind = select(this.kinds(), "values", {onchange: () => this.kindChosen()});
    this.dtypes = select([["inferred", ""], ...spec.dtypes.map((dtype) => [dtype, dtype])], "", {onchange: () => this.changed()});
    this.text = el("textarea", {rows: 4, spellcheck: "false", autocomplete: "off", oninput: () => this.typedIn(), onpaste: (event) => this.pasted(event)});
    this.list = el("datalist", {id: uniqueId("tables")});
    this.name = el("input", {type: "text", list: this.list.id, spellcheck: "false", autocomplete: "off", placeholder: "name of a table",
      oninput: () => this.changed(), onfocus: () => this.offerTables()});
    this.problem = el("p", {class: "problem-text", role: "alert"});
    this.fault = el("p", {class: "problem-text"}); // what the server says of it; the answer has the alert
    for (const control of [this.text, this.name]) for (const text of [this.problem, this.fault]) describedAlso(control, text);
    this.kindOfValues = el("span", {class: "type"});
    this.preview = el("div", {class: "preview"});
    if (spec.keys || isKeyQuery(spec))
      this.keySearch = new KeySearch({isChosen: (key) => this.chosenKeys().includes(key), ontoggle: (key) => this.toggleKey(key)});
    this.node = this.draw();
  }

  tableName() {
    return this.kind.value === "table" ? this.name.value.trim() : "";
  }

  // Those in the list that is typed; row numbers are none.
  chosenKeys() {
    if (this.kind.value !== (this.spec.keys ? "keys" : "values")) return [];
    return this.shape?.length === 1 && this.cells ? this.cells : [];
  }

  toggleKey(key) {
    const chosen = this.chosenKeys(), left = chosen.includes(key) ? chosen.filter((other) => other !== key) : [...chosen, key];
    const before = chosen.length || this.isEmpty() ? this.before : this.contents();
    if (before !== this.before) notify(`${this.label}: keys take the place of what was there; it comes back when none is chosen.`);
    if (left.length) this.set({[this.spec.keys ? "keys" : "data"]: left});
    else this.restore(before);
    this.before = left.length ? before : null;
    this.onchange();
  }

  contents(kind = this.kind.value) {
    return {kind, text: this.text.value, dtype: this.dtypes.value, name: this.name.value, held: this.held};
  }

  // `contents`: null for an empty field.
  restore(contents) {
    this.set(undefined);
    if (!contents) return;
    this.kind.value = contents.kind;
    this.text.value = contents.text;
    this.dtypes.value = contents.dtype;
    this.name.value = contents.name;
    this.hold(contents.held);
    this.changed(true);
  }

  // Back to what chosen keys have replaced, and to the keys again.
  kindChosen() {
    if (this.before?.kind === this.kind.value && this.shownKind !== this.kind.value) {
      const now = this.contents(this.shownKind);
      this.restore(this.before);
      this.before = now;
    }
    this.changed();
  }

  kinds() {
    const kinds = [["values", "values"], ["table", "table"]];
    return this.spec.keys ? [...kinds, ["keys of rows", "keys"]] : kinds;
  }

  draw() {
    this.file = el("input", {type: "file", accept: ".npy,.safetensors", onchange: () => this.readFile(this.file.files[0])});
    this.choice = el("select", {onchange: () => this.readFile(this.dropped, this.choice.value)});
    this.choiceField = labelled("tensor of the file", this.choice);
    this.choiceField.hidden = true;
    const node = el("fieldset", {class: "tensor-input"},
      el("legend", {}, this.label, this.spec.optional ? el("span", {class: "optional"}, " optional") : null, " ", this.kindOfValues),
      this.help ? el("p", {class: "help"}, this.help) : null,
      el("div", {class: "row"}, labelled("from", this.kind), labelled("dtype", this.dtypes), labelled("file", this.file), this.choiceField),
      this.values = labelled("values, a nested list", this.text),
      this.table = el("div", {hidden: true}, labelled("table", this.name), this.list),
      this.keySearch?.node, this.problem, this.fault, this.preview);
    node.addEventListener("dragover", (event) => event.preventDefault());
    node.addEventListener("drop", (event) => {
      event.preventDefault();
      this.readFile(event.dataTransfer.files[0]);
    });
    return node;
  }

  async offerTables() {
    try {
      replace(this.list, ...[...(await this.tables()).keys()].map((name) => el("option", {value: name})));
    } catch (error) {
      notify(error.message, "error");
    }
  }

  readFile(file, wanted) {
    if (!file) return;
    this.ready = this.takeFile(file, wanted, this.reading = {});
    replace(this.kindOfValues, "reading");
  }

  // Nothing, if another file was chosen or the field was changed meanwhile.
  async takeFile(file, wanted, reading) {
    try {
      const {tensor, names, request} = await run("file", {file, wanted}, file.size);
      if (this.reading !== reading) return;
      this.dropped = file;
      this.choiceField.hidden = names.length === 1;
      replace(this.choice, ...names.slice(0, mostNames).map((name) => el("option", {value: name, selected: name === tensor.name}, name)));
      this.kind.value = "values";
      this.dtypes.value = this.spec.dtypes.includes(tensor.dtype) ? tensor.dtype : "";
      this.hold(request ? {tensor, request, said: `${file.name}, ${bytes(file.size)}`} : null);
      this.text.value = request ? "" : nestedText(tensor);
      this.before = null;
      this.changed();
      await this.ready;
    } catch (error) {
      if (this.reading !== reading) return;
      this.changed(true);
      notify(error.message, "error");
    }
  }

  // What the field gets now is not of the file that was chosen.
  forgetFile() {
    this.reading = this.dropped = null;
    this.file.value = "";
    this.choiceField.hidden = true;
  }

  // A text that the field would need long to show is kept beside it.
  pasted(event) {
    const pasted = event.clipboardData.getData("text"), {value, selectionStart, selectionEnd} = this.text;
    if (!isLarge(pasted.length)) return;
    event.preventDefault();
    const text = value.slice(0, selectionStart) + pasted + value.slice(selectionEnd);
    this.forgetFile();
    this.forgetBefore();
    this.hold({text, said: `text of ${count(text.length)} characters`});
    this.text.value = "";
    this.changed();
  }

  // `held`: what the field stands for while it is empty: {tensor, request} of a file, or {text, blob}; `said`: what it is.
  hold(held) {
    this.held = held;
    this.text.placeholder = held ? `${held.said}; type here to replace it` : "";
  }

  typedIn() {
    this.forgetFile();
    this.forgetBefore();
    this.hold(null);
    this.changed();
  }

  forgetBefore() {
    if (this.before?.kind === this.kind.value) this.before = null;
  }

  // From a request: a nested list, or an object of one of the forms of the API. `text`: as it is written there.
  set(value, text) {
    const object = value && typeof value === "object" && !Array.isArray(value);
    this.forgetFile();
    this.before = null;
    this.hold(null);
    this.kind.value = object && value.ref !== undefined ? "table" : object && value.keys !== undefined ? "keys" : "values";
    this.name.value = object && value.ref !== undefined ? value.ref : "";
    this.dtypes.value = object && value.dtype && this.spec.dtypes.includes(value.dtype) ? value.dtype : "";
    const nested = object ? value.data ?? value.keys ?? fromBase64(value) : value;
    const parts = text && object ? json.written(text) : {}, own = object ? parts.data ?? parts.keys : text;
    this.text.value = nested === undefined ? "" : own && !value?.shape ? own : asText(nested, value?.shape);
    this.changed(true);
  }

  // The text that a string in the request stands for.
  setDraft() {
    try {
      this.text.value = String(JSON.parse(this.text.value));
    } catch {
      return;
    }
    this.changed();
  }

  isEmpty() {
    return this.kind.value === "table" ? this.name.value.trim() === "" : !this.held && this.text.value.trim() === "";
  }

  // The member of the request, as texts and Blobs; the user's own text stays as it is.
  requestParts() {
    if (this.kind.value === "table") return [json.stringify({ref: this.name.value.trim()})];
    if (this.held?.request) return [this.held.request];
    const text = this.invalid ? JSON.stringify(this.typedText()) : this.held?.blob ?? this.typedText();
    if (this.kind.value === "keys") return ['{"keys": ', text, "}"];
    return this.dtypes.value ? [`{"dtype": "${this.dtypes.value}", "data": `, text, "}"] : [text];
  }

  typedText() {
    return this.held?.text ?? this.text.value.trim();
  }

  changed(quiet = false) {
    const table = this.kind.value === "table";
    this.shownKind = this.kind.value;
    this.table.hidden = !table;
    this.values.hidden = table;
    this.parse();
    if (!quiet) this.onchange();
  }

  // What is typed, as cells to be shown; an error only if there is something that is no list yet.
  parse() {
    this.cells = this.shape = this.dtype = this.grid = null;
    this.invalid = false; // no JSON: it is not sent
    this.refused = false;
    for (const node of [this.problem, this.preview, this.kindOfValues]) replace(node);
    const parsing = this.parsing = {};
    this.ready = null;
    if (this.isEmpty()) return;
    try {
      if (this.kind.value === "table") this.ready = this.readTable(this.tableName(), parsing);
      else if (this.held?.tensor) this.show(this.held.tensor);
      else if (isLarge(this.typedText().length)) this.ready = this.parseInBackground(parsing);
      else this.show(readText(this.asTyped()));
    } catch (error) {
      this.refuse(error);
    }
  }

  async parseInBackground(parsing) {
    replace(this.kindOfValues, "reading");
    try {
      const given = this.asTyped(), {tensor, blob} = await run("text", given, given.text.length);
      if (this.parsing !== parsing) return;
      if (this.held) this.held.blob = blob;
      this.show(tensor);
      this.onparsed();
    } catch (error) {
      if (this.parsing === parsing) this.refuse(error);
    }
  }

  // A resident table: what it is, and its cells if there are few.
  async readTable(name, parsing) {
    try {
      const table = (await this.tables()).get(name);
      if (!table || this.parsing !== parsing) return;
      const small = numel(table.shape) <= mostCells && table.bytes <= mostBytes;
      const tensor = small ? fromReply(await api.getJson(`/v1/tensors/${encodeURIComponent(name)}?response=nested`)) : null;
      if (this.parsing !== parsing) return;
      if (small) this.show(tensor);
      else this.describe(table);
      this.onparsed();
    } catch (error) {
      if (this.parsing === parsing) this.refuse(error);
    }
  }

  asTyped() {
    return {text: this.typedText(), dtype: this.dtypes.value, isIndex: this.spec.role === "index"};
  }

  describe({dtype, shape}) {
    Object.assign(this, {shape, dtype});
    replace(this.kindOfValues, typeText(dtype, shape));
  }

  show(tensor) {
    this.describe(tensor);
    this.cells = tensor.flat;
    this.grid = grid(tensor, this.label);
    replace(this.preview, this.grid.node);
  }

  refuse(error) {
    this.invalid = error instanceof SyntaxError;
    this.refused = true;
    markInvalid(this.text, true);
    replace(this.kindOfValues);
    replace(this.problem, error instanceof SyntaxError ? `This is no JSON yet: ${error.message}` : error.message);
  }

  light(indices) {
    this.grid?.light(indices);
  }

  // The cells around those that are lit if they are out of sight, or null.
  excerptOf(indices) {
    if (!this.cells || indices.length === 0 || isInSight(this.node.querySelector("td.lit"))) return null;
    return excerpt({dtype: this.dtype, shape: this.shape, flat: this.cells}, this.label, indices);
  }

  // What is wrong with it, and with which cells if that is known; null: nothing is known.
  blame(sentence, cells = []) {
    for (const control of [this.text, this.name]) markInvalid(control, sentence !== null || this.refused);
    replace(this.fault, sentence);
    this.grid?.mark(cells);
  }

  // The cell that the steps of a pointer, from the input on, lead to; -1 if it is no single cell.
  cellAtSteps(steps) {
    const place = (steps[0] === "data" || steps[0] === "keys" ? steps.slice(1) : steps).map(Number);
    const rank = this.shape?.length ?? -1, own = place.slice(0, rank); // an element that is complex is a list itself
    return own.length === rank && own.every((at, axis) => at < this.shape[axis]) ? indexOf(own, this.shape) : -1;
  }
}

// An input that wants keys themselves.
const isKeyQuery = (spec) => spec.role === "key" && spec.part === "query";

// The elements of a tensor that is sent as its bytes; of strings, whose bytes have lengths among them, nothing.
function fromBase64({dtype, base64}) {
  return base64 === undefined || !sizeOf[dtype] ? undefined : elementsOf(dtype, Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0)));
}

// `shape`: that of a typed tensor, whose elements may be in one list.
function asText(nested, shape) {
  try {
    const flat = flatten(nested);
    return nestedText(shape && flat.shape.length === 1 && numel(shape) === flat.flat.length ? {shape, flat: flat.flat} : flat);
  } catch {
    return json.stringify(nested);
  }
}
