// The outputs of a request, as tables of cells, pictures or JSON.

import {el, replace, save} from "./dom.js";
import {grid} from "./grid.js";
import {heatmap} from "./heatmap.js";
import {bytes, ms} from "./numbers.js";
import {mostCells, numel, typeText} from "./tensor.js";

// The text of a reply: its first part, and a file of all of it.
function drawText({head, buffer}) {
  const text = el("pre", {tabindex: 0, "aria-label": "reply"}, head);
  const shown = new TextEncoder().encode(head).length;
  if (shown === buffer.byteLength) return text;
  return el("div", {}, el("p", {class: "help"}, `the first ${bytes(shown)} of ${bytes(buffer.byteLength)} `,
    el("button", {type: "button", onclick: () => save(buffer, "reply.json")}, "Save all of it")), text);
}

// The forms of one output: [name, function that draws it].
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

// The op itself, the server with its queue, JSON and all, and the way there and back.
function times({ms: all, stages}) {
  const inServer = Object.values(stages).reduce((sum, stage) => sum + stage, 0);
  return [stages.compute === undefined ? "" : `computed in ${ms(stages.compute)} · in the server ${ms(inServer)}`, `there and back ${ms(all)}`].filter(Boolean).join(" · ");
}

// `read`: what the task "reply" makes of the body. onpoint(output name, its shape, index of a cell or -1); `shown`: {as, onshow},
// the form of the outputs, none being the first one, and what is called when another one is chosen.
export function drawResult(reply, read, onpoint, shown) {
  const replaced = read.bounds?.replaced;
  return el("div", {}, ...read.outputs.map((output) => drawOutput(output, read, onpoint, shown)),
    el("p", {class: "meta"}, times(reply),
      replaced ? ` · ${replaced} ${replaced === 1 ? "index" : "indices"} replaced (bounds = ${read.bounds.policy})` : ""));
}
