// Which input cells an output cell came from.
//
// Ops that only move data tell it themselves: with the elements 1, 2, 3, ... in place of their data (0 is a zero that
// came from nowhere), the answer says for each output cell which cell it is. For sums of products and for bags the set is what
// the labels and the offsets select. Which query picked a row follows from the description of the op's rows.

import * as api from "./api.js";
import {inputOf} from "./ops.js";
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

// The labels of each operand and of the output of a plan's equation, one a dimension.
export function labelsOf(equation) {
  const [operands, [output]] = equation.split("->").map((side) => side.split(",").map((labels) => [...labels]));
  return {operands, output};
}

// The cells of each operand whose products an output cell sums; of an operand at most as many as are shown as cells. A dimension of size 1
// may have a larger label. `tensors`: [{label, shape}].
export function productSources(labels, tensors, position) {
  const fixed = new Map(labels.output.map((label, axis) => [label, position[axis]]));
  return labels.operands.flatMap((own, i) => {
    const {label: name, shape} = tensors[i], sizes = new Map(own.map((label, axis) => [label, shape[axis]]));
    const summed = [...sizes.keys()].filter((label) => !fixed.has(label)), extents = summed.map((label) => sizes.get(label));
    return Array.from({length: Math.min(numel(extents), mostCells)}, (_, n) => {
      const at = positionOf(n, extents), place = new Map([...fixed, ...summed.map((label, axis) => [label, at[axis]])]);
      return {name, index: indexOf(own.map((label, axis) => Math.min(place.get(label), shape[axis] - 1)), shape)};
    });
  });
}

// The same in words, a slice of each operand: "inputs.0[1,:] · inputs.1[:,0]". A label that an operand has twice is written where it is
// not fixed: those cells are a diagonal.
export function productSlices(labels, tensors, position) {
  const fixed = new Map(labels.output.map((label, axis) => [label, position[axis]]));
  const place = (label, size, own) => (fixed.has(label) ? Math.min(fixed.get(label), size - 1) : own.filter((other) => other === label).length > 1 ? label : ":");
  return labels.operands.map((own, i) => {
    const {label: name, shape} = tensors[i];
    return own.length ? `${name}[${own.map((label, axis) => place(label, shape[axis], own)).join(",")}]` : name;
  }).join(" · ");
}

// The cells of the table and of the queries that an output cell sums; null if a row is not one of the table, which the bounds policy replaces.
// `table`, `queries`, `offsets`, `segments`: tensors of the form; `skipped`: the row number that does not count, or null.
export function bagSources({table, queries, offsets, segments, skipped}, [bag, ...column]) {
  if (!offsets?.cells && !segments?.cells) return null;
  const [rows, ...row] = table.shape, numbers = queries.cells.map(toNumber), starts = offsets?.cells;
  const begin = starts ? toNumber(starts[bag]) : 0;
  const end = starts && bag + 1 < starts.length ? toNumber(starts[bag + 1]) : numbers.length;
  const places = Array.from({length: end - begin}, (_, i) => begin + i)
    .filter((at) => (starts || toNumber(segments.cells[at]) === bag) && numbers[at] !== skipped);
  if (places.some((at) => !(numbers[at] >= 0 && numbers[at] < rows))) return null;
  return places.flatMap((at) => [{name: table.label, index: numbers[at] * numel(row) + indexOf(column, row)}, {name: queries.label, index: at}]);
}

// A number of dimensions that the description of the rows has as a number, or as the name of an attribute; NaN: it has none.
function dimensions(op, given, attribute, rank) {
  const value = typeof given === "string" ? Number(attribute(given) || op.attributes.find(({name}) => name === given).default) : given ?? NaN;
  return value < 0 ? value + rank : value;
}

// The query that picked an output cell, {name, first, length}: a cell, or the coordinates of an index tuple; null if the op has none, or
// bags of them. `shapeOf(name)`: of an input; `attribute(name)`: the text of one.
export function queryOf(op, shapeOf, attribute, position) {
  const [table, query] = ["table", "query"].map((part) => inputOf(op, part)), shape = query && shapeOf(query.name);
  if (!shape || inputOf(op, "segments") || (table && !shapeOf(table.name))) return null;
  const own = shape.slice(0, shape.length - op.rows.query_rank), length = numel(shape.slice(own.length));
  const batch = dimensions(op, op.rows.batch_dims, attribute, own.length);
  const axis = dimensions(op, op.rows.axis, attribute, table && shapeOf(table.name).length);
  const begin = Number.isNaN(axis) ? batch : axis, at = [...position.slice(0, batch), ...position.slice(begin, begin + own.length - batch)];
  return length ? {name: query.name, first: indexOf(at, own) * length, length} : null;
}

// The element beside a cell of the input that it is aligned with, in the same form.
export function besideOf(op, {name, index}, shapeOf) {
  const [data] = name.split("."), aligned = op.inputs.find((input) => input.aligned_with === data);
  if (!aligned) return null;
  const own = aligned.name + name.slice(data.length), shape = shapeOf(own);
  return shape ? {name: own, first: indexOf(positionOf(index, shapeOf(name)).slice(0, shape.length), shape), length: 1} : null;
}
