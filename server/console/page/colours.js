// Two colour scales, one for magnitudes and one for signed data. Both work in light and dark mode and for colour-blind users.

// A curve from dark blue to yellow with even steps in lightness.
const sequential = [[68, 1, 84], [71, 44, 122], [59, 81, 139], [44, 113, 142], [33, 144, 141], [39, 173, 129], [92, 200, 99], [170, 220, 50], [253, 231, 37]];
const diverging = [[33, 102, 172], [103, 169, 207], [209, 229, 240], [247, 247, 247], [253, 219, 199], [239, 138, 98], [178, 24, 43]];

function along(points, part) {
  const at = Math.min(Math.max(part, 0), 1) * (points.length - 1), low = Math.floor(at), high = Math.min(low + 1, points.length - 1);
  return points[low].map((from, channel) => Math.round(from + (points[high][channel] - from) * (at - low)));
}

// Returns a function from a number between `least` and `most` to [r, g, b]. NaN is grey.
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

// Returns black or white, whichever is easier to read on the colour.
export function inkOn([r, g, b]) {
  const linear = [r, g, b].map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] > 0.179 ? "#000" : "#fff";
}

// Colours for the labels of an equation, with hues far apart. The style sheet defines them as custom properties.
export const labelClass = (place) => `label-${place % 8}`;
