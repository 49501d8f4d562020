// Formats numbers as text, always with units and with digits in groups.

const thin = "\u2009";

export function grouped(n) {
  const text = String(n);
  const [, sign, whole, rest] = /^(-?)(\d+)(.*)$/.exec(text) ?? [];
  return whole === undefined ? text : sign + whole.replace(/\B(?=(\d{3})+$)/g, thin) + rest;
}

const binary = ["B", "KiB", "MiB", "GiB", "TiB"];
export function bytes(n) {
  let unit = 0;
  while (n >= 1024 && unit < binary.length - 1) {
    n /= 1024;
    unit += 1;
  }
  return `${unit === 0 || n >= 100 ? Math.round(n) : n.toFixed(n >= 10 ? 1 : 2)}${thin}${binary[unit]}`;
}

const decimal = ["", "k", "M", "G", "T", "P"];
export function count(n, unit = "") {
  let step = 0;
  while (Math.abs(n) >= 10000 && step < decimal.length - 1) {
    n /= 1000;
    step += 1;
  }
  const text = step === 0 ? String(Math.abs(n) >= 100 ? Math.round(n) : Math.round(n * 100) / 100) : n.toFixed(n >= 100 ? 0 : 1);
  return `${text}${thin}${decimal[step]}${unit}`.trimEnd();
}

export function ms(n) {
  return `${n.toFixed(2)}${thin}ms`;
}

export function seconds(n) {
  if (n === 0) return `0${thin}s`;
  if (n < 1e-3) return `${(n * 1e6).toPrecision(3)}${thin}µs`;
  return n < 1 ? `${(n * 1e3).toPrecision(3)}${thin}ms` : `${n.toPrecision(3)}${thin}s`;
}

const mostText = 200; // characters of a string to show

// Formats an element with as many digits as fit in a cell.
export function element(value) {
  if (Array.isArray(value)) return `${element(value[0])}${Number(value[1]) < 0 ? "" : "+"}${element(value[1])}i`;
  if (typeof value === "string" && value.length > mostText) return `${value.slice(0, mostText)}…`;
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value)) return String(value);
  const text = String(value);
  return text.length <= 9 ? text : String(Number(value.toPrecision(6)));
}
