// One program: its text, the values for a call, its graph and steps, and what Check and Run return.

import * as api from "./api.js";
import {el, folding, replace} from "./dom.js";
import {errorView} from "./error_view.js";
import * as json from "./json.js";
import {bytes, count} from "./numbers.js";
import {ProgramFacts, describeOps, typeOf} from "./program_facts.js";
import {ProgramGraph} from "./program_graph.js";
import {ProgramInputs} from "./program_inputs.js";
import {lineAndColumn, placeOf, placeOfSyntax, rangeOf, readProgram, withValues} from "./program_text.js";
import {drawResult} from "./result.js";
import {runOp} from "./run_op.js";
import {inSlices} from "./slices.js";
import {TextEditor} from "./text_editor.js";

const pauseMs = 200; // after a change of the text, before its graph is drawn

export const programPath = (name) => `/v1/programs/${encodeURIComponent(name)}`;

// "with n = 3, d = 2"
const sizesText = (sizes) => (Object.keys(sizes).length ? `, with ${Object.entries(sizes).map(([letter, size]) => `${letter} = ${size}`).join(", ")}` : "");

function planText(plan, sizes) {
  const costs = [count(Number(plan.flops), "FLOPs"), `reads ${bytes(Number(plan.bytes_read))}`, `writes ${bytes(Number(plan.bytes_written))}`, `peak ${bytes(Number(plan.peak_bytes))}`];
  return `${plan.admitted ? "The server accepts the program" : `The server refuses the program: it exceeds ${plan.exceeds.join(", ")}`}${sizesText(sizes)}: ${costs.join(" · ")}`;
}

export class ProgramDetail {
  // onchange(): called when the text or a value changes.
  constructor(onchange) {
    Object.assign(this, {onchange, stored: null, program: null});
    this.editor = new TextEditor("text of the program", () => this.edited());
    this.draft = el("p", {class: "problem-text", role: "status"});
    this.inputs = new ProgramInputs(() => onchange());
    this.message = el("div", {class: "message", "aria-live": "polite"});
    this.picture = el("div", {});
    this.result = el("div", {class: "result", "aria-live": "polite"});
    this.steps = el("div", {class: "steps"});
    this.buttons = [el("button", {type: "submit", class: "primary", id: "run"}, "Run"), el("button", {type: "button", id: "check", onclick: () => this.check()}, "Check")];
    this.form = this.drawForm();
    this.answer = el("div", {class: "answer"}, this.message, this.picture, this.result, this.steps);
  }

  drawForm() {
    const form = el("form", {class: "request", onsubmit: (event) => {
      event.preventDefault();
      this.run();
    }}, this.editor.node, this.draft, this.inputs.node, el("div", {class: "buttons run-bar"}, ...this.buttons, el("span", {class: "help"}, "or Ctrl + Enter to run")));
    form.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.run();
    });
    return form;
  }

  // Shows a program. `stored`: {name, etag, text, described}, or null for a new one; `values`: of a call; `valueTexts`: as written.
  async open(text, stored, values = {}, valueTexts = {}) {
    this.close();
    this.stored = stored;
    this.program = null;
    this.editor.text = text;
    for (const node of [this.message, this.result, this.picture, this.steps]) replace(node);
    const mine = this.opening = {};
    if (!await this.read() || mine !== this.opening) return;
    this.inputs.set(values, valueTexts);
    await this.planQuietly();
  }

  // Makes the text on the page the text of a stored program. The values stay.
  async becomes(stored) {
    this.stored = stored;
    this.program = null;
    if (await this.read()) await this.planQuietly();
  }

  close() {
    this.stop?.abort();
    clearTimeout(this.timer);
  }

  // True if the text is the text of the stored program.
  isUnchanged() {
    return this.stored !== null && this.stored.text === this.editor.text;
  }

  edited() {
    this.editor.mark("bad", null);
    this.onchange();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.read(), pauseMs);
  }

  // Reads the text and shows the program in it. Returns false if the text is not JSON; the program shown is then an earlier one.
  async read() {
    clearTimeout(this.timer);
    const text = this.editor.text;
    if (this.program?.text === text) return true;
    this.syntaxError = null;
    let program;
    try {
      program = {...readProgram(text), text};
    } catch (error) {
      this.syntaxError = new SyntaxError(`the text is not JSON yet, so nothing was sent: ${error.message}`);
      replace(this.draft, `This is not JSON yet: ${error.message}`);
      this.picture.classList.add("stale");
      return false;
    }
    const ops = await describeOps(program);
    if (text !== this.editor.text) return false;
    this.program = program;
    replace(this.draft);
    this.picture.classList.remove("stale");
    this.inputs.update(program, ops);
    this.facts = new ProgramFacts(program, ops, this.isUnchanged() ? this.stored.described : null);
    await this.drawProgram();
    return text === this.editor.text;
  }

  // Draws the graph and the steps, for a large program in several slices.
  drawProgram() {
    const {program} = this;
    return inSlices(this.drawing(), () => this.program === program);
  }

  * drawing() {
    const before = this.graph?.node, earlier = before?.isConnected ? [before.scrollLeft, before.scrollTop] : null;
    this.graph = new ProgramGraph(this.program, this.facts, (box) => this.choose(box));
    yield;
    replace(this.picture, this.graph.node);
    this.graph.scrollAs(earlier);
    yield;
    this.drawSteps();
  }

  // Draws the steps as a list, with the same facts as the graph.
  drawSteps() {
    const {steps} = this.program;
    const lines = steps.map(({op, results, sources}, at) => {
      const {flops, bytes: size, time, runs, replaced} = this.facts.steps[at];
      const takes = [...new Set(sources.map(({name, table, argument}) => name ?? (table === undefined ? `argument ${argument}` : `table ${table}`)))];
      return {cells: [el("button", {type: "button", class: "link", onclick: () => this.chooseStep(at)}, `${at} ${op}`), takes.join(", "),
        results.map(({name}) => `${name} ${typeOf(this.facts.types.get(name))}`.trim()).join(", "), flops === undefined ? "" : count(flops), size > 0 ? bytes(size) : "", time ?? "",
        [runs, replaced].filter(Boolean).join("; ")]};
    });
    replace(this.steps, el("h3", {}, "Steps"), steps.length ? folding("list of steps", ["step", "takes", "gives", "FLOPs", "bytes", "time", "runs"], lines, ["FLOPs", "bytes", "time"])
      : el("p", {class: "empty"}, "The program has no steps yet."));
  }

  chooseStep(at) {
    this.graph.show(at);
    this.choose({kind: "step", id: at});
  }

  // Marks the place of a box in the text, and its step in the list.
  choose({kind, id}) {
    const place = {step: ["steps", String(id)], input: ["inputs", id], output: ["outputs", String(this.program.outputs.indexOf(id))]}[kind];
    this.editor.mark("lit", place ? rangeOf(this.editor.text, place) : null);
    this.steps.querySelectorAll("tbody tr").forEach((row, at) => {
      if (kind === "step" && at === id) row.setAttribute("aria-current", "true");
      else row.removeAttribute("aria-current");
    });
  }

  // Does the work of a button and returns its result. Gives up an earlier button's work that still waits for a reply.
  async act(work) {
    this.stop?.abort();
    const stop = this.stop = new AbortController();
    this.setBusy(true);
    this.forgive();
    try {
      return await work(stop.signal);
    } catch (error) {
      if (error.name !== "AbortError" && !stop.signal.aborted) this.fail(error);
      return null;
    } finally {
      if (this.stop === stop) this.setBusy(false);
    }
  }

  setBusy(is) {
    for (const button of this.buttons) button.disabled = is;
    if (is) this.form.setAttribute("aria-busy", "true");
    else this.form.removeAttribute("aria-busy");
  }

  // Sends a request, and keeps its body for the view of an error.
  async send(signal, request, path, body) {
    this.sent = body;
    return request(path, body, {signal});
  }

  // Waits for the values. Throws an error if one of them cannot be sent.
  async checkValues() {
    await this.inputs.ready();
    const invalid = this.inputs.invalid();
    if (invalid) throw new Error(`the value of ${invalid} is not JSON yet, so nothing was sent`);
  }

  // Asks for the plan of the program. Inputs without a value are planned by their shapes.
  async plan(signal) {
    await this.checkValues();
    const sizes = this.inputs.letterSizes();
    const body = json.joined(withValues(this.editor.text, this.program, this.inputs.values(), this.inputs.givenTexts(), sizes));
    const plan = json.parse((await this.send(signal, api.postJson, "/v1/programs/plan", body)).text);
    if (signal.aborted) return;
    this.facts.addPlan(plan);
    await this.drawProgram();
    replace(this.message, el("p", {class: plan.admitted ? "help" : "problem-text"}, planText(plan, sizes)));
  }

  // Plans a program that the user did not ask to check. The assumed sizes might not suit the program, so an error is not shown as an alert.
  async planQuietly() {
    if ((this.isUnchanged() && !this.stored.described.ready) || this.inputs.missingArguments().length) return;
    const {signal} = this.stop = new AbortController();
    try {
      await this.plan(signal);
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof api.Problem)) throw error;
      replace(this.message, el("p", {class: "help"}, `Not planned yet: ${error.message}`));
    }
  }

  check() {
    return this.act(async (signal) => {
      await this.readForUse();
      this.requireValues(this.inputs.missingArguments().map(([name]) => name));
      return this.plan(signal);
    });
  }

  run() {
    return this.act(async (signal) => {
      await this.readForUse();
      this.requireValues(this.inputs.missing());
      await this.checkValues();
      const reply = await this.send(signal, runOp, ...this.runRequest());
      if (signal.aborted) return null;
      this.facts.addRun(reply.read.steps, reply.read.bounds);
      await this.drawProgram();
      replace(this.message);
      return replace(this.result, el("h3", {}, "Result"), drawResult(reply, reply.read, () => {}, {as: "", onshow: () => {}}));
    });
  }

  // Reads the text for a button. Throws an error if it is not JSON.
  async readForUse() {
    if (!await this.read()) throw this.syntaxError ?? new Error("the text changed in the meantime, so nothing was sent");
  }

  requireValues([first, ...more]) {
    if (first === undefined) return;
    this.inputs.blame(first, `${first} has no value`);
    throw new Error(`${[first, ...more].join(", ")}: no value yet, so nothing was sent`);
  }

  // Returns the path and body of a call. It runs the stored program if its text is unchanged, and otherwise the text on the page.
  runRequest() {
    const values = this.inputs.values(), given = this.inputs.givenTexts();
    if (!this.isUnchanged()) return ["/v1/programs/run?timing=1", json.joined(withValues(this.editor.text, this.program, values, given, {}))];
    return [`${programPath(this.stored.name)}?timing=1`, this.valuesBody()];
  }

  // Returns the values as the body of a call.
  valuesBody() {
    const given = Object.entries(this.inputs.givenTexts()).map(([name, text]) => [name, [text]]);
    return json.joined(json.objectParts([...Object.entries(this.inputs.values()), ...given]));
  }

  forgive() {
    this.editor.mark("bad", null);
    this.inputs.forgive();
    this.graph?.blame("", null);
  }

  // Shows an error at its place: in the text, in the graph and at the field of its value.
  fail(error) {
    const text = this.editor.text, document = error.document ?? {};
    const range = error instanceof SyntaxError ? placeOfSyntax(error, text) : placeOf(document, text);
    replace(this.result);
    replace(this.message, errorView(error, typeof this.sent === "string" ? this.sent : null), range ? this.placeLine(range, document) : null);
    if (!range) return;
    this.editor.mark("bad", range);
    const [kind, id] = this.boxAt(document);
    this.graph?.blame(kind, id);
    this.inputs.blame(kind === "input" ? id : this.argumentAt(document), error.message);
  }

  // Returns the kind and id of the box that a problem belongs to.
  boxAt({pointer, step, input}) {
    const [, part, id] = pointer?.split("/") ?? [];
    if (step !== undefined || part === "steps") return ["step", Number(step ?? id)];
    if (part === "outputs") return ["output", this.program?.outputs[id]];
    return ["input", part === "inputs" ? id : input];
  }

  // Returns the name of the argument that sets the attribute of a problem.
  argumentAt({step, attribute}) {
    return this.program?.steps[step]?.sources.find(({member, argument}) => argument !== undefined && member === attribute)?.argument;
  }

  placeLine(range, {step}) {
    const {line, column} = lineAndColumn(this.editor.text, range.from);
    const place = `line ${line}, column ${column}`, op = this.program?.steps[step]?.op;
    return el("p", {class: "meta place"}, op ? `in step ${step}, ${op}: ` : "", el("button", {type: "button", class: "link", onclick: () => this.editor.goTo(range)}, place));
  }
}
