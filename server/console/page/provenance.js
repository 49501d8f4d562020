// Which input cells an output cell came from.
//
// Ops that only move data tell it themselves: with the elements 1, 2, 3, ... in place of their data (0 is a zero that
// came from nowhere), the answer says for each output cell which cell it is. For einsum and bags the set is what the
// labels and the offsets select.

import * as api from "./api.js";
import {fromReply, indexOf, mostCells, numel, outputsOf, positionOf, toNumber} from "./tensor.js";

// Inputs whose elements an op moves without looking at them: such an input may as well be strings.
export function isMoved(input) {
  return input.role === "data" && input.dtypes.includes("string") && input.dtypes.includes("int64");
}

// `moved`: [{spec, tensors: [{shape}]}], inputs whose elements are moved. `requestWith(numbered)`: the request with these tensors, lists by
// the input's name, in place of them. null: too large, or an op that computes.
export async function trace(op, moved, requestWith, signal) {
  const total = moved.reduce((sum, {tensors}) => sum + tensors.reduce((n, {shape}) => n + numel(shape), 0), 0);
  if (moved.length === 0 || total > mostCells) return null;
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

// The cells of each operand whose products an output cell sums; of an operand at most as many as are shown as cells.
export function einsumSources(labels, shapes, position) {
  const fixed = new Map(labels.output.map((label, axis) => [label, position[axis]]));
  return labels.operands.flatMap((own, i) => {
    const sizes = new Map(own.map((label, axis) => [label, shapes[i][axis]]));
    const summed = [...sizes.keys()].filter((label) => !fixed.has(label)), extents = summed.map((label) => sizes.get(label));
    return Array.from({length: Math.min(numel(extents), mostCells)}, (_, n) => {
      const at = positionOf(n, extents), place = new Map([...fixed, ...summed.map((label, axis) => [label, at[axis]])]);
      return {name: `inputs.${i}`, index: indexOf(own.map((label) => place.get(label)), shapes[i])};
    });
  });
}

// The same in words, a slice of each operand: "inputs.0[1,:] · inputs.1[:,0]". A label that an operand has twice is written where it is
// not fixed: those cells are a diagonal.
export function einsumSlices(labels, position) {
  const fixed = new Map(labels.output.map((label, axis) => [label, position[axis]]));
  const place = (label, own) => fixed.get(label) ?? (own.filter((other) => other === label).length > 1 ? label : ":");
  return labels.operands.map((own, i) => `inputs.${i}${own.length ? `[${own.map((label) => place(label, own)).join(",")}]` : ""}`).join(" · ");
}

// The cells of params and of indices that an output cell of embedding_bag sums; null if a row is not one of the table, which the bounds
// policy replaces. `row`: the shape of a row, of which an output has the first columns; `padding`: the row that does not count, or null.
export function bagSources({rows, row, indices, offsets, ids, padding}, [bag, ...column]) {
  if (!offsets && !ids) return null;
  const begin = offsets ? toNumber(offsets[bag]) : 0;
  const end = offsets && bag + 1 < offsets.length ? toNumber(offsets[bag + 1]) : indices.length;
  const places = Array.from({length: end - begin}, (_, i) => begin + i)
    .filter((at) => (offsets || toNumber(ids[at]) === bag) && toNumber(indices[at]) !== padding);
  if (places.some((at) => !(toNumber(indices[at]) >= 0 && toNumber(indices[at]) < rows))) return null;
  return places.flatMap((at) => [{name: "params", index: toNumber(indices[at]) * numel(row) + indexOf(column, row)}, {name: "indices", index: at}]);
}
