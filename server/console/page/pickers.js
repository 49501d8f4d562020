// Which cells of an index tensor picked an output cell.
//
// Ops that pick slices of params along a dimension tell it themselves: with the indices 0, 1, 2, … and params that have a slice for each of
// them, filled with its number, the answer is those numbers. For ops with an index beside each element, or a query for each row, it is the
// place itself.

import * as api from "./api.js";
import {fromReply, indexOf, mostCells, numel, outputsOf, positionOf} from "./tensor.js";

const counted = (text, fallback, rank) => (text === "" ? fallback : Number(text) + (Number(text) < 0 ? rank : 0));

// The dimensions that params and indices share, and the first one that is picked along; `tuple`: how many coordinates one index has, as the
// last dimension of indices.
const picking = {
  gather: ({params, indices}, attribute) => {
    const batch = counted(attribute("batch_dims"), 0, indices.length);
    return {batch, axis: counted(attribute("axis"), batch, params.length), tuple: null};
  },
  batch_gather: ({indices}) => ({batch: indices.length - 1, axis: indices.length - 1, tuple: null}),
  gather_nd: ({indices}, attribute) => {
    const batch = counted(attribute("batch_dims"), 0, indices.length);
    return {batch, axis: batch, tuple: indices[indices.length - 1]};
  },
};

// Pairs of inputs with an index for each slice of data.
const besides = {dynamic_stitch: ["data", "indices"], parallel_dynamic_stitch: ["data", "indices"], dynamic_partition: ["data", "partitions"]};

// `shapes`: {params, indices}; `attribute(name)`: the text of one; `requestWith(numbered)`: as of trace in provenance.js. Gives, by output
// cell, the first and the number of cells of indices; null: not known, or too large.
export async function tracePicks(op, shapes, attribute, requestWith, signal) {
  const {batch, axis, tuple} = picking[op.name]?.(shapes, attribute) ?? {};
  const {params, indices} = shapes, own = tuple === null ? indices : indices.slice(0, -1);
  const picks = numel(own.slice(batch)), wide = params.map((size, i) => (i === axis ? picks : i > axis && i < axis + (tuple ?? 1) ? 1 : size));
  if (!(batch >= 0 && axis >= batch && axis < params.length) || tuple === 0 || numel(wide) > mostCells) return null;
  const slice = numel(wide.slice(axis + 1)), whole = numel(wide.slice(batch)); // elements of a slice, and of a batch
  const numbers = Array.from({length: numel(wide)}, (_, i) => Math.floor(i / whole) * picks + (Math.floor(i / slice) % picks));
  const pick = (i) => (tuple === null ? i % picks : i % tuple ? 0 : (i / tuple) % picks);
  const numbered = new Map([["params", [{dtype: "int64", shape: wide, data: numbers}]],
    ["indices", [{dtype: "int64", shape: indices, data: Array.from({length: numel(indices)}, (_, i) => pick(i))}]]]);
  const reply = await api.postJson(`/v1/${op.name}`, requestWith(numbered), {signal});
  return fromReply(outputsOf(JSON.parse(reply.text))[0].tensor).flat.map((at) => ({first: at * (tuple ?? 1), length: tuple ?? 1}));
}

export const isPicking = (op) => Object.hasOwn(picking, op.name);

// The index beside a cell of data: {name, index}. `shapeOf(name)`: of an input.
export function besideOf(op, {name, index}, shapeOf) {
  const [data, other] = besides[op.name] ?? [];
  if (name !== data && !name.startsWith(`${data}.`)) return null;
  const beside = other + name.slice(data.length), shape = shapeOf(beside);
  return shape ? {name: beside, index: indexOf(positionOf(index, shapeOf(name)).slice(0, shape.length), shape)} : null;
}
