// Which input cells an output cell came from.
//
// Ops that only move data tell it themselves: with the elements 1, 2, 3, ... in place of their data (0 is a zero that
// came from nowhere), the answer says for each output cell which cell it is. For einsum and bags the set is what the
// labels and the offsets select.

import * as api from "./api.js";
import {fromReply, numel, positionOf, toNumber} from "./tensor.js";

const most = 10000;

// Inputs whose elements an op moves without looking at them: such an input may as well be strings.
export function isMoved(input) {
  return input.role === "data" && input.dtypes.includes("string") && input.dtypes.includes("int64");
}

// `inputs`: [{spec, tensors: [{shape}]}] of the moved ones. `make(name, i, tensor)` puts numbers in place of them and
// returns the request's text. null: too large, or an op that computes.
export async function trace(op, moved, requestWith, signal) {
  const total = moved.reduce((sum, {tensors}) => sum + tensors.reduce((n, {shape}) => n + numel(shape), 0), 0);
  if (moved.length === 0 || total > most) return null;
  const cells = [{name: "", index: -1}];
  const numbered = new Map();
  for (const {spec, tensors} of moved)
    numbered.set(spec.name, tensors.map(({shape}, i) => {
      const first = cells.length;
      for (let index = 0; index < numel(shape); index++) cells.push({name: spec.list ? `${spec.name}.${i}` : spec.name, index});
      return {dtype: "int64", shape, data: Array.from({length: numel(shape)}, (_, index) => first + index)};
    }));
  const reply = await api.postJson(`/v1/${op.name}`, requestWith(numbered), {signal});
  return outputsOf(JSON.parse(reply.text)).map(({name, tensor}) => ({name, sources: fromReply(tensor).flat?.map((at) => (cells[at]?.name ? [cells[at]] : []))}));
}

// The outputs of a reply, with the names that a user sees.
export function outputsOf(document) {
  if (document.output) return [{name: "output", tensor: document.output}];
  if (Array.isArray(document.outputs)) return document.outputs.map((tensor, i) => ({name: `outputs.${i}`, tensor}));
  return Object.entries(document.outputs ?? {}).map(([name, tensor]) => ({name, tensor}));
}

// The labels of each operand and of the output, one a dimension; null if there is an ellipsis or the ranks differ.
export function labelsOf(equation, shapes) {
  const [left, right] = equation.replace(/ /g, "").split("->");
  const operands = left.split(",").map((labels) => [...labels]);
  if (equation.includes(".") || operands.length !== shapes.length) return null;
  if (operands.some((labels, i) => labels.length !== shapes[i].length)) return null;
  const all = operands.flat();
  const implicit = [...new Set(all)].filter((label) => all.filter((other) => other === label).length === 1).sort();
  return {operands, output: right === undefined ? implicit : [...right]};
}

// The cells of each operand whose products an output cell sums.
export function einsumSources(labels, shapes, position) {
  const fixed = new Map(labels.output.map((label, axis) => [label, position[axis]]));
  return labels.operands.flatMap((own, i) => {
    const found = [];
    for (let index = 0; index < numel(shapes[i]); index++) {
      const at = positionOf(index, shapes[i]), seen = new Map(fixed);
      const fits = own.every((label, axis) => (seen.has(label) ? seen.get(label) === at[axis] : seen.set(label, at[axis])));
      if (fits) found.push({name: `inputs.${i}`, index});
    }
    return found;
  });
}

// "output[i,k] = Σ_j inputs.0[i,j] · inputs.1[j,k]"
export function einsumSentence(labels) {
  const summed = [...new Set(labels.operands.flat())].filter((label) => !labels.output.includes(label));
  const factors = labels.operands.map((own, i) => `inputs.${i}[${own.join(",")}]`).join(" · ");
  return `output[${labels.output.join(",")}] = ${summed.length ? `Σ_${summed.join(",")} ` : ""}${factors}`;
}

// The rows of each bag, as cells of params in one column.
export function bagSources(values, columns, position) {
  const [bag, column = 0] = position;
  const {indices, offsets, segment_ids: ids} = values;
  if (!indices || (!offsets && !ids)) return [];
  const begin = offsets ? toNumber(offsets[bag]) : 0;
  const end = offsets ? (bag + 1 < offsets.length ? toNumber(offsets[bag + 1]) : indices.length) : indices.length;
  const rows = [];
  for (let i = begin; i < end; i++)
    if (offsets || toNumber(ids[i]) === bag) rows.push({at: i, row: toNumber(indices[i])});
  return rows.flatMap(({at, row}) => [{name: "params", index: row * columns + column}, {name: "indices", index: at}]);
}
