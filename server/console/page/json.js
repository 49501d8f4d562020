// JSON with integers of 64 bits: those that a double cannot hold become BigInt, and are written as they were.

const supported = (() => {
  let source;
  JSON.parse("1", (_, value, context) => {
    source = context?.source;
    return value;
  });
  return source === "1";
})();

export function parse(text) {
  if (!supported) return JSON.parse(text);
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
  return value instanceof Raw ? value.text : JSON.stringify(value);
}

// Text that is JSON already, as a user typed it.
export class Raw {
  constructor(text) {
    this.text = text;
  }
}
