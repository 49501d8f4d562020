// JSON with 64-bit integers. Those that a double cannot hold become BigInt and are written back unchanged.

const supported = (() => {
  let source;
  JSON.parse("1", (_, value, context) => {
    source = context?.source;
    return value;
  });
  return source === "1";
})();

// Matches an integer of 16 digits or more. Parsing with a reviver takes four times as long, so only text with a match gets it.
const longInteger = /(?:^|[[,:\s])-?\d{16,}\s*(?:[,\]}]|$)/;

export function parse(text) {
  if (!supported || !longInteger.test(text)) return JSON.parse(text);
  return JSON.parse(text, (_, value, context) =>
    typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value) && /^-?\d+$/.test(context.source)
      ? BigInt(context.source) : value);
}

export function stringify(value) {
  if (typeof value === "bigint") return value.toString();
  if (Array.isArray(value)) return `[${value.map(stringify).join(", ")}]`;
  if (value && typeof value === "object" && !(value instanceof Raw)) {
    const members = Object.entries(value).filter(([, member]) => member !== undefined);
    return `{${members.map(([name, member]) => `${JSON.stringify(name)}: ${stringify(member)}`).join(", ")}}`;
  }
  if (typeof value === "number" && !Number.isFinite(value)) return `"${value}"`; // as the daemon reads and writes them
  return value instanceof Raw ? value.text : JSON.stringify(value);
}

// True if the text is exactly one JSON value, so it can be part of a request.
export function isValue(text) {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

// Returns the end of the JSON value that starts at `at`.
function endOf(text, at) {
  let depth = 0;
  for (const token = /"(?:[^"\\]|\\.)*"|[{[\]}]|[^\s"{}[\],:]+|[,:]/gy; ;) {
    token.lastIndex = at + /^\s*/.exec(text.slice(at))[0].length;
    const found = token.exec(text)[0];
    at = token.lastIndex;
    if (found === "{" || found === "[") depth += 1;
    else if (found === "}" || found === "]") depth -= 1;
    if (depth === 0) return at;
  }
}

// Yields the members of the object or list that starts at `at` in the JSON `text`: {name, from, to}, the range of each value.
function* members(text, at) {
  const list = text[at] === "[", comma = /\s*,/y;
  at += 1;
  for (let place = 0, more = !/^\s*[\]}]/.test(text.slice(at)); more; place += 1) {
    const nameEnd = list ? at : endOf(text, at), name = list ? place : JSON.parse(text.slice(at, nameEnd));
    if (!list) at = text.indexOf(":", nameEnd) + 1;
    const to = comma.lastIndex = endOf(text, at);
    yield {name, from: at + /^\s*/.exec(text.slice(at))[0].length, to};
    more = comma.test(text);
    at = comma.lastIndex;
  }
}

// Returns the source text of each value in a JSON object or list, by name or index. The daemon distinguishes 1.0 from 1.
export function written(text) {
  const begin = text.search(/\S/), texts = text[begin] === "[" ? [] : Object.create(null);
  for (const {name, from, to} of members(text, begin)) texts[name] = text.slice(from, to);
  return texts;
}

// Returns the range {from, to} of the value that the names and numbers in `steps` lead to in the JSON `text`; null if there is none.
export function locate(text, steps) {
  let found = {from: text.search(/\S/), to: text.trimEnd().length};
  for (const step of steps) {
    if (text[found.from] !== "[" && text[found.from] !== "{") return null;
    found = [...members(text, found.from)].findLast(({name}) => String(name) === step);
    if (!found) return null;
  }
  return found;
}

// Returns the parts of a JSON object, in text and Blobs. `members`: [name, parts of its value].
export const objectParts = (members) => ["{", ...members.flatMap(([name, parts], i) => [`${i ? ", " : ""}${JSON.stringify(name)}: `, ...parts]), "}"];

// Joins parts in text and Blobs to the body of a request: text, or a Blob if there is a Blob among them.
export const joined = (parts) => (parts.some((part) => part instanceof Blob) ? new Blob(parts, {type: "application/json"}) : parts.join(""));

// Text that is already JSON, as the user typed it.
export class Raw {
  constructor(text) {
    this.text = text;
  }
}
