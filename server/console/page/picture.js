// Draws the pixels of a heat map, one square for each element, or the means of blocks if the tensor is larger than the picture.
// Does not use the document, so a worker can run it.

import {extremes, scaleOf} from "./colours.js";
import {cellAt, numel, toNumber} from "./tensor.js";

const most = 512; // squares along each side
const shades = 1024;

// Views the shape as a matrix: the last dimension along x, all others along y.
function matrixOf(shape) {
  const columns = shape.length ? shape[shape.length - 1] : 1;
  return {columns, rows: columns ? numel(shape) / columns : 0};
}

function blockMeans(numberAt, rows, columns, height, width) {
  const means = new Float64Array(height * width), counts = new Float64Array(height * width);
  for (let row = 0; row < rows; row++) {
    const y = Math.floor((row * height) / rows) * width;
    for (let column = 0; column < columns; column++) {
      const at = y + Math.floor((column * width) / columns), value = numberAt(row * columns + column);
      if (!Number.isNaN(value)) {
        means[at] += value;
        counts[at] += 1;
      }
    }
  }
  return means.map((sum, at) => (counts[at] ? sum / counts[at] : NaN));
}

// Returns {rows, columns, width, height, least, greatest, pixels}.
export function pictureOf(tensor) {
  const {columns, rows} = matrixOf(tensor.shape);
  const width = Math.min(columns, most), height = Math.min(rows, most);
  const means = blockMeans((index) => toNumber(cellAt(tensor, index)), rows, columns, height, width);
  const [least, greatest] = extremes(means), scale = scaleOf(least, greatest), step = (greatest - least) / (shades - 1) || 1;
  const table = Array.from({length: shades}, (_, i) => scale(least + i * step)), missing = scale(NaN);
  const pixels = new Uint8ClampedArray(width * height * 4);
  means.forEach((value, at) => {
    const [red, green, blue] = Number.isNaN(value) ? missing : table[Math.min(Math.max(Math.round((value - least) / step), 0), shades - 1)];
    pixels[at * 4] = red;
    pixels[at * 4 + 1] = green;
    pixels[at * 4 + 2] = blue;
    pixels[at * 4 + 3] = 255;
  });
  return {rows, columns, width, height, least, greatest, pixels};
}
