// Finds the input cells that an output cell came from.
//
// For an op that only moves data, the page runs the op on the elements 1, 2, 3, ... in place of its data. Each output cell then holds
// the number of its input cell, or 0 for a zero that came from no input. For sums of products and for bags, the labels and the
// offsets determine the cells. The description of an op's rows determines which query picked a row.

import * as api from "./api.js";
import {inputOf} from "./ops.js";
import {fromReply, indexOf, mostCells, numel, outputsOf, positionOf, toNumber} from "./tensor.js";

// True for an input whose elements the op moves without reading them. An input like that also accepts strings.
export function isMoved(input) {
  return input.role === "data" && input.dtypes.includes("string") && input.dtypes.includes("int64");
}

// Returns each output's sources, or null if the tensors are too large or if the op computes. `moved`: [{spec, tensors: [{shape}]}], the
// inputs whose elements the op moves; `requestWith(numbered)`: the request with `numbered`, lists of tensors by input name, in their place.
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

// Returns the labels of each operand and of the output of a plan's equation, one for each dimension.
export function labelsOf(equation) {
  const [operands, [output]] = equation.split("->").map((side) => side.split(",").map((labels) => [...labels]));
  return {operands, output};
}

// Returns the cells of each operand whose products an output cell sums, at most as many for each operand as fit in a table of cells.
// A dimension of size 1 can share its label with a larger dimension. `tensors`: [{label, shape}].
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

// Describes the same cells as a slice of each operand: "inputs.0[1,:] · inputs.1[:,0]". If an operand has a summed label twice, its
// cells are a diagonal, and the slice shows the label.
export function productSlices(labels, tensors, position) {
  const fixed = new Map(labels.output.map((label, axis) => [label, position[axis]]));
  const place = (label, size, own) => (fixed.has(label) ? Math.min(fixed.get(label), size - 1) : own.filter((other) => other === label).length > 1 ? label : ":");
  return labels.operands.map((own, i) => {
    const {label: name, shape} = tensors[i];
    return own.length ? `${name}[${own.map((label, axis) => place(label, shape[axis], own)).join(",")}]` : name;
  }).join(" · ");
}

// Returns the cells of the table and of the queries that an output cell sums, or null if a row number is outside the table and the
// bounds policy replaces it. `table`, `queries`, `offsets`, `segments`: tensors of the form; `skipped`: the row number to ignore, or null.
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

// Returns a number of dimensions that the op's description gives as a number or as the name of an attribute; NaN if it gives none.
function dimensions(op, given, attribute, rank) {
  const value = typeof given === "string" ? Number(attribute(given) || op.attributes.find(({name}) => name === given).default) : given ?? NaN;
  return value < 0 ? value + rank : value;
}

// Returns the query that picked an output cell, {name, first, length}: a cell, or the coordinates of an index tuple. Returns null if the
// op has no queries or sums bags of rows. `shapeOf(name)`: shape of an input; `attribute(name)`: text of an attribute.
export function queryOf(op, shapeOf, attribute, position) {
  const [table, query] = ["table", "query"].map((part) => inputOf(op, part)), shape = query && shapeOf(query.name);
  if (!shape || inputOf(op, "segments") || (table && !shapeOf(table.name))) return null;
  const own = shape.slice(0, shape.length - op.rows.query_rank), length = numel(shape.slice(own.length));
  const batch = dimensions(op, op.rows.batch_dims, attribute, own.length);
  const axis = dimensions(op, op.rows.axis, attribute, table && shapeOf(table.name).length);
  const begin = Number.isNaN(axis) ? batch : axis, at = [...position.slice(0, batch), ...position.slice(begin, begin + own.length - batch)];
  return length ? {name: query.name, first: indexOf(at, own) * length, length} : null;
}

// Returns the element that is aligned with a cell of an input, in the same form as queryOf.
export function besideOf(op, {name, index}, shapeOf) {
  const [data] = name.split("."), aligned = op.inputs.find((input) => input.aligned_with === data);
  if (!aligned) return null;
  const own = aligned.name + name.slice(data.length), shape = shapeOf(own);
  return shape ? {name: own, first: indexOf(positionOf(index, shapeOf(name)).slice(0, shape.length), shape), length: 1} : null;
}
