// Tensors as nested lists and as objects of replies, and positions in them.

import * as json from "./json.js";

export const dtypes = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16",
  "float32", "float64", "complex64", "complex128", "string"];

export const numel = (shape) => shape.reduce((product, size) => product * size, 1);

// A tensor with more elements is shown as a picture.
export const mostCells = 10000;

export const isComplex = (dtype) => dtype === "complex64" || dtype === "complex128";

// Returns the shape of a nested list and its elements in row-major order. Complex elements are lists themselves.
// Throws an error that names the first list whose length differs from its siblings'.
export function flatten(nested, complex = false) {
  const shape = [];
  for (let level = nested; Array.isArray(level) && !(complex && isPair(level)); level = level[0]) shape.push(level.length);
  const flat = [];
  const walk = (value, depth, place) => {
    if (depth === shape.length) {
      if (Array.isArray(value) && !complex) throw new Error(`${placeText(place)} is a list; expected an element, like its siblings`);
      flat.push(value);
      return;
    }
    if (!Array.isArray(value) || value.length !== shape[depth])
      throw new Error(`${placeText(place)} has ${Array.isArray(value) ? value.length : "no"} elements; expected ${shape[depth]}, like its siblings`);
    value.forEach((child, i) => walk(child, depth + 1, [...place, i]));
  };
  walk(nested, 0, []);
  return {shape, flat};
}

const isPair = (value) => value.length === 2 && value.every((part) => !Array.isArray(part));

// Moves a large tensor's elements into a typed array. A large string tensor cannot be shown and loses its elements.
export function compact({dtype, shape, flat}) {
  if (dtype === "string") return {dtype, shape, flat: null};
  if (isComplex(dtype)) return {dtype, shape, flat: Float64Array.from({length: 2 * flat.length}, (_, i) => toNumber(flat[i >> 1][i & 1]))};
  if (dtype === "int64" || dtype === "uint64") return {dtype, shape, flat: (dtype === "int64" ? BigInt64Array : BigUint64Array).from(flat, BigInt)};
  return {dtype, shape, flat: Float64Array.from(flat, toNumber)};
}

// Returns an element of a tensor, whichever way the elements are stored.
export function cellAt({dtype, flat}, index) {
  if (Array.isArray(flat)) return flat[index];
  if (isComplex(dtype)) return [flat[2 * index], flat[2 * index + 1]];
  return dtype === "bool" ? flat[index] !== 0 : flat[index];
}

// Infers the dtype of a nested list as the daemon does. `text` shows which numbers have a fraction or an exponent.
export function inferDtype(flat, isIndex, text = "") {
  if (flat.length === 0) return isIndex ? "int32" : "float32";
  if (flat.every((value) => typeof value === "string")) return "string";
  if (flat.every((value) => typeof value === "boolean")) return "bool";
  if (flat.some((value) => typeof value === "number" && !Number.isInteger(value)) || /\d[.eE]/.test(text)) return "float32";
  const large = (value) => value > 2147483647 || value < -2147483648;
  if (flat.some((value) => value > 9223372036854775807n)) return "uint64";
  return flat.some(large) ? "int64" : "int32";
}

// Returns the position of element `index` in row-major order.
export function positionOf(index, shape) {
  const position = new Array(shape.length);
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    position[axis] = index % shape[axis];
    index = Math.floor(index / shape[axis]);
  }
  return position;
}

export function indexOf(position, shape) {
  return position.reduce((index, at, axis) => index * shape[axis] + at, 0);
}

export function placeText(position, name = "") {
  return position.length ? `${name}[${position.join(",")}]` : name || "the value";
}

export const typeText = (dtype, shape) => `${dtype} [${shape.join(",")}]`;

// Converts a tensor in a reply, {dtype, shape, data} with nested data, to {dtype, shape, flat}.
export function fromReply(tensor) {
  if (tensor.data === undefined) return {dtype: tensor.dtype, shape: tensor.shape, flat: null, base64: tensor.base64};
  const flat = [];
  const walk = (value, depth) => {
    if (depth === 0) flat.push(value);
    else for (const child of value) walk(child, depth - 1);
  };
  walk(tensor.data, tensor.shape.length);
  return {dtype: tensor.dtype, shape: tensor.shape, flat};
}

// Returns the outputs of a reply, with the names that users see.
export function outputsOf(document) {
  if (document.output) return [{name: "output", tensor: document.output}];
  if (Array.isArray(document.outputs)) return document.outputs.map((tensor, i) => ({name: `outputs.${i}`, tensor}));
  return Object.entries(document.outputs ?? {}).map(([name, tensor]) => ({name, tensor}));
}

// Returns the text of a nested list, one row on each line.
export function nestedText({shape, flat}) {
  if (flat.length === 0 && numel(shape.slice(0, shape.indexOf(0))) > mostCells) throw new Error(`a tensor of shape [${shape}] is too large for a text field`);
  const write = (axis, from, step, indent) => {
    if (axis === shape.length) return json.stringify(flat[from]);
    const size = step / (shape[axis] || 1), children = [];
    for (let i = 0; i < shape[axis]; i++) children.push(write(axis + 1, from + i * size, size, indent + 1));
    return axis === shape.length - 1 ? `[${children.join(", ")}]` : `[${children.join(`,\n${" ".repeat(indent + 1)}`)}]`;
  };
  return write(0, 0, flat.length || 1, 0);
}

// Converts an element to a number: the magnitude if it is complex. NaN and infinities are strings in JSON.
export function toNumber(value) {
  if (typeof value === "number") return value;
  if (typeof value === "boolean") return value ? 1 : 0;
  if (typeof value === "bigint") return Number(value);
  if (Array.isArray(value)) return Math.hypot(toNumber(value[0]), toNumber(value[1]));
  return value === "Infinity" ? Infinity : value === "-Infinity" ? -Infinity : NaN;
}
