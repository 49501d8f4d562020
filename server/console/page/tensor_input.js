// One tensor of a request: typed as text, dropped as a file, or a resident table; for row numbers also keys.

import {base64, elementsOf, readTensors} from "./files.js";
import {el, labelled, notify, replace, select, uniqueId} from "./dom.js";
import {grid} from "./grid.js";
import * as json from "./json.js";
import {flatten, inferDtype, isComplex, nestedText, numel, typeText} from "./tensor.js";

const mostTyped = 10000; // elements of a file that become text; more are sent as they are

export class TensorInput {
  // `spec`: an input of /v1/ops; `label`: its name, with its place in a list; `tables`: a function that returns the names.
  constructor(spec, label, {onchange, onpoint, tables}) {
    Object.assign(this, {spec, label, onchange, onpoint, tables, file: null, cells: null, shape: null, dtype: null});
    this.kind = select(this.kinds(), "values", {onchange: () => this.changed()});
    this.dtypes = select([["inferred", ""], ...spec.dtypes.map((dtype) => [dtype, dtype])], "", {onchange: () => this.changed()});
    this.text = el("textarea", {rows: 4, spellcheck: "false", autocomplete: "off", oninput: () => this.changed()});
    this.list = el("datalist", {id: uniqueId("tables")});
    this.name = el("input", {type: "text", list: this.list.id, spellcheck: "false", autocomplete: "off", placeholder: "name of a table",
      oninput: () => this.changed(), onfocus: () => this.offerTables()});
    this.problem = el("p", {class: "problem-text", role: "alert"});
    this.kindOfValues = el("span", {class: "type"});
    this.preview = el("div", {class: "preview"});
    this.node = this.draw();
  }

  kinds() {
    const kinds = [["values", "values"], ["table", "table"]];
    return this.spec.keys ? [...kinds, ["keys of rows", "keys"]] : kinds;
  }

  draw() {
    const file = el("input", {type: "file", accept: ".npy,.safetensors", onchange: () => this.readFile(file.files[0])});
    const node = el("fieldset", {class: "tensor-input"},
      el("legend", {}, this.label, this.spec.optional ? el("span", {class: "optional"}, " optional") : null, " ", this.kindOfValues),
      el("p", {class: "help"}, this.spec.summary),
      el("div", {class: "row"}, labelled("from", this.kind), labelled("dtype", this.dtypes), labelled("file", file)),
      this.values = labelled("values, a nested list", this.text),
      this.table = el("div", {hidden: true}, labelled("table", this.name), this.list),
      this.problem, this.preview);
    node.addEventListener("dragover", (event) => event.preventDefault());
    node.addEventListener("drop", (event) => {
      event.preventDefault();
      this.readFile(event.dataTransfer.files[0]);
    });
    return node;
  }

  async offerTables() {
    try {
      replace(this.list, ...(await this.tables()).map((name) => el("option", {value: name})));
    } catch (error) {
      notify(error.message, "error");
    }
  }

  async readFile(file) {
    if (!file) return;
    try {
      const tensors = await readTensors(file);
      if (tensors.length !== 1) notify(`${file.name} has ${tensors.length} tensors; the first, ${tensors[0].name}, is taken.`);
      this.take(tensors[0]);
    } catch (error) {
      notify(error.message, "error");
    }
  }

  take(tensor) {
    this.kind.value = "values";
    this.dtypes.value = this.spec.dtypes.includes(tensor.dtype) ? tensor.dtype : "";
    const small = numel(tensor.shape) <= mostTyped;
    this.file = small ? null : tensor;
    this.text.value = small ? nestedText({shape: tensor.shape, flat: elementsOf(tensor.dtype, tensor.bytes)}) : "";
    this.changed(true);
  }

  // From a request: a nested list, or an object of one of the forms of the API.
  set(value) {
    const object = value && typeof value === "object" && !Array.isArray(value);
    this.file = null;
    this.kind.value = object && value.ref !== undefined ? "table" : object && value.keys !== undefined ? "keys" : "values";
    this.name.value = object && value.ref !== undefined ? value.ref : "";
    this.dtypes.value = object && value.dtype && this.spec.dtypes.includes(value.dtype) ? value.dtype : "";
    const nested = object ? value.data ?? value.keys : value;
    this.text.value = nested === undefined ? "" : asText(nested, value.shape);
    this.changed(true);
  }

  isEmpty() {
    return this.kind.value === "table" ? this.name.value.trim() === "" : !this.file && this.text.value.trim() === "";
  }

  // The member of the request, as text; the user's own text stays as it is.
  requestText() {
    if (this.kind.value === "table") return json.stringify({ref: this.name.value.trim()});
    if (this.file) return json.stringify({dtype: this.file.dtype, shape: this.file.shape, base64: base64(this.file.bytes)});
    const text = new json.Raw(this.text.value.trim());
    if (this.kind.value === "keys") return json.stringify({keys: text});
    return this.dtypes.value ? json.stringify({dtype: this.dtypes.value, data: text}) : text.text;
  }

  changed(quiet = false) {
    const table = this.kind.value === "table";
    this.table.hidden = !table;
    this.values.hidden = table;
    this.parse();
    if (!quiet) this.onchange();
  }

  // What is typed, as cells to be shown; an error only if there is something that is no list yet.
  parse() {
    this.cells = this.shape = this.dtype = null;
    replace(this.problem);
    replace(this.preview);
    replace(this.kindOfValues);
    if (this.kind.value === "table" || this.isEmpty()) return;
    try {
      const {shape, flat, dtype} = this.file ? {...this.file, flat: elementsOf(this.file.dtype, this.file.bytes)} : this.typed();
      Object.assign(this, {shape, dtype, cells: flat});
      replace(this.kindOfValues, typeText(dtype, shape));
      this.grid = grid({dtype, shape, flat}, this.label, {onpoint: (index) => this.onpoint(index)});
      replace(this.preview, this.grid.node);
    } catch (error) {
      replace(this.problem, error instanceof SyntaxError ? `This is no JSON yet: ${error.message}` : error.message);
    }
  }

  typed() {
    const dtype = this.dtypes.value;
    const {shape, flat} = flatten(json.parse(this.text.value), isComplex(dtype));
    return {shape, flat, dtype: dtype || inferDtype(flat, this.spec.role === "index")};
  }

  light(indices) {
    if (this.cells) this.grid.light(indices);
  }

  mark(indices) {
    if (this.cells) this.grid.mark(indices);
  }
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
