// A tensor as a table of cells: the last dimension along a row, the one before it down, the others one block each.

import {el, replace} from "./dom.js";
import {heatmap} from "./heatmap.js";
import {element} from "./numbers.js";
import {numel, placeText, positionOf} from "./tensor.js";

const mostCells = 10000;

function table(tensor, name, first, rows, columns) {
  const body = el("tbody", {});
  for (let row = 0; row < rows; row++) {
    const line = el("tr", {});
    if (tensor.shape.length > 1) line.append(el("th", {scope: "row"}, String(row)));
    for (let column = 0; column < columns; column++) {
      const index = first + row * columns + column;
      line.append(el("td", {"data-index": index, class: typeof tensor.flat[index] === "string" ? "text" : "", tabindex: -1,
        title: `${placeText(positionOf(index, tensor.shape), name)} = ${element(tensor.flat[index])}`}, element(tensor.flat[index])));
    }
    body.append(line);
  }
  const head = tensor.shape.length ? el("thead", {}, el("tr", {}, tensor.shape.length > 1 ? el("td", {}) : null,
    ...Array.from({length: columns}, (_, column) => el("th", {scope: "col"}, String(column))))) : null;
  return el("table", {class: "cells"}, el("caption", {class: "hidden"}, name), head, body);
}

function blocks(tensor, name) {
  const rank = tensor.shape.length;
  const columns = rank ? tensor.shape[rank - 1] : 1, rows = rank > 1 ? tensor.shape[rank - 2] : 1;
  const outer = tensor.shape.slice(0, Math.max(rank - 2, 0)), size = rows * columns;
  return Array.from({length: numel(outer)}, (_, block) => {
    const place = positionOf(block, outer);
    return el("div", {class: "block"}, outer.length ? el("h4", {}, `${name}[${place.join(",")}]`) : null, table(tensor, name, block * size, rows, columns));
  });
}

// Moves among the cells with the arrow keys: left and right by one, up and down by a row.
function onKey(event, tensor, node) {
  const cell = event.target.closest("td[data-index]");
  const columns = tensor.shape.length ? tensor.shape[tensor.shape.length - 1] : 1;
  const step = {ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns}[event.key];
  if (!cell || !step) return;
  event.preventDefault();
  node.querySelector(`[data-index="${Number(cell.dataset.index) + step}"]`)?.focus();
}

// {node, light(indices), mark(index)}. onpoint(index, or -1) tells which cell the pointer or the focus is on.
export function grid(tensor, name, {onpoint} = {}) {
  const large = numel(tensor.shape) > mostCells;
  const node = el("div", {class: "grid", role: "group", "aria-label": `${name}, ${tensor.shape.length ? tensor.shape.join(" by ") : "a scalar"}`});
  if (tensor.flat.length === 0) replace(node, el("p", {class: "empty"}, "no elements"));
  else if (large && tensor.dtype !== "string") replace(node, heatmap(tensor, name));
  else if (large) replace(node, el("p", {class: "empty"}, `${numel(tensor.shape)} strings: too many to show`));
  else replace(node, ...blocks(tensor, name));
  const point = (event) => {
    const cell = event.target.closest?.("td[data-index]");
    onpoint?.(cell ? Number(cell.dataset.index) : -1);
  };
  node.addEventListener("pointerover", point);
  node.addEventListener("focusin", point);
  node.addEventListener("pointerleave", () => onpoint?.(-1));
  node.addEventListener("focusout", () => onpoint?.(-1));
  node.addEventListener("keydown", (event) => onKey(event, tensor, node));
  node.querySelector("td[data-index]")?.setAttribute("tabindex", "0");
  const classify = (name, indices) => {
    for (const cell of node.querySelectorAll(`.${name}`)) cell.classList.remove(name);
    for (const index of indices) node.querySelector(`[data-index="${index}"]`)?.classList.add(name);
  };
  return {node, light: (indices) => classify("lit", indices), mark: (indices) => classify("bad", indices)};
}
