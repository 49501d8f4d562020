// An equation with its labels in colours, what it sums in words, and the order of its contractions.

import * as api from "./api.js";
import {labelClass} from "./colours.js";
import {el, replace, scroll} from "./dom.js";
import {bytes, count} from "./numbers.js";
import {einsumSentence, labelsOf} from "./provenance.js";
import {typeText} from "./tensor.js";

function coloured(equation) {
  const places = new Map();
  return [...equation].map((letter) => {
    if (/[,\s.>-]/.test(letter)) return letter;
    if (!places.has(letter)) places.set(letter, places.size);
    return el("span", {class: `label ${labelClass(places.get(letter))}`}, letter);
  });
}

function steps(plan) {
  const rows = plan.steps.map((step) => el("tr", {}, el("td", {}, step.operands.join(", ")), el("td", {class: "text"}, el("code", {}, ...coloured(step.equation))),
    el("td", {class: "text"}, step.kind), el("td", {class: "text"}, typeText(step.dtype, step.shape)), el("td", {}, count(Number(step.flops))), el("td", {}, bytes(Number(step.bytes)))));
  const heads = ["operands", "equation", "step", "result", "FLOPs", "size"].map((text) => el("th", {scope: "col"}, text));
  return scroll("order of the contractions", el("table", {class: "steps"}, el("caption", {}, `${count(Number(plan.flops))} FLOPs in this order, ${count(Number(plan.naive_flops))} in one loop`),
    el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...rows)));
}

// Draws into `node` what the equation does with inputs of these shapes.
export async function drawEinsum(node, equation, shapes, signal) {
  if (!equation) return replace(node);
  const labels = shapes.every(Boolean) ? labelsOf(equation, shapes) : null;
  const parts = [el("p", {class: "equation"}, ...coloured(equation))];
  if (labels) parts.push(el("p", {class: "sentence"}, einsumSentence(labels)));
  replace(node, ...parts);
  if (!shapes.every(Boolean)) return node;
  try {
    const reply = await api.postJson("/v1/einsum/plan", {equation, shapes}, {signal});
    const plan = JSON.parse(reply.text);
    if (plan.steps.length > 1 && !signal?.aborted) node.append(steps(plan));
  } catch (error) {
    if (!(error instanceof api.Problem) && error.name !== "AbortError") throw error;
  }
  return node;
}
