// A tensor as a picture: a square an element, or means of blocks where there are more than the picture has places for.

import {el, replace} from "./dom.js";
import {css, extremes, scaleOf} from "./colours.js";
import {element} from "./numbers.js";
import {numel, placeText, positionOf, toNumber} from "./tensor.js";

const most = 512; // squares along a side

// As a matrix: the last dimension along x, all others along y.
function matrixOf(shape) {
  const columns = shape.length ? shape[shape.length - 1] : 1;
  return {columns, rows: columns ? numel(shape) / columns : 0};
}

function blockMeans(numbers, rows, columns, height, width) {
  const means = new Float64Array(height * width), counts = new Float64Array(height * width);
  for (let row = 0; row < rows; row++) {
    const y = Math.floor((row * height) / rows) * width;
    for (let column = 0; column < columns; column++) {
      const at = y + Math.floor((column * width) / columns), value = numbers[row * columns + column];
      if (!Number.isNaN(value)) {
        means[at] += value;
        counts[at] += 1;
      }
    }
  }
  return means.map((sum, at) => (counts[at] ? sum / counts[at] : NaN));
}

export function heatmap(tensor, name) {
  const {columns, rows} = matrixOf(tensor.shape);
  const width = Math.min(columns, most), height = Math.min(rows, most);
  const numbers = Float64Array.from(tensor.flat, toNumber);
  const means = width === columns && height === rows ? numbers : blockMeans(numbers, rows, columns, height, width);
  const [least, greatest] = extremes(means), scale = scaleOf(least, greatest);
  const canvas = el("canvas", {class: "heatmap", width: Math.max(width, 1), height: Math.max(height, 1), role: "img", tabindex: 0,
    "aria-label": `heat map of ${name}, ${rows} rows of ${columns}, from ${element(least)} to ${element(greatest)}`});
  const context = canvas.getContext("2d"), image = context.createImageData(canvas.width, canvas.height);
  means.forEach((value, at) => image.data.set([...scale(value), 255], at * 4));
  context.putImageData(image, 0, 0);
  canvas.style.aspectRatio = `${canvas.width} / ${canvas.height}`;
  const lens = el("output", {class: "lens"}, `${element(least)} to ${element(greatest)}`);
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    const row = Math.min(rows - 1, Math.floor(((event.clientY - box.top) / box.height) * rows));
    const column = Math.min(columns - 1, Math.floor(((event.clientX - box.left) / box.width) * columns));
    if (row < 0 || column < 0) return;
    const at = row * columns + column;
    replace(lens, `${placeText(positionOf(at, tensor.shape), name)} = ${element(tensor.flat[at])}`);
  });
  const steps = Array.from({length: 24}, (_, i) => el("i", {}));
  steps.forEach((step, i) => {
    step.style.background = css(scale(least + ((greatest - least) * i) / 23));
  });
  return el("figure", {class: "picture"}, canvas, el("figcaption", {}, el("span", {class: "ramp", "aria-hidden": true}, ...steps), lens));
}
