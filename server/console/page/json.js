// JSON with integers of 64 bits: those that a double cannot hold become BigInt, and are written as they were.

const supported = (() => {
  let source;
  JSON.parse("1", (_, value, context) => {
    source = context?.source;
    return value;
  });
  return source === "1";
})();

// An integer of 16 digits or more. Reading with a function takes four times as long, so it is done only where there is one.
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

// Whether the text is one value and nothing more, so that it may stand in a request.
export function isValue(text) {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

// Where the JSON value that begins at `at` ends.
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

// The members of the object or list that begins at `at` of `text`, which is JSON: {name, from, to}, where the value of each is.
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

// The values in an object or a list as they are written, by name or place: 1.0 is not 1 for the daemon. `text` is JSON.
export function written(text) {
  const begin = text.search(/\S/), texts = text[begin] === "[" ? [] : Object.create(null);
  for (const {name, from, to} of members(text, begin)) texts[name] = text.slice(from, to);
  return texts;
}

// Where in `text`, which is JSON, the value is that names and numbers lead to: {from, to}, or null if there is none.
export function locate(text, steps) {
  let found = {from: text.search(/\S/), to: text.trimEnd().length};
  for (const step of steps) {
    if (text[found.from] !== "[" && text[found.from] !== "{") return null;
    found = [...members(text, found.from)].findLast(({name}) => String(name) === step);
    if (!found) return null;
  }
  return found;
}

// Text that is JSON already, as a user typed it.
export class Raw {
  constructor(text) {
    this.text = text;
  }
}
