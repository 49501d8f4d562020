// The stored programs, examples to start with, and the selected program.

import * as api from "./api.js";
import {el, folding, labelled, notify, replace} from "./dom.js";
import * as json from "./json.js";
import {mayWrite} from "./mode.js";
import {grouped} from "./numbers.js";
import {ProgramDetail, programPath} from "./program_detail.js";
import {typeOf} from "./program_facts.js";
import {inLines} from "./program_text.js";
import {noteRequest, requestIn} from "./request_address.js";
import {push} from "./state.js";
import {deleteButton, putUnlessChanged} from "./stored.js";

const mostListed = 50; // maximum number of listed programs, because each needs a request for its description

// Returns the description of a stored program, with its text. A text on one line gets a line for each step.
async function readStored(name) {
  const {text} = await api.request("GET", programPath(name)), described = json.parse(text), own = json.written(text).program;
  return {name, etag: described.etag, described, text: own.includes("\n") ? own : inLines(own)};
}

// Returns the examples: [{title, text, values, valueTexts}]. Their texts stay as written, with a line for each step.
async function readExamples() {
  const {text} = await api.request("GET", "/console/program_examples.json");
  return json.written(text).map((example) => {
    const {title, values} = json.parse(example), texts = json.written(example);
    return {title, text: inLines(texts.program), values, valueTexts: json.written(texts.values)};
  });
}

const typesText = (types) => types.map((type) => `${type.name} ${typeOf(type)}`.trim()).join(", ");

class ProgramsView {
  constructor(node) {
    this.node = node;
    this.programs = [];
    this.filter = el("input", {type: "search", spellcheck: "false", oninput: () => this.drawList()});
    this.listing = el("div", {});
    this.starts = el("div", {class: "buttons", role: "group", "aria-label": "examples"});
    this.title = el("h2", {});
    this.told = el("p", {class: "problem-text", role: "alert"});
    this.detail = new ProgramDetail(() => this.changed());
    this.name = el("input", {type: "text", spellcheck: "false", autocomplete: "off", placeholder: "letters, digits and . _ : - @"});
    this.persist = el("input", {type: "checkbox"});
  }

  async open(parameters) {
    replace(this.node, el("section", {class: "programs", "aria-label": "stored programs"}, labelled("find by name", this.filter), this.listing, this.starts),
      this.title, this.told, el("div", {class: "columns"}, el("div", {}, mayWrite() ? this.drawStore() : null, this.detail.form), this.detail.answer));
    const draft = await requestIn(parameters), [examples] = await Promise.all([readExamples(), this.refresh()]);
    this.drawStarts(examples);
    const name = parameters.get("name");
    if (draft) await this.openDraft(draft, name);
    else if (name) await this.show(name);
    else if (this.programs.length) await this.show(this.programs[0].name);
    else await this.start(examples[0]);
  }

  close() {
    this.detail.close();
  }

  drawStarts(examples) {
    replace(this.starts, el("span", {class: "help"}, "start with an example: "), ...examples.map((example) => el("button", {type: "button", onclick: () => {
      push("programs");
      this.start(example);
    }}, example.title)));
  }

  async refresh() {
    this.programs = (await api.getJson("/v1/programs")).programs;
    this.described = new Map();
    this.drawList();
  }

  // Lists the programs, and then adds the facts that only their descriptions have.
  async drawList() {
    const wanted = this.filter.value.trim().toLowerCase(), {described} = this;
    const found = this.programs.filter(({name}) => name.toLowerCase().includes(wanted)), shown = found.slice(0, mostListed);
    const draw = () => replace(this.listing, this.programs.length === 0
      ? el("p", {class: "empty"}, `There are no stored programs yet. Start with an example${mayWrite() ? ", then give it a name and store it" : ""}.`)
      : folding("list of programs", ["name", "version", "state", "inputs", "outputs", "kept", ""], shown.map((program) => this.line(program, described.get(program.name))), ["version"]),
    found.length > mostListed ? el("p", {class: "help"}, `and ${grouped(found.length - mostListed)} more`) : null);
    draw();
    const missing = shown.filter(({name}) => !described.has(name));
    await Promise.allSettled(missing.map(async ({name}) => described.set(name, await api.getJson(programPath(name)))));
    if (missing.length && described === this.described) this.drawList();
  }

  line({name, version, persisted}, described) {
    const state = !described ? "" : described.ready ? "ready" : el("span", {class: "problem-text"}, described.reason);
    return {current: name === this.detail.stored?.name, cells: [el("button", {type: "button", class: "link", onclick: () => this.choose(name)}, name), grouped(version), state,
      typesText(described?.inputs ?? []), typesText(described?.outputs ?? []), persisted ? "on disk" : "memory",
      mayWrite() ? deleteButton(programPath(name), name, "Calls in progress can still use it. It is then deleted, from disk as well.", () => this.deleted(name)) : ""]};
  }

  async deleted(name) {
    if (this.detail.stored?.name === name) this.detail.stored = null; // the text stays on the page
    this.changed();
    await this.refresh();
  }

  choose(name) {
    push("programs", {name});
    return this.show(name);
  }

  async show(name) {
    try {
      const stored = await readStored(name);
      await this.openText(stored.text, stored);
    } catch (error) {
      if (error.status !== 404) throw error;
      replace(this.told, `There is no program ${name}.`);
    }
  }

  start({text, values, valueTexts}) {
    return this.openText(text, null, values, valueTexts);
  }

  // Opens a text or values that were not stored. The text belongs to the version that the user changed.
  async openDraft(draft, name) {
    const given = json.parse(draft), texts = json.written(draft), stored = name ? await readStored(name).catch(() => null) : null;
    const valueTexts = texts.values ? json.written(texts.values) : {};
    await this.openText(given.text ?? stored?.text ?? "", stored && {...stored, etag: given.etag ?? stored.etag}, given.values, valueTexts);
  }

  async openText(text, stored, values, valueTexts) {
    replace(this.told);
    this.name.value = stored?.name ?? "";
    this.persist.checked = Boolean(stored?.described.persisted);
    replace(this.title, stored?.name ?? "New program");
    const opened = this.detail.open(text, stored, values, valueTexts);
    this.drawList();
    await opened;
    this.changed();
  }

  // Stores the state of the view in the address: the name, and what is not stored.
  changed() {
    const {stored, editor} = this.detail, isUnchanged = this.detail.isUnchanged(), values = this.detail.valuesBody();
    replace(this.title, stored ? `${stored.name}${isUnchanged ? "" : ", changed"}` : "New program");
    const text = isUnchanged ? [] : [["text", [JSON.stringify(editor.text)]], ...stored ? [["etag", [JSON.stringify(stored.etag)]]] : []];
    const members = values === "{}" ? text : [...text, ["values", [values]]];
    noteRequest("programs", {name: stored?.name}, members.length ? json.joined(json.objectParts(members)) : "", () => this.node.isConnected);
  }

  drawStore() {
    return el("form", {class: "row", "aria-label": "store the program", onsubmit: (event) => {
      event.preventDefault();
      this.store(this.name.value.trim());
    }}, labelled("name", this.name), el("label", {class: "check"}, this.persist, " keep on disk"), el("button", {type: "submit", id: "store"}, "Store"));
  }

  async store(name) {
    const {detail} = this, {text} = detail.editor, etag = detail.stored?.name === name ? detail.stored.etag : null;
    const put = (headers) => api.request("PUT", `${programPath(name)}${this.persist.checked ? "?persist=1" : ""}`, {body: text, headers: {"Content-Type": "application/json", ...headers}});
    const described = await detail.act(async () => {
      detail.sent = text;
      await detail.read(); // an error is then shown in the graph of this text
      if (!name) throw new Error("the program has no name yet; type one beside Store");
      const reply = await putUnlessChanged(put, {name, etag, exists: "A program with this name already exists. Your text replaces it, and its present text is lost.",
        changed: "The program has changed since you opened it. Your text replaces it, and its present text is lost.",
        gone: "The program was deleted since you opened it. Your text stores it again."});
      if (!reply) replace(detail.message, el("p", {class: "help"}, `${name} is unchanged. Your text is still on this page.`));
      return reply && json.parse(reply.text);
    });
    if (!described) return;
    notify(`${name} was stored, version ${grouped(described.version)}.`);
    await detail.becomes({name, etag: described.etag, described, text});
    this.changed();
    await this.refresh();
  }
}

export async function open(node, parameters) {
  const view = new ProgramsView(node);
  await view.open(parameters);
  return view;
}
