// A few cells around the highlighted ones, shown when the tensor itself is out of sight.

import {el} from "./dom.js";
import {element} from "./numbers.js";
import {cellAt, positionOf} from "./tensor.js";

const rowsShown = 3, columnsShown = 5;

// Returns the positions to show along one dimension: `lit` and its neighbours.
function window(lit, size, shown) {
  const first = Math.max(0, Math.min(lit - Math.floor(shown / 2), size - shown));
  return Array.from({length: Math.min(shown, size)}, (_, i) => first + i);
}

// `tensor`: {dtype, shape, flat}; `lit`: indices of the highlighted cells; the first is in the centre.
export function excerpt(tensor, name, lit) {
  const {shape} = tensor, rank = shape.length, columns = rank ? shape[rank - 1] : 1, rows = rank > 1 ? shape[rank - 2] : 1;
  const place = positionOf(lit[0], shape), first = lit[0] - (lit[0] % (rows * columns)), isLit = new Set(lit);
  const across = window(place[rank - 1] ?? 0, columns, columnsShown), down = window(place[rank - 2] ?? 0, rows, rowsShown);
  const part = across.length < columns || down.length < rows ? ", a part" : "";
  const outer = rank > 2 ? `[${place.slice(0, -2).join(",")}]` : "";
  const cell = (index) => el("td", {class: isLit.has(index) ? "lit-copy" : null}, element(cellAt(tensor, index)));
  return el("table", {class: "cells excerpt"}, el("caption", {}, name, outer, part),
    rank ? el("thead", {}, el("tr", {}, rank > 1 ? el("td", {}) : null, ...across.map((column) => el("th", {scope: "col"}, String(column))))) : null,
    el("tbody", {}, ...down.map((row) => el("tr", {}, rank > 1 ? el("th", {scope: "row"}, String(row)) : null, ...across.map((column) => cell(first + row * columns + column))))));
}
