// One scale for magnitudes, one for signed data: alike in light and dark, and for those who see few colours.

// Points of a curve of even lightness, dark blue to yellow.
const sequential = [[68, 1, 84], [71, 44, 122], [59, 81, 139], [44, 113, 142], [33, 144, 141], [39, 173, 129], [92, 200, 99], [170, 220, 50], [253, 231, 37]];
const diverging = [[33, 102, 172], [103, 169, 207], [209, 229, 240], [247, 247, 247], [253, 219, 199], [239, 138, 98], [178, 24, 43]];

function along(points, part) {
  const at = Math.min(Math.max(part, 0), 1) * (points.length - 1), low = Math.floor(at), high = Math.min(low + 1, points.length - 1);
  return points[low].map((from, channel) => Math.round(from + (points[high][channel] - from) * (at - low)));
}

// A function from a number to [r, g, b], for numbers between these; NaN is grey.
export function scaleOf(least, most) {
  const signed = least < 0 && most > 0, reach = Math.max(-least, most);
  return (value) => {
    if (Number.isNaN(value)) return [128, 128, 128];
    if (signed) return along(diverging, (value / reach + 1) / 2);
    return along(sequential, most > least ? (value - least) / (most - least) : 0.5);
  };
}

export function extremes(numbers) {
  let least = Infinity, most = -Infinity;
  for (const value of numbers) {
    if (!Number.isFinite(value)) continue;
    if (value < least) least = value;
    if (value > most) most = value;
  }
  return least <= most ? [least, most] : [0, 0];
}

export const css = ([r, g, b]) => `rgb(${r} ${g} ${b})`;

// Black or white, whichever is read better on the colour.
export function inkOn([r, g, b]) {
  const linear = [r, g, b].map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] > 0.179 ? "#000" : "#fff";
}

// For the labels of an equation: hues far from each other, as custom properties of the style sheet.
export const labelClass = (place) => `label-${place % 8}`;
