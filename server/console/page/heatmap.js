// Shows a tensor as a picture. A line below it reads the element under the pointer.

import {css, scaleOf} from "./colours.js";
import {el, replace} from "./dom.js";
import {element} from "./numbers.js";
import {pictureOf} from "./picture.js";
import {cellAt, placeText, positionOf} from "./tensor.js";

const widestSquare = 28; // the width of a table cell

// Rows taken from a table keep the labels they have in the table.
function placeIn({shape, rowLabels}, at) {
  const place = positionOf(at, shape);
  return rowLabels ? [rowLabels[place[0]], ...place.slice(1)] : place;
}

// `tensor.picture`: the picture, if a worker has already made it. onpoint(index) reports the element under the pointer or the keys, or -1.
export function heatmap(tensor, name, onpoint) {
  const {rows, columns, width, height, least, greatest, pixels} = tensor.picture ?? pictureOf(tensor);
  const scale = scaleOf(least, greatest);
  const canvas = el("canvas", {class: "heatmap", width: Math.max(width, 1), height: Math.max(height, 1), role: "img", tabindex: 0,
    "aria-label": `heat map of ${name}, ${rows} rows of ${columns}, from ${element(least)} to ${element(greatest)}`});
  if (width && height) canvas.getContext("2d").putImageData(new ImageData(pixels, width, height), 0, 0);
  canvas.style.aspectRatio = `${canvas.width} / ${canvas.height}`;
  canvas.style.maxWidth = `${columns * widestSquare}px`;
  const lens = el("p", {class: "lens"}, `${element(least)} to ${element(greatest)}`);
  const place = {row: 0, column: 0};
  const show = (row, column) => {
    place.row = Math.min(Math.max(row, 0), rows - 1);
    place.column = Math.min(Math.max(column, 0), columns - 1);
    const at = place.row * columns + place.column;
    onpoint?.(at);
    replace(lens, `${placeText(placeIn(tensor, at), name)} = ${element(cellAt(tensor, at))}`);
  };
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    show(Math.floor(((event.clientY - box.top) / box.height) * rows), Math.floor(((event.clientX - box.left) / box.width) * columns));
  });
  canvas.addEventListener("keydown", (event) => {
    const [down, right] = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]}[event.key] ?? [0, 0];
    if (!down && !right) return;
    event.preventDefault();
    const far = event.shiftKey ? 10 : 1;
    show(place.row + down * far, place.column + right * far);
  });
  for (const kind of ["pointerleave", "blur"]) canvas.addEventListener(kind, () => onpoint?.(-1));
  const steps = Array.from({length: 24}, () => el("i", {}));
  steps.forEach((step, i) => {
    step.style.background = css(scale(least + ((greatest - least) * i) / 23));
  });
  return el("figure", {class: "picture"}, canvas, el("figcaption", {}, el("span", {class: "ramp", "aria-hidden": "true"}, ...steps), lens));
}
