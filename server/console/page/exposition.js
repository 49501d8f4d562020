// Reads the text of /metrics into samples by name, with their labels.

// Returns a map from name to [{labels, value}].
export function parse(text) {
  const samples = new Map();
  for (const line of text.split("\n")) {
    if (!line || line.startsWith("#")) continue;
    const found = /^([A-Za-z_:][\w:]*)(?:\{(.*)\})? (\S+)/.exec(line);
    if (!found) continue;
    const labels = {};
    for (const [, name, value] of (found[2] ?? "").matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) labels[name] = value.replace(/\\(.)/g, (_, c) => (c === "n" ? "\n" : c));
    if (!samples.has(found[1])) samples.set(found[1], []);
    samples.get(found[1]).push({labels, value: Number(found[3].replace("+Inf", "Infinity"))});
  }
  return samples;
}

export function sum(samples, name, fits = () => true) {
  return (samples.get(name) ?? []).reduce((total, {labels, value}) => (fits(labels) ? total + value : total), 0);
}

// Sums the samples for each value of a label.
export function by(samples, name, label, fits = () => true) {
  const sums = Object.create(null); // a table may be called "constructor"
  for (const {labels, value} of samples.get(name) ?? []) if (fits(labels)) sums[labels[label] ?? ""] = (sums[labels[label] ?? ""] ?? 0) + value;
  return sums;
}

// Returns what a histogram counted between two scrapes: [upper bound, cumulative count], in ascending order of bounds.
export function distribution(before, after, name, fits) {
  const upTo = (samples) => by(samples, `${name}_bucket`, "le", fits);
  const first = upTo(before), last = upTo(after);
  return Object.keys(last).map((text) => [text === "+Inf" ? Infinity : Number(text), last[text] - (first[text] ?? 0)]).sort((a, b) => a[0] - b[0]);
}

// Returns a quantile of a distribution in its unit, interpolated linearly within a bucket; null without observations.
export function quantile(distribution, part) {
  const total = distribution.length ? distribution[distribution.length - 1][1] : 0;
  if (total <= 0) return null;
  let [low, below] = [0, 0];
  for (const [bound, count] of distribution) {
    if (count >= part * total) return bound === Infinity ? low : low + ((bound - low) * (part * total - below)) / Math.max(count - below, 1);
    [low, below] = [bound, count];
  }
  return low;
}
