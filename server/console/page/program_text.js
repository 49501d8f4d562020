// Reads the text of a program, finds places in it, and turns it into requests. Edits ranges of the text instead of parsed values, because
// 1.0 and 1 are different.

import {stepsOf} from "./error_view.js";
import * as json from "./json.js";

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

const objectOf = (value) => (isObject(value) ? value : {});

const listOf = (value) => (Array.isArray(value) ? value : []);

// An input without data has a dtype and a shape instead.
const isDeclared = (value) => isObject(value) && typeof value.dtype === "string" && Array.isArray(value.shape) && value.data === undefined && value.base64 === undefined;

// Returns the results of a step: {name, place}, where `place` is the index or the name of the op's output.
function resultsOf(as) {
  if (typeof as === "string") return [{name: as, place: 0}];
  const pairs = Array.isArray(as) ? as.map((name, place) => [place, name]) : Object.entries(objectOf(as));
  return pairs.filter(([, name]) => typeof name === "string").map(([place, name]) => ({name, place}));
}

// Returns what one member of a step, or an element of its list, takes: {name} of a result, {table}, or {argument}. Returns null for plain
// values. Row numbers can be keys, which can be a result.
function sourceOf(value, isKnown) {
  if (typeof value === "string") return value.startsWith("$") && isKnown(value.slice(1)) ? {name: value.slice(1)} : null;
  if (!isObject(value)) return null;
  if (typeof value.ref === "string") return {table: value.ref};
  if (typeof value.attr === "string") return {argument: value.attr, default: value.default};
  return value.keys === undefined ? null : sourceOf(value.keys, isKnown);
}

function readStep(step, isKnown) {
  const {op, as, ...members} = objectOf(step), sources = [];
  for (const [member, value] of Object.entries(members))
    for (const one of Array.isArray(value) ? value : [value]) {
      const source = sourceOf(one, isKnown);
      if (source) sources.push({...source, member});
    }
  return {op: typeof op === "string" ? op : "", results: resultsOf(as), sources};
}

// Returns {inputs: [{name, declared}], steps: [{op, results, sources}], outputs: [name]}. `declared`: {dtype, shape}, or null if the text
// has the input's data. Malformed parts are left out; the server reports them. Throws SyntaxError.
export function readProgram(text) {
  const document = objectOf(json.parse(text)), known = new Set();
  const inputs = Object.entries(objectOf(document.inputs)).map(([name, value]) => ({name, declared: isDeclared(value) ? value : null}));
  for (const {name} of inputs) known.add(name);
  const steps = listOf(document.steps).map((given) => {
    const step = readStep(given, (name) => known.has(name));
    for (const {name} of step.results) known.add(name);
    return step;
  });
  return {inputs, steps, outputs: listOf(document.outputs).filter((name) => known.has(name))};
}

// Returns the arguments: {name, default, places: [{op, member, step}]}. The first place determines what the argument means.
export function argumentsOf({steps}) {
  const found = new Map();
  steps.forEach(({op, sources}, step) => {
    for (const source of sources) {
      if (source.argument === undefined) continue;
      const known = found.get(source.argument) ?? {name: source.argument, default: source.default, places: []};
      known.places.push({op, member: source.member, step});
      found.set(source.argument, known);
    }
  });
  return [...found.values()];
}

// Returns the letters that stand for sizes in the shapes of the inputs.
export const lettersOf = ({inputs}) => [...new Set(inputs.flatMap(({declared}) => declared?.shape ?? []).filter((size) => typeof size === "string"))];

// Returns the sizes that the shapes of given inputs decide. `shapes`: by name, for the inputs whose shape is known.
export function sizesOf({inputs}, shapes) {
  const sizes = {};
  for (const {name, declared} of inputs)
    if (declared && shapes[name]?.length === declared.shape.length)
      declared.shape.forEach((size, axis) => {
        if (typeof size === "string") sizes[size] ??= shapes[name][axis];
      });
  return sizes;
}

// Returns the text with ranges replaced, in text and Blobs. `edits`: {from, to, parts}.
function edited(text, edits) {
  const parts = [];
  let at = 0;
  for (const {from, to, parts: own} of edits.toSorted((a, b) => a.from - b.from)) {
    parts.push(text.slice(at, from), ...own);
    at = to;
  }
  return [...parts, text.slice(at)];
}

// Returns the program with values, in text and Blobs. `values`: parts by the name of an input; `given`: texts by the name of an argument;
// `sizes`: by letter, for inputs without a value.
export function withValues(text, program, values, given, sizes) {
  const edits = [], put = (place, parts) => edits.push({...json.locate(text, place), parts});
  for (const {name, declared} of program.inputs.filter((input) => input.declared)) {
    if (values[name]) put(["inputs", name], values[name]);
    else declared.shape.forEach((size, axis) => {
      if (typeof size === "string") put(["inputs", name, "shape", String(axis)], [String(sizes[size])]);
    });
  }
  for (const {name, places} of argumentsOf(program))
    for (const {member, step} of places) {
      const place = ["steps", String(step), member], range = json.locate(text, [...place, "default"]);
      const own = given[name] ?? (range ? text.slice(range.from, range.to) : null);
      if (own !== null) put(place, [own]);
    }
  return edited(text, edits);
}

// Returns the text with a line for each input and step. `text`: a JSON object.
export function inLines(text) {
  const lines = ([open, close], entries) => `${open}\n  ${entries.join(",\n  ")}${close}`;
  const shown = ([name, own]) => {
    if (/^\{\s*"/.test(own) && name === "inputs") return lines("{}", Object.entries(json.written(own)).map(([input, value]) => `${JSON.stringify(input)}: ${value}`));
    return /^\[\s*[^\s\]]/.test(own) && name === "steps" ? lines("[]", json.written(own)) : own;
  };
  return `{${Object.entries(json.written(text)).map(([name, own]) => `${JSON.stringify(name)}: ${shown([name, own])}`).join(",\n ")}}`;
}

// Returns the line and the column of a position in the text, from 1.
export function lineAndColumn(text, at) {
  const before = text.slice(0, at).split("\n");
  return {line: before.length, column: before.at(-1).length + 1};
}

// Returns the names and numbers that lead to the place of a problem, or null if the problem names none.
function stepsTo({pointer, step, input, attribute}) {
  if (pointer) return stepsOf(pointer);
  if (step === undefined) return input ? ["inputs", input] : null;
  const member = input ?? attribute;
  return ["steps", String(step), ...(member ? /^[^.[]*/.exec(member) : [])];
}

// Returns the range of the character at which the browser stopped reading the text as JSON, or null. Browsers give the place only in words:
// as a position, as a line and a column, or as the end of the text.
export function placeOfSyntax({message}, text) {
  const [, position] = /at position (\d+)/.exec(message) ?? [], [, line, column] = /line (\d+) column (\d+)/.exec(message) ?? [];
  const ends = /\bend\b/.test(message) ? text.length : null;
  const lineStart = () => text.split("\n").slice(0, line - 1).reduce((sum, own) => sum + own.length + 1, 0);
  const from = position !== undefined ? Number(position) : line !== undefined ? lineStart() + Number(column) - 1 : ends;
  return from === null ? null : {from: Math.min(from, text.length), to: Math.min(from + 1, text.length)};
}

// Returns the range {from, to} of a problem in the text: the place that the problem names, or else the nearest part around it. Returns
// null if the problem names no place. Data that replaced a part of the text has no place of its own in the text.
export function placeOf(document, text) {
  for (let steps = stepsTo(document); steps?.length; steps = steps.slice(0, -1)) {
    const found = rangeOf(text, steps);
    if (found) return found;
  }
  return null;
}

// Returns the range of the value that `steps` lead to; null if there is none, or if the text is not JSON.
export function rangeOf(text, steps) {
  try {
    return json.locate(text, steps);
  } catch {
    return null;
  }
}
