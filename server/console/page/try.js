// The form of an op, built from its description, and the result of its request.

import * as api from "./api.js";
import {AttributeInput} from "./attribute_input.js";
import {copy, el, labelled, notify, replace, save, select} from "./dom.js";
import {errorView, stepsOf} from "./error_view.js";
import * as json from "./json.js";
import {keysOf} from "./keys.js";
import {grouped} from "./numbers.js";
import {describe, families, inputOf, listOps, tableRequest} from "./ops.js";
import {PlanView} from "./plan_view.js";
import {bagSources, besideOf, isMoved, productSlices, productSources, queryOf, trace} from "./provenance.js";
import {noteRequest, requestIn} from "./request_address.js";
import {residentTables} from "./resident.js";
import {drawResult} from "./result.js";
import {runOp} from "./run_op.js";
import {bodyFile, languages} from "./snippets.js";
import {push, read} from "./state.js";
import {TensorInput} from "./tensor_input.js";
import {indexOf, outputsOf, placeText, positionOf} from "./tensor.js";

const mostShown = 20000; // characters of a body to show as code
const mostTold = 12; // cells to list by name

// An input: one tensor, or a list that can grow and shrink.
class InputGroup {
  constructor(spec, form) {
    Object.assign(this, {spec, form, tensors: []});
    this.holder = el("div", {class: "tensors"});
    this.node = el("div", {class: "input-group"}, this.holder, spec.list
      ? el("div", {class: "buttons"}, el("button", {type: "button", onclick: () => this.resize(this.tensors.length + 1)}, `Add to ${spec.name}`),
        el("button", {type: "button", onclick: () => this.resize(this.tensors.length - 1)}, "Remove the last")) : null);
    this.resize(1, true);
  }

  resize(n, quiet) {
    while (this.tensors.length > Math.max(n, 1)) this.tensors.pop().node.remove();
    while (this.tensors.length < n) {
      const label = this.spec.list ? `${this.spec.name}.${this.tensors.length}` : this.spec.name;
      const tensor = new TensorInput(this.spec, label, {help: this.tensors.length ? "" : this.spec.summary, onchange: () => this.form.changed(), onparsed: () => this.form.view.drawExtra(), tables: residentTables});
      this.tensors.push(tensor);
      this.holder.append(tensor.node);
    }
    if (!quiet) this.form.changed();
  }

  // `text`: the value as written in a request.
  set(value, text) {
    const values = this.spec.list ? (Array.isArray(value) ? value : []) : [value];
    const texts = this.spec.list ? (text && Array.isArray(value) ? json.written(text) : []) : [text];
    this.resize(values.length, true);
    values.forEach((one, i) => this.tensors[i].set(one, texts[i]));
  }

  isEmpty() {
    return this.tensors.every((tensor) => tensor.isEmpty());
  }

  // Returns the value as text and Blobs.
  requestParts(numbered) {
    const members = this.tensors.map((tensor, i) => (numbered ? [json.stringify(numbered[i])] : tensor.requestParts()));
    return this.spec.list ? ["[", ...members.flatMap((parts, i) => (i ? [", ", ...parts] : parts)), "]"] : members[0];
  }
}

class Form {
  constructor(op, view) {
    Object.assign(this, {op, view});
    this.inputs = op.inputs.map((spec) => new InputGroup(spec, this));
    this.attributes = op.attributes.map((spec) => new AttributeInput(spec, () => this.changed()));
  }

  // `text`: the request as written.
  set(request, text) {
    const texts = text ? json.written(text) : {};
    for (const group of this.inputs) group.set(request[group.spec.name], texts[group.spec.name]);
    for (const attribute of this.attributes) attribute.set(request[attribute.spec.name]);
    this.changed();
  }

  // Sets the form from a link, which can have members that the form lacks.
  setWhole(request, text) {
    const known = [...this.inputs, ...this.attributes].map(({spec}) => spec.name), others = Object.keys(request).filter((name) => !known.includes(name));
    if (others.length) notify(`The link also sets ${others.join(", ")}, which this form cannot send.`);
    this.set(request, text);
  }

  // Returns the fields whose text is not JSON yet. The address stores their text as strings.
  drafts() {
    return this.all().filter(({invalid}) => invalid).map(({label}) => label).join(",");
  }

  setDrafts(labels) {
    for (const label of labels?.split(",") ?? []) this.tensorNamed(label)?.setDraft();
  }

  // Returns the body to send as text, or as a Blob if it has a large tensor. `numbered`: tensors that replace some inputs; the body
  // then leaves out the conversion of the result.
  body(numbered = new Map()) {
    const members = [], add = (attribute) => {
      if (!attribute.isEmpty() && !(numbered.size && attribute.spec.type === "dtype" && !attribute.spec.required)) members.push([attribute.spec.name, [attribute.requestText()]]);
    };
    for (const attribute of this.attributes) if (attribute.comesFirst()) add(attribute);
    for (const group of this.inputs)
      if (!group.isEmpty() || numbered.has(group.spec.name)) members.push([group.spec.name, group.requestParts(numbered.get(group.spec.name))]);
    for (const attribute of this.attributes) if (!attribute.comesFirst()) add(attribute);
    return json.joined(json.objectParts(members));
  }

  changed() {
    this.offerKeys();
    this.view.formChanged();
  }

  // Offers the keys of the form's table in fields that take keys.
  async offerKeys() {
    const wanting = this.all().filter(({keySearch}) => keySearch), name = this.partOf("table")?.tableName();
    if (wanting.length === 0 || name === this.keyed) return;
    this.keyed = name;
    const table = name ? (await residentTables()).get(name) : undefined;
    if (this.keyed === name) for (const tensor of wanting) tensor.keySearch.of(table?.keys ? table : null);
  }

  // Returns the tensor with this part in an op that picks rows of a table.
  partOf(part) {
    const spec = inputOf(this.op, part);
    return spec && this.tensorNamed(spec.name);
  }

  // `name`: as on this page (data.1) or as the server writes it (data[1]).
  tensorNamed(name) {
    const [, input, place = "0"] = /^(.*?)(?:\.(\d+)|\[(\d+)\])?$/s.exec(name).filter((part, i) => i < 2 || part !== undefined);
    return this.inputs.find((group) => group.spec.name === input)?.tensors[Number(place)];
  }

  // Marks the cell or attribute that a problem names. Returns the node of the tensor or attribute.
  blame({document, message}) {
    const {input, attribute, position, pointer} = document;
    const tensor = input ? this.tensorNamed(input) : null, named = this.attributes.find(({spec}) => spec.name === attribute);
    if (tensor) {
      const cell = position && tensor.shape ? indexOf(position.map(Number), tensor.shape)
        : pointer ? tensor.cellAtSteps(stepsOf(pointer).slice(tensor.spec.list ? 2 : 1)) : -1;
      tensor.blame(message, cell >= 0 ? [cell] : []);
    }
    named?.blame(message);
    return tensor?.node ?? named?.node ?? null;
  }

  forgive() {
    for (const part of [...this.all(), ...this.attributes]) part.blame(null);
  }

  all() {
    return this.inputs.flatMap((group) => group.tensors);
  }

  attribute(name) {
    return this.attributes.find((attribute) => attribute.spec.name === name)?.control.value ?? "";
  }

  lead() {
    return this.attributes.find((attribute) => attribute.comesFirst());
  }

  attributeMembers() {
    return Object.fromEntries(this.attributes.filter((attribute) => !attribute.isEmpty()).map((attribute) => [attribute.spec.name, new json.Raw(attribute.requestText())]));
  }
}

// Scrolls the page if the upper part of a node is out of sight.
function show(node) {
  const {top} = node.getBoundingClientRect();
  if (top < 0 || top > window.innerHeight * 0.7) node.scrollIntoView({block: "start"});
}

class TryView {
  constructor(node) {
    this.node = node;
    this.code = el("pre", {class: "code", tabindex: 0});
    this.result = el("div", {class: "result", "aria-live": "polite"});
    this.told = el("div", {class: "told"});
    this.language = 0;
  }

  async open(parameters) {
    const mine = this.opening = {}; // the user may choose another op in the meantime
    const {ops} = await listOps();
    const wanted = parameters.get("op");
    const op = await describe(ops.some(({name}) => name === wanted) ? wanted : ops[0].name);
    const request = await requestIn(parameters);
    if (mine !== this.opening) return;
    this.language = Math.max(0, languages.findIndex(([name]) => name === parameters.get("code")));
    this.as = parameters.get("as") ?? "";
    this.op = op;
    this.plan = op.plan ? new PlanView(op.plan, (problem) => this.blame(problem)) : null;
    this.form = new Form(this.op, this);
    this.draw(ops);
    this.setRequest(request);
    this.form.setDrafts(parameters.get("draft"));
    await this.run();
  }

  setRequest(text) {
    try {
      if (text) return this.form.setWhole(json.parse(text), text);
    } catch {
      notify("The address has no valid request, so the example is shown.", "error");
    }
    return this.setExample(0);
  }

  setExample(i) {
    this.form.set(this.op.examples[i].request);
    this.examples.value = i;
  }

  // Runs again after the user sets a token.
  retry() {
    this.run();
  }

  close() {
    this.stop?.abort();
    this.extraStop?.abort();
  }

  // Draws the fields. Attributes that define what the op does come before the inputs.
  drawFields() {
    const attributes = this.form.attributes.filter((attribute) => !attribute.comesFirst());
    return [...this.form.attributes.filter((attribute) => attribute.comesFirst()).map(({node}) => el("div", {class: "lead"}, node, this.plan?.echo)),
      ...this.form.inputs.map(({node}) => node),
      attributes.length ? el("fieldset", {class: "attributes"}, el("legend", {}, "attributes"), ...attributes.map(({node}) => node)) : null];
  }

  draw(ops) {
    const chooser = el("select", {id: "op", onchange: () => {
      push("try", {op: chooser.value});
      this.open(read().parameters);
    }}, ...families(ops).map(([family, own]) => {
      const options = own.map(({name}) => el("option", {value: name, selected: name === this.op.name}, name));
      return family ? el("optgroup", {label: family}, options) : options;
    }));
    this.examples = select([["choose an example", ""], ...this.op.examples.map(({title}, i) => [title, String(i)])], "", {id: "examples", onchange: () => {
      if (this.examples.value) this.setExample(this.examples.value);
      this.run(true);
    }});
    const tabs = languages.map(([name], i) => el("button", {type: "button", "aria-pressed": String(i === this.language), onclick: (event) => {
      this.language = i;
      this.noteState();
      for (const tab of tabs) tab.setAttribute("aria-pressed", String(tab === event.currentTarget));
      this.showCode();
    }}, name));
    this.saveButton = el("button", {type: "button", hidden: true, onclick: () => save(this.form.body(), bodyFile)}, `Save ${bodyFile}`);
    this.runButton = el("button", {type: "submit", class: "primary", id: "run"}, "Run");
    const form = el("form", {class: "request", onsubmit: (event) => {
      event.preventDefault();
      this.run(true);
    }}, ...this.drawFields(),
    el("div", {class: "buttons run-bar"}, this.runButton, el("span", {class: "help"}, "or Ctrl + Enter")));
    form.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.run(true);
    });
    replace(this.node,
      el("div", {class: "op-head"}, labelled("op", chooser), el("p", {class: "summary"}, this.op.summary), labelled("examples", this.examples)),
      el("div", {class: "columns"}, form,
        el("div", {class: "answer"}, this.result, this.told, this.plan?.order,
          el("section", {class: "snippet", "aria-label": "the request as code"},
            el("div", {class: "forms"}, ...tabs, el("button", {type: "button", onclick: () => copy(this.code.textContent)}, "Copy"), this.saveButton), this.code))));
  }

  // Stores the state of the view in the address.
  noteState() {
    const shown = {op: this.op.name, code: this.language ? languages[this.language][0] : "", as: this.as, draft: this.form.drafts()};
    noteRequest("try", shown, this.form.body(), () => this.node.isConnected);
  }

  answerShown(as) {
    this.as = as;
    this.noteState();
  }

  formChanged() {
    this.noteState();
    this.examples.value = "";
    this.answered = false; // the result on the page, or on its way, belongs to another request
    this.sources = null;
    replace(this.told);
    this.form.forgive();
    this.showCode();
    this.drawExtra();
  }

  drawExtra() {
    this.extraStop?.abort();
    const {signal} = this.extraStop = new AbortController();
    this.planned = this.plan?.draw(this.form.lead()?.control.value.trim(), this.form.attributeMembers(), this.form.all(), signal).catch((error) => notify(error.message, "error"));
  }

  showCode() {
    const [, write] = languages[this.language];
    const body = this.form.body(), long = !(body.length <= mostShown);
    this.code.textContent = write(location.origin, `/v1/${this.op.name}`, long ? null : body, api.hasToken());
    this.saveButton.hidden = !long;
  }

  // `asked`: true if the user started it; the page then scrolls to the result.
  async run(asked = false) {
    this.stop?.abort();
    const stop = this.stop = new AbortController();
    this.runButton.disabled = true;
    this.node.setAttribute("aria-busy", "true");
    let body;
    try {
      await Promise.all(this.form.all().map(({ready}) => ready));
      if (stop.signal.aborted) return;
      const invalid = this.form.all().find((tensor) => tensor.invalid);
      if (invalid) throw new Error(`${invalid.label} is not JSON yet, so nothing was sent`);
      body = this.form.body();
      this.answered = true;
      const reply = await runOp(`/v1/${this.op.name}?timing=1`, body, {signal: stop.signal});
      if (stop.signal.aborted) return;
      replace(this.result, drawResult(reply, reply.read, (name, shape, index) => this.point(name, shape, index), {as: this.as, onshow: (as) => this.answerShown(as)}));
      replace(this.told);
      if (asked) show(this.result);
      if (!this.answered) return;
      this.form.forgive();
      await this.planned; // its labels say where the cells of the answer come from
      await this.findSources(stop.signal);
    } catch (error) {
      if (error.name !== "AbortError") this.fail(error, body, asked);
    } finally {
      if (this.stop === stop) {
        this.runButton.disabled = false;
        this.node.removeAttribute("aria-busy");
      }
    }
  }

  fail(error, body, asked) {
    replace(this.result, errorView(error, typeof body === "string" ? body : null));
    const place = error.document && this.answered ? this.blame(error) : null;
    if (asked) show(place ?? this.result);
  }

  // Marks what a problem names and returns its node.
  blame(error) {
    this.form.forgive();
    const lead = this.form.lead();
    if (lead && error.document.attribute === lead.spec.name) this.plan?.showEquation(lead.control.value.trim(), error.document);
    return this.form.blame(error);
  }

  // Returns the inputs that replace keys in a numbered request: row numbers for keys, and the table's own keys for a table of numbers.
  async withoutKeys(signal) {
    const others = new Map(), table = this.form.partOf("table")?.tableName();
    if (!table) return others;
    for (const tensor of this.form.all()) {
      if (tensor.kind.value !== "keys") continue;
      const reply = await api.postJson(...await tableRequest("row_numbers", table, new json.Raw(tensor.typedText())), {signal});
      others.set(tensor.label, [outputsOf(json.parse(reply.text))[0].tensor]);
    }
    const keys = this.op.inputs.find(({part, role}) => part === "per_row" && role === "key");
    if (keys && this.form.tensorNamed(keys.name).isEmpty()) others.set(keys.name, [{ref: keysOf(table)}]);
    return others;
  }

  // Runs the op on numbered cells to find the source of each output cell. Does not apply to ops that compute.
  async findSources(signal) {
    await Promise.all(this.form.all().map(({ready}) => ready));
    const moved = this.form.inputs.filter((group) => isMoved(group.spec) && !group.isEmpty()).map(({spec, tensors}) => ({spec, tensors}));
    this.sources = null;
    if (moved.length === 0 || moved.some(({tensors}) => tensors.some(({shape}) => !shape))) return;
    try {
      const others = await this.withoutKeys(signal);
      const sources = await trace(this.op, moved, (numbered) => this.form.body(new Map([...numbered, ...others])), signal);
      if (this.answered && !signal.aborted) this.sources = sources;
    } catch {
      // The result is still valid, but the sources of its cells are not known.
    }
  }

  // Returns the tensors of an op that picks rows in bags; null if the op has none, or if the row numbers are not known.
  bags() {
    const [table, queries, offsets, segments] = ["table", "query", "offsets", "segments"].map((part) => this.form.partOf(part));
    if (!segments || !table.shape || !queries.cells || queries.kind.value === "keys") return null;
    const skipped = this.op.rows.skip ? this.form.attribute(this.op.rows.skip) : "";
    return {table, queries, offsets, segments, skipped: skipped === "" ? null : Number(skipped)};
  }

  // Returns the input cells that an output cell came from, with a text; an empty list if it came from none; null if not known.
  sourcesOf(name, shape, index) {
    if (!this.answered) return null;
    const tensors = this.form.all(), position = positionOf(index, shape), labels = this.plan?.labels;
    if (labels) return {cells: productSources(labels, tensors, position), text: productSlices(labels, tensors, position)};
    const bags = this.bags(), cells = bags ? bagSources(bags, position) : this.sources?.find((output) => output.name === name)?.sources?.[index];
    return cells ? {cells, text: this.placesText(cells)} : null;
  }

  // Returns the cells that picked an output cell, with a text; null if not known.
  picksOf(shape, index, cells) {
    if (!this.answered) return null;
    const shapeOf = (name) => this.form.tensorNamed(name)?.shape;
    const pick = queryOf(this.op, shapeOf, (name) => this.form.attribute(name), positionOf(index, shape)) ?? (cells.length === 1 ? besideOf(this.op, cells[0], shapeOf) : null);
    if (!pick) return null;
    const {name, first, length} = pick, text = placeText(positionOf(first, shapeOf(name)), name);
    return {cells: Array.from({length}, (_, i) => ({name, index: first + i})), text: length === 1 ? text : text.replace(/\d+\]$/, ":]")};
  }

  placesText(cells) {
    const texts = cells.slice(0, mostTold).map(({name, index}) => placeText(positionOf(index, this.form.tensorNamed(name).shape), name));
    const more = cells.length - texts.length;
    return texts.length ? texts.join(", ") + (more ? ` and ${grouped(more)} more` : "") : "no input cell";
  }

  point(name, shape, index) {
    const known = index < 0 ? null : this.sourcesOf(name, shape, index), picks = index < 0 ? null : this.picksOf(shape, index, known?.cells ?? []);
    const cells = [...known?.cells ?? [], ...picks?.cells ?? []];
    for (const tensor of this.form.all()) tensor.light(cells.filter((cell) => cell.name === tensor.label).map((cell) => cell.index));
    if (index < 0) return replace(this.told);
    const sentence = `${placeText(positionOf(index, shape), name)}${known ? ` ← ${known.text}` : ""}${picks ? ` by ${picks.text}` : ""}`;
    const excerpts = this.form.all().map((tensor) => tensor.excerptOf(cells.filter((cell) => cell.name === tensor.label).map((cell) => cell.index)));
    return replace(this.told, el("p", {}, sentence), excerpts.some(Boolean) ? el("div", {class: "excerpts", "aria-hidden": "true"}, ...excerpts.filter(Boolean)) : null);
  }
}

export async function open(node, parameters) {
  const view = new TryView(node);
  await view.open(parameters);
  return view;
}
