// Places the boxes of a graph in layers from top to bottom, so that every arrow points down.

const gap = 28, between = 44, passage = 16; // pixels between boxes, between layers, and for an arrow that passes a layer
const sweeps = 6;

// Returns the layer of each box. Arrows only lead to later boxes.
function layersOf(boxes, arrows) {
  const layers = boxes.map(() => 0), below = boxes.map(() => []), above = boxes.map(() => []);
  for (const {from, to} of arrows) {
    below[from].push(to);
    above[to].push(from);
  }
  boxes.forEach((_, at) => {
    for (const from of above[at]) layers[at] = Math.max(layers[at], layers[from] + 1);
  });
  const last = Math.max(...layers);
  for (let at = boxes.length - 1; at >= 0; at--) {
    if (boxes[at].where === "last") layers[at] = last;
    if (boxes[at].where === "late" && below[at].length) layers[at] = Math.min(...below[at].map((to) => layers[to])) - 1;
  }
  return layers;
}

// Returns the places of the layers, boxes first, and the path of each arrow through them. Long arrows of one box share their passages.
function passagesOf(boxes, arrows, layers) {
  const places = boxes.map(({width, height}, at) => ({width, height, layer: layers[at], near: []})), shared = new Map();
  const link = (a, b) => {
    places[a].near.push(b);
    places[b].near.push(a);
  };
  const passageIn = (layer, from, before) => {
    const key = `${from} ${layer}`;
    if (!shared.has(key)) {
      shared.set(key, places.length);
      places.push({width: passage, height: 0, layer, near: []});
      link(before, places.length - 1);
    }
    return shared.get(key);
  };
  const paths = arrows.map(({from, port, to}) => {
    const path = [from];
    for (let layer = layers[from] + 1; layer < layers[to]; layer++) path.push(passageIn(layer, `${from}.${port}`, path.at(-1)));
    link(path.at(-1), to);
    return [...path, to];
  });
  return {places, paths};
}

const mean = (numbers) => numbers.reduce((sum, number) => sum + number, 0) / numbers.length;

// Sorts each layer by the mean position of its neighbours in the previous layer, first downwards and then upwards, which removes most crossings.
function order(places) {
  const rows = Array.from({length: Math.max(...places.map(({layer}) => layer)) + 1}, () => []);
  places.forEach((place, at) => rows[place.layer].push(at));
  const number = (row) => row.forEach((at, i) => {
    places[at].order = i - (row.length - 1) / 2;
  });
  rows.forEach(number);
  for (let sweep = 0; sweep < sweeps; sweep++) {
    const step = sweep % 2 ? -1 : 1;
    for (const row of step > 0 ? rows : rows.toReversed()) {
      const wish = new Map(row.map((at) => {
        const near = places[at].near.filter((other) => places[other].layer === places[at].layer - step);
        return [at, near.length ? mean(near.map((other) => places[other].order)) : places[at].order];
      }));
      row.sort((a, b) => wish.get(a) - wish.get(b));
      number(row);
    }
  }
  return rows;
}

// Sets x and y of the places, each layer in the middle of the widest. Returns the size of the picture.
function position(rows, places) {
  const widths = rows.map((row) => row.reduce((sum, at) => sum + places[at].width + gap, -gap)), width = Math.max(...widths);
  let y = 0;
  rows.forEach((row, layer) => {
    const height = Math.max(...row.map((at) => places[at].height));
    let x = (width - widths[layer]) / 2;
    for (const at of row) {
      Object.assign(places[at], {x, y, height: places[at].height || height});
      x += places[at].width + gap;
    }
    y += height + between;
  });
  return {width, height: y - between};
}

// `boxes`: {width, height, where}, with `where` "late" for a box just above the boxes that it leads to, and "last" for the last layer;
// `arrows`: {from, port, to}, from an earlier to a later box, with the place along the lower edge of the first box, from 0 to 1.
// Returns {width, height, boxes: [{x, y, width, height, layer}], lines: [[{x, y}, ...]]}, the points of the arrows from top to bottom.
export function layout(boxes, arrows) {
  if (boxes.length === 0) return {width: 0, height: 0, boxes: [], lines: []};
  const {places, paths} = passagesOf(boxes, arrows, layersOf(boxes, arrows));
  const size = position(order(places), places);
  const lines = paths.map((path, i) => path.flatMap((at, n) => {
    const {x, y, width, height} = places[at];
    if (n === 0) return [{x: x + width * arrows[i].port, y: y + height}];
    const top = {x: x + width / 2, y};
    return n === path.length - 1 ? [top] : [top, {x: top.x, y: y + height}];
  }));
  return {...size, boxes: places.slice(0, boxes.length), lines};
}
