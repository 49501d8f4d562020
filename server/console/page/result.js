// The outputs of a request, as tables of cells, pictures or JSON.

import {el, replace} from "./dom.js";
import {grid} from "./grid.js";
import {heatmap} from "./heatmap.js";
import {ms} from "./numbers.js";
import {outputsOf} from "./provenance.js";
import {fromReply, typeText} from "./tensor.js";

// The forms of one output: [name, function that draws it].
function formsOf(tensor, name, onpoint) {
  const forms = [["table", () => grid(tensor, name, {onpoint}).node]];
  if (tensor.dtype !== "string" && tensor.flat.length > 1) forms.push(["heat map", () => heatmap(tensor, name)]);
  return forms;
}

function drawOutput({name, tensor}, text, onpoint) {
  const body = el("div", {class: "output-body"});
  const forms = tensor.flat ? formsOf(tensor, name, (index) => onpoint(name, tensor.shape, index)) : [];
  forms.push(["JSON", () => el("pre", {tabindex: 0}, text)]);
  const buttons = forms.map(([label, draw], i) => el("button", {type: "button", "aria-pressed": String(i === 0), onclick: (event) => {
    for (const button of buttons) button.setAttribute("aria-pressed", String(button === event.currentTarget));
    replace(body, draw());
  }}, label));
  replace(body, forms[0][1]());
  return el("section", {class: "output", "aria-label": name},
    el("h3", {}, name, " ", el("span", {class: "type"}, typeText(tensor.dtype, tensor.shape))),
    el("div", {class: "forms", role: "group", "aria-label": `${name} as`}, ...buttons), body);
}

// onpoint(output name, its shape, index of a cell or -1)
export function drawResult(reply, document, onpoint) {
  const outputs = outputsOf(document).map(({name, tensor}) => ({name, tensor: fromReply(tensor)}));
  const replaced = document.bounds?.replaced;
  return el("div", {}, ...outputs.map((output) => drawOutput(output, reply.text, onpoint)),
    el("p", {class: "meta"}, ms(reply.ms), " there and back",
      replaced ? ` · ${replaced} ${replaced === 1 ? "index" : "indices"} replaced (bounds = ${document.bounds.policy})` : ""));
}
