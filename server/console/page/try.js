// The form of an op, made from its description, and what its request gives.

import * as api from "./api.js";
import {AttributeInput} from "./attribute_input.js";
import {copy, el, labelled, notify, replace, select} from "./dom.js";
import {drawEinsum} from "./einsum_view.js";
import {errorView} from "./error_view.js";
import * as json from "./json.js";
import {bagSources, einsumSources, isMoved, labelsOf, trace} from "./provenance.js";
import {drawResult} from "./result.js";
import {languages} from "./snippets.js";
import {note, read} from "./state.js";
import {TensorInput} from "./tensor_input.js";
import {indexOf, placeText, positionOf} from "./tensor.js";

const descriptions = new Map();

async function describe(name) {
  if (!descriptions.has(name)) descriptions.set(name, await api.getJson(`/v1/ops/${encodeURIComponent(name)}`));
  return descriptions.get(name);
}

async function tableNames() {
  const [{tensors}, {aliases}] = await Promise.all([api.getJson("/v1/tensors"), api.getJson("/v1/aliases")]);
  return [...Object.keys(aliases), ...tensors.map(({name}) => name)];
}

// An input: one tensor, or a list that grows and shrinks.
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
      const tensor = new TensorInput(this.spec, label, {onchange: () => this.form.changed(), onpoint: () => {}, tables: tableNames});
      this.tensors.push(tensor);
      this.holder.append(tensor.node);
    }
    if (!quiet) this.form.changed();
  }

  set(value) {
    const values = this.spec.list ? (Array.isArray(value) ? value : []) : [value];
    this.resize(values.length, true);
    values.forEach((one, i) => this.tensors[i].set(one));
  }

  isEmpty() {
    return this.tensors.every((tensor) => tensor.isEmpty());
  }

  requestText(numbered) {
    const texts = this.tensors.map((tensor, i) => (numbered ? json.stringify(numbered[i]) : tensor.requestText()));
    return this.spec.list ? `[${texts.join(", ")}]` : texts[0];
  }
}

class Form {
  constructor(op, view) {
    Object.assign(this, {op, view});
    this.inputs = op.inputs.map((spec) => new InputGroup(spec, this));
    this.attributes = op.attributes.map((spec) => new AttributeInput(spec, () => this.changed()));
  }

  set(request) {
    for (const group of this.inputs) group.set(request[group.spec.name]);
    for (const attribute of this.attributes) attribute.set(request[attribute.spec.name]);
    this.changed();
  }

  // The body as it is sent; `numbered`: other tensors for some inputs, and no conversion of the result.
  requestText(numbered = new Map()) {
    const parts = [];
    for (const group of this.inputs)
      if (!group.isEmpty() || !group.spec.optional) parts.push([group.spec.name, group.requestText(numbered.get(group.spec.name)) || "null"]);
    for (const attribute of this.attributes)
      if (!attribute.isEmpty() && !(numbered.size && attribute.spec.name === "dtype")) parts.push([attribute.spec.name, attribute.requestText()]);
    return `{${parts.map(([name, text]) => `${JSON.stringify(name)}: ${text}`).join(", ")}}`;
  }

  changed() {
    this.view.formChanged();
  }

  tensorNamed(name) {
    const [input, place = "0"] = name.split(".");
    return this.inputs.find((group) => group.spec.name === input)?.tensors[Number(place)];
  }

  all() {
    return this.inputs.flatMap((group) => group.tensors);
  }

  attribute(name) {
    return this.attributes.find((attribute) => attribute.spec.name === name)?.control.value ?? "";
  }
}

class TryView {
  constructor(node) {
    this.node = node;
    this.code = el("pre", {class: "code", tabindex: 0});
    this.result = el("div", {class: "result", "aria-live": "polite"});
    this.told = el("p", {class: "told"});
    this.extra = el("div", {class: "extra"});
    this.language = 0;
  }

  async open(parameters) {
    const {ops} = await api.getJson("/v1/ops");
    const wanted = parameters.get("op");
    this.op = await describe(ops.some(({name}) => name === wanted) ? wanted : ops[0].name);
    this.form = new Form(this.op, this);
    this.draw(ops);
    this.form.set(this.requestOf(parameters));
    await this.run();
  }

  requestOf(parameters) {
    try {
      if (parameters.get("request")) return json.parse(parameters.get("request"));
    } catch {
      notify("The request in the address is no JSON; the example is shown.", "error");
    }
    return this.op.example.request;
  }

  draw(ops) {
    const chooser = select(ops.map(({name}) => name), this.op.name, {id: "op", onchange: () => {
      note("try", {op: chooser.value});
      this.open(read().parameters);
    }});
    const tabs = languages.map(([name], i) => el("button", {type: "button", "aria-pressed": String(i === this.language), onclick: (event) => {
      this.language = i;
      for (const tab of tabs) tab.setAttribute("aria-pressed", String(tab === event.currentTarget));
      this.showCode();
    }}, name));
    this.runButton = el("button", {type: "submit", class: "primary", id: "run"}, "Run");
    const form = el("form", {class: "request", onsubmit: (event) => {
      event.preventDefault();
      this.run();
    }}, ...this.form.inputs.map(({node}) => node),
    this.form.attributes.length ? el("fieldset", {class: "attributes"}, el("legend", {}, "attributes"), ...this.form.attributes.map(({node}) => node)) : null,
    el("div", {class: "buttons"}, this.runButton, el("span", {class: "help"}, "or Ctrl + Enter"),
      el("button", {type: "button", id: "example", onclick: () => {
        this.form.set(this.op.example.request);
        this.run();
      }}, "Example")));
    form.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.run();
    });
    replace(this.node,
      el("div", {class: "op-head"}, labelled("op", chooser), el("p", {class: "summary"}, this.op.summary)),
      el("div", {class: "columns"}, form,
        el("div", {class: "answer"}, this.extra, this.result, this.told,
          el("section", {class: "snippet", "aria-label": "the request as code"},
            el("div", {class: "forms"}, ...tabs, el("button", {type: "button", onclick: () => copy(this.code.textContent)}, "Copy")), this.code))));
  }

  formChanged() {
    const text = this.form.requestText();
    note("try", {op: this.op.name, request: text.length < 6000 ? text : ""});
    this.sources = null;
    for (const tensor of this.form.all()) tensor.mark([]);
    this.showCode();
    if (this.op.name === "einsum")
      drawEinsum(this.extra, this.form.attribute("equation"), this.form.all().map(({shape}) => shape)).catch((error) => notify(error.message, "error"));
    else replace(this.extra);
  }

  showCode() {
    const [, write] = languages[this.language];
    this.code.textContent = write(location.origin, `/v1/${this.op.name}`, this.form.requestText(), api.hasToken());
  }

  async run() {
    const body = this.form.requestText();
    this.stop?.abort();
    const stop = this.stop = new AbortController();
    this.runButton.disabled = true;
    this.node.setAttribute("aria-busy", "true");
    try {
      const reply = await api.postJson(`/v1/${this.op.name}`, body, {signal: stop.signal});
      replace(this.result, drawResult(reply, json.parse(reply.text), (name, shape, index) => this.point(name, shape, index)));
      replace(this.told, "");
      for (const tensor of this.form.all()) tensor.mark([]);
      await this.findSources(stop.signal);
    } catch (error) {
      if (error.name !== "AbortError") this.fail(error, body);
    } finally {
      if (this.stop === stop) {
        this.runButton.disabled = false;
        this.node.removeAttribute("aria-busy");
      }
    }
  }

  fail(error, body) {
    replace(this.result, errorView(error, {equation: this.form.attribute("equation"), body}));
    const {input, position} = error.document ?? {};
    const tensor = input ? this.form.tensorNamed(input) : null;
    if (tensor?.shape && position) tensor.mark([indexOf(position.map(Number), tensor.shape)]);
  }

  // The op's own answer to numbered cells; ops that compute have none.
  async findSources(signal) {
    const moved = this.form.inputs.filter(({spec}) => isMoved(spec)).map(({spec, tensors}) => ({spec, tensors}));
    this.sources = null;
    if (moved.length === 0 || moved.some(({tensors}) => tensors.some(({shape}) => !shape))) return;
    try {
      this.sources = await trace(this.op, moved, (numbered) => this.form.requestText(numbered), signal);
    } catch (error) {
      if (!(error instanceof api.Problem) && error.name !== "AbortError") throw error;
    }
  }

  sourcesOf(name, shape, index) {
    if (this.op.name === "einsum") {
      const shapes = this.form.all().map((tensor) => tensor.shape);
      const labels = shapes.every(Boolean) ? labelsOf(this.form.attribute("equation"), shapes) : null;
      return labels ? einsumSources(labels, shapes, positionOf(index, shape)) : [];
    }
    if (this.op.name === "embedding_bag") {
      const cells = (input) => this.form.tensorNamed(input)?.cells;
      return bagSources({indices: cells("indices"), offsets: cells("offsets"), segment_ids: cells("segment_ids")}, shape[1] ?? 1, positionOf(index, shape));
    }
    return this.sources?.find((output) => output.name === name)?.sources?.[index] ?? [];
  }

  point(name, shape, index) {
    const sources = index < 0 ? [] : this.sourcesOf(name, shape, index);
    for (const tensor of this.form.all()) tensor.light(sources.filter((source) => source.name === tensor.label).map((source) => source.index));
    const texts = sources.slice(0, 12).map((source) => placeText(positionOf(source.index, this.form.tensorNamed(source.name).shape), source.name));
    replace(this.told, index < 0 ? "" : `${placeText(positionOf(index, shape), name)} ← ${texts.length ? texts.join(", ") + (sources.length > 12 ? ", …" : "") : "no cell of an input"}`);
  }
}

export async function open(node, parameters) {
  await new TryView(node).open(parameters);
}
