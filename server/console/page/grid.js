// Shows a tensor as tables of cells: the last dimension across, the one before it down, and a table for each index of the other dimensions.

import {el, replace} from "./dom.js";
import {heatmap} from "./heatmap.js";
import {element} from "./numbers.js";
import {inSlices} from "./slices.js";
import {cellAt, mostCells, numel, placeText, positionOf} from "./tensor.js";

const cellsPerStep = 50;

// Returns the label of a row, which is an index of the first dimension.
const labelOf = (rowLabels, row) => rowLabels?.[row] ?? row;

function cell(tensor, name, index, classes, rowLabels) {
  const value = cellAt(tensor, index), text = element(value), place = positionOf(index, tensor.shape);
  if (place.length) place[0] = labelOf(rowLabels, place[0]);
  return el("td", {"data-index": index, class: [typeof value === "string" ? "text" : "", ...classes].filter(Boolean).join(" ") || null, tabindex: index ? -1 : 0,
    title: `${placeText(place, name)} = ${text}`}, text);
}

// Fills the rows of a table, a few cells in each step. `marks`: returns the CSS classes of a cell.
function* fill(body, tensor, name, {first, rows, columns}, {marks, rowLabels, cells}) {
  let steps = 0;
  for (let row = 0; row < rows; row++) {
    const line = el("tr", {});
    if (tensor.shape.length > 1) line.append(el("th", {scope: "row"}, String(tensor.shape.length === 2 ? labelOf(rowLabels, row) : row)));
    body.append(line);
    for (let column = 0; column < columns; column++) {
      const index = first + row * columns + column;
      cells[index] = cell(tensor, name, index, marks(index), rowLabels);
      line.append(cells[index]);
      steps += 1;
      if (steps % cellsPerStep === 0) yield;
    }
  }
}

function table(name, rank, columns) {
  const head = rank ? el("thead", {}, el("tr", {}, rank > 1 ? el("td", {}) : null,
    ...Array.from({length: columns}, (_, column) => el("th", {scope: "col"}, String(column))))) : null;
  const body = el("tbody", {});
  return [el("table", {class: "cells"}, el("caption", {class: "hidden"}, name), head, body), body];
}

function* blocks(node, tensor, name, options) {
  const rank = tensor.shape.length;
  const columns = rank ? tensor.shape[rank - 1] : 1, rows = rank > 1 ? tensor.shape[rank - 2] : 1;
  const outer = tensor.shape.slice(0, Math.max(rank - 2, 0));
  for (let block = 0; block < numel(outer); block++) {
    const [whole, body] = table(name, rank, columns);
    const place = positionOf(block, outer);
    if (place.length) place[0] = labelOf(options.rowLabels, place[0]);
    node.append(el("div", {class: "block"}, outer.length ? el("h4", {}, `${name}[${place.join(",")}]`) : null, whole));
    yield* fill(body, tensor, name, {first: block * rows * columns, rows, columns}, options);
    yield;
  }
}

// Moves among the cells with the arrow keys: left and right by a cell, up and down by a row.
function onKey(event, tensor, node) {
  const at = event.target.closest("td[data-index]");
  const columns = tensor.shape.length ? tensor.shape[tensor.shape.length - 1] : 1;
  const step = {ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns}[event.key];
  if (!at || !step) return;
  event.preventDefault();
  node.querySelector(`[data-index="${Number(at.dataset.index) + step}"]`)?.focus();
}

// Returns {node, light(indices), mark(indices)}. onpoint(index) reports the cell under the pointer or the focus, or -1. `rowLabels`: labels
// of the rows of the first dimension, if they are not the row numbers.
export function grid(tensor, name, {onpoint, rowLabels} = {}) {
  const large = numel(tensor.shape) > mostCells;
  const node = el("div", {class: "grid", role: "group", "aria-label": `${name}, ${tensor.shape.length ? tensor.shape.join(" by ") : "a scalar"}`});
  const marked = new Map([["lit", new Set()], ["bad", new Set()], ["pointed", new Set()]]), cells = [];
  const marks = (index) => [...marked].filter(([, indices]) => indices.has(index)).map(([kind]) => kind);
  if (numel(tensor.shape) === 0) replace(node, el("p", {class: "empty"}, "no elements"));
  else if (large && tensor.dtype !== "string") {
    node.classList.add("pictured"); // does not scroll, because its scale stands below it
    replace(node, heatmap(tensor, name, onpoint));
  }
  else if (large) replace(node, el("p", {class: "empty"}, `${numel(tensor.shape)} strings: too many to show`));
  else inSlices(blocks(node, tensor, name, {marks, rowLabels, cells}), () => node.isConnected);
  const classify = (kind, indices) => {
    for (const index of marked.get(kind)) cells[index]?.classList.remove(kind);
    marked.set(kind, new Set(indices));
    for (const index of indices) cells[index]?.classList.add(kind);
  };
  const pointAt = (index) => {
    classify("pointed", index < 0 ? [] : [index]);
    onpoint(index);
  };
  const point = (event) => pointAt(Number(event.target.closest?.("td[data-index]")?.dataset.index ?? -1));
  if (onpoint) {
    node.addEventListener("pointerover", point);
    node.addEventListener("focusin", point);
    for (const kind of ["pointerleave", "focusout"]) node.addEventListener(kind, () => pointAt(-1));
  }
  node.addEventListener("keydown", (event) => onKey(event, tensor, node));
  // Scrolls the grid only, not the page.
  const reveal = (cell) => {
    if (!cell) return;
    const own = cell.getBoundingClientRect(), box = node.getBoundingClientRect();
    if (own.top < box.top || own.bottom > box.bottom) node.scrollTop += own.top - box.top - (box.height - own.height) / 2;
    if (own.left < box.left || own.right > box.right) node.scrollLeft += own.left - box.left - (box.width - own.width) / 2;
  };
  const light = (indices) => {
    classify("lit", indices);
    reveal(cells[indices[0]]);
  };
  return {node, light, mark: (indices) => classify("bad", indices)};
}
