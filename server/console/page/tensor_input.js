// The fields of one input tensor: typed values, a dropped file, a resident table, or keys in place of row numbers.

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

const mostNames = 1000; // of a file's tensors to list
const mostBytes = 1 << 20; // of a resident table whose cells are shown; strings can be long

export class TensorInput {
  // `spec`: an input of /v1/ops, or one with a `dtype`, which the user cannot change; `label`: its name, with its index in a list; `help`: its summary, or "";
  // `tables`: returns the resident tables by name; onchange: called when the request changes; onparsed: called when the shape is known.
  // `ready`: a promise that resolves when the shape is known, or null.
  constructor(spec, label, {help, onchange, onparsed, tables}) {
    Object.assign(this, {spec, label, help, onchange, onparsed, tables, held: null, cells: null, shape: null, dtype: null, before: null});
    this.kind = select(this.kinds(), "values", {onchange: () => this.kindChosen()});
    this.dtypes = select(spec.dtype ? [spec.dtype] : [["inferred", ""], ...spec.dtypes], "", {onchange: () => this.changed()});
    this.text = el("textarea", {rows: 4, spellcheck: "false", autocomplete: "off", oninput: () => this.typedIn(), onpaste: (event) => this.pasted(event)});
    this.list = el("datalist", {id: uniqueId("tables")});
    this.name = el("input", {type: "text", list: this.list.id, spellcheck: "false", autocomplete: "off", placeholder: "name of a table",
      oninput: () => this.changed(), onfocus: () => this.offerTables()});
    this.problem = el("p", {class: "problem-text", role: "alert"});
    this.fault = el("p", {class: "problem-text"}); // an error from the server; the error view has the alert role
    for (const control of [this.text, this.name]) for (const text of [this.problem, this.fault]) describedAlso(control, text);
    this.kindOfValues = el("span", {class: "type"});
    this.preview = el("div", {class: "preview"});
    if (spec.keys || isKeyQuery(spec))
      this.keySearch = new KeySearch({isChosen: (key) => this.chosenKeys().includes(key), ontoggle: (key) => this.toggleKey(key)});
    this.node = this.draw();
  }

  chooseDtype(dtype) {
    if (!this.spec.dtype) this.dtypes.value = this.spec.dtypes.includes(dtype) ? dtype : "";
  }

  tableName() {
    return this.kind.value === "table" ? this.name.value.trim() : "";
  }

  // Returns the keys in the typed list. Row numbers do not count.
  chosenKeys() {
    if (this.kind.value !== (this.spec.keys ? "keys" : "values")) return [];
    return this.shape?.length === 1 && this.cells ? this.cells : [];
  }

  toggleKey(key) {
    const chosen = this.chosenKeys(), left = chosen.includes(key) ? chosen.filter((other) => other !== key) : [...chosen, key];
    const before = chosen.length || this.isEmpty() ? this.before : this.contents();
    if (before !== this.before) notify(`${this.label}: keys replace the previous contents, which return when no key is selected.`);
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

  // Swaps the keys with the contents they replaced.
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
    this.choiceField = labelled("tensor in the file", this.choice);
    this.choiceField.hidden = true;
    const node = el("fieldset", {class: "tensor-input"},
      el("legend", {}, this.label, this.spec.optional ? el("span", {class: "optional"}, " optional") : null, " ", this.kindOfValues),
      this.help ? el("p", {class: "help"}, this.help) : null,
      el("div", {class: "row"}, labelled("from", this.kind), this.spec.dtype ? null : labelled("dtype", this.dtypes), labelled("file", this.file), this.choiceField),
      this.values = labelled("values (nested list)", this.text),
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

  // Does nothing if the user chose another file or changed the field in the meantime.
  async takeFile(file, wanted, reading) {
    try {
      const {tensor, names, request} = await run("file", {file, wanted}, file.size);
      if (this.reading !== reading) return;
      this.dropped = file;
      this.choiceField.hidden = names.length === 1;
      replace(this.choice, ...names.slice(0, mostNames).map((name) => el("option", {value: name, selected: name === tensor.name}, name)));
      this.kind.value = "values";
      this.chooseDtype(tensor.dtype);
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

  // Called when the field's new contents do not come from the chosen file.
  forgetFile() {
    this.reading = this.dropped = null;
    this.file.value = "";
    this.choiceField.hidden = true;
  }

  // Keeps a large pasted text outside the field, which would take long to show it.
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

  // `held`: contents that the empty field stands for: {tensor, request} from a file, or {text, blob}; `said`: their description.
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

  // Sets the field from a request: a nested list, or one of the API's tensor objects. `text`: the value as written in the request.
  set(value, text) {
    const object = value && typeof value === "object" && !Array.isArray(value);
    this.forgetFile();
    this.before = null;
    this.hold(null);
    this.kind.value = object && value.ref !== undefined ? "table" : object && value.keys !== undefined ? "keys" : "values";
    this.name.value = object && value.ref !== undefined ? value.ref : "";
    this.chooseDtype(object && value.dtype);
    const nested = object ? value.data ?? value.keys ?? fromBase64(value) : value;
    const parts = text && object ? json.written(text) : {}, own = object ? parts.data ?? parts.keys : text;
    this.text.value = nested === undefined ? "" : own && !value?.shape ? own : asText(nested, value?.shape);
    this.changed(true);
  }

  // Replaces a JSON string in the field with the text it stands for.
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

  // Returns the tensor as a member of the request, in text and Blobs. The user's own text stays as typed.
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

  // Reads the field and shows its cells. Reports an error only if the field is not empty.
  parse() {
    this.cells = this.shape = this.dtype = this.grid = null;
    this.invalid = false; // true if the text is not JSON; it is not sent then
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

  // Shows the shape of a resident table, and its cells if it is small.
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
    replace(this.problem, error instanceof SyntaxError ? `This is not JSON yet: ${error.message}` : error.message);
  }

  light(indices) {
    this.grid?.light(indices);
  }

  // Returns the cells around the highlighted ones if those are out of sight, or null.
  excerptOf(indices) {
    if (!this.cells || indices.length === 0 || isInSight(this.node.querySelector("td.lit"))) return null;
    return excerpt({dtype: this.dtype, shape: this.shape, flat: this.cells}, this.label, indices);
  }

  // Shows an error of this input and marks the cells if they are known; null removes the error.
  blame(sentence, cells = []) {
    for (const control of [this.text, this.name]) markInvalid(control, sentence !== null || this.refused);
    replace(this.fault, sentence);
    this.grid?.mark(cells);
  }

  // Returns the index of the cell that a pointer's steps after the input's name lead to, or -1 if they do not lead to one cell.
  cellAtSteps(steps) {
    const place = (steps[0] === "data" || steps[0] === "keys" ? steps.slice(1) : steps).map(Number);
    const rank = this.shape?.length ?? -1, own = place.slice(0, rank); // a complex element is a list itself
    return own.length === rank && own.every((at, axis) => at < this.shape[axis]) ? indexOf(own, this.shape) : -1;
  }
}

// True for an input that takes keys only.
const isKeyQuery = (spec) => spec.role === "key" && spec.part === "query";

// Returns the elements of a tensor sent as base64, or undefined for strings, whose bytes also hold lengths.
function fromBase64({dtype, base64}) {
  return base64 === undefined || !sizeOf[dtype] ? undefined : elementsOf(dtype, Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0)));
}

// `shape`: of a typed tensor, whose elements can be one flat list.
function asText(nested, shape) {
  try {
    const flat = flatten(nested);
    return nestedText(shape && flat.shape.length === 1 && numel(shape) === flat.flat.length ? {shape, flat: flat.flat} : flat);
  } catch {
    return json.stringify(nested);
  }
}
