// Shows the outputs of a request as tables of cells, pictures or JSON.

import {el, replace, save} from "./dom.js";
import {grid} from "./grid.js";
import {heatmap} from "./heatmap.js";
import {bytes, ms} from "./numbers.js";
import {mostCells, numel, typeText} from "./tensor.js";

// Shows the first part of a reply's text, with a button that saves all of it.
function drawText({head, buffer}) {
  const text = el("pre", {tabindex: 0, "aria-label": "reply"}, head);
  const shown = new TextEncoder().encode(head).length;
  if (shown === buffer.byteLength) return text;
  return el("div", {}, el("p", {class: "help"}, `the first ${bytes(shown)} of ${bytes(buffer.byteLength)} `,
    el("button", {type: "button", onclick: () => save(buffer, "reply.json")}, "Save all")), text);
}

// Returns the ways to show an output: [name, function that draws it].
function formsOf(tensor, name, onpoint) {
  const forms = [];
  if (numel(tensor.shape) <= mostCells) forms.push(["table", () => grid(tensor, name, {onpoint}).node]);
  if (tensor.dtype !== "string" && tensor.flat.length > 1) forms.push(["heat map", () => heatmap(tensor, name, onpoint)]);
  return forms;
}

function drawOutput({name, tensor}, read, onpoint, {as, onshow}) {
  const body = el("div", {class: "output-body"});
  const forms = tensor.flat ? formsOf(tensor, name, (index) => onpoint(name, tensor.shape, index)) : [];
  forms.push(["JSON", () => drawText(read)]);
  const first = Math.max(0, forms.findIndex(([label]) => label === as));
  const buttons = forms.map(([label, draw], i) => el("button", {type: "button", "aria-pressed": String(i === first), onclick: (event) => {
    for (const button of buttons) button.setAttribute("aria-pressed", String(button === event.currentTarget));
    replace(body, draw());
    onshow(i ? label : "");
  }}, label));
  replace(body, forms[first][1]());
  return el("section", {class: "output", "aria-label": name},
    el("h3", {}, name, " ", el("span", {class: "type"}, typeText(tensor.dtype, tensor.shape))),
    el("div", {class: "forms", role: "group", "aria-label": `${name} as`}, ...buttons), body);
}

// Returns the time in the op, the time in the server including the queue and JSON, and the time of the round trip.
function times({ms: all, stages}) {
  const inServer = Object.values(stages).reduce((sum, stage) => sum + stage, 0);
  return [stages.compute === undefined ? "" : `compute ${ms(stages.compute)} · server ${ms(inServer)}`, `round trip ${ms(all)}`].filter(Boolean).join(" · ");
}

// `read`: the result of the task "reply". onpoint(output name, its shape, index of a cell or -1); `shown`: {as, onshow}, the form in which
// to show outputs ("" for the first), and a function called when the user chooses another.
export function drawResult(reply, read, onpoint, shown) {
  const replaced = read.bounds?.replaced;
  return el("div", {}, ...read.outputs.map((output) => drawOutput(output, read, onpoint, shown)),
    el("p", {class: "meta"}, times(reply),
      replaced ? ` · ${replaced} ${replaced === 1 ? "index" : "indices"} replaced (bounds = ${read.bounds.policy})` : ""));
}
