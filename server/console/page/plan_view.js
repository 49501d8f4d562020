// Shows the plan of an op: the equation with coloured labels and the sum it computes, next to the equation's field, and the order
// of the contractions.

import * as api from "./api.js";
import {labelClass} from "./colours.js";
import {el, replace, scroll} from "./dom.js";
import {sizeOf} from "./files.js";
import * as json from "./json.js";
import {bytes, count} from "./numbers.js";
import {labelsOf} from "./provenance.js";
import {numel, typeText} from "./tensor.js";

const isLabel = (letter) => !/[,\s.>-]/.test(letter);

// Colours labels, each the same wherever it appears. `bad`: true for a letter that the server refuses.
class Colours {
  constructor(equation) {
    this.places = new Map([...new Set([...equation].filter(isLabel))].map((label, place) => [label, place]));
  }

  of(text, bad = () => false) {
    return [...text].map((letter, at) => {
      if (bad(letter, at)) return el("mark", {}, letter);
      return this.places.has(letter) ? el("span", {class: `label ${labelClass(this.places.get(letter))}`}, letter) : letter;
    });
  }
}

// "output[i,k] = Σⱼ inputs.0[i,j] · inputs.1[j,k]"
function sentence({operands, output}, tensors, colours) {
  const summed = [...new Set(operands.flat())].filter((label) => !output.includes(label));
  const place = (name, labels) => [`${name}[`, ...colours.of(labels.join(",")), "]"];
  return el("p", {class: "sentence"}, ...place("output", output), " = ", summed.length ? ["Σ", el("sub", {}, ...colours.of(summed.join(","))), " "] : [],
    ...operands.flatMap((labels, i) => [i ? " · " : "", ...place(tensors[i].label, labels)]));
}

const facts = (...texts) => el("span", {class: "help"}, texts.filter(Boolean).join(" · "));

// Draws a step with its operands below it, down to the inputs.
function branch(number, plan, tensors, colours) {
  if (number < tensors.length) {
    const {label, dtype, shape} = tensors[number];
    return el("li", {}, `${label} `, facts(typeText(dtype, shape), sizeOf[dtype] ? bytes(numel(shape) * sizeOf[dtype]) : ""));
  }
  const at = plan.steps.findIndex(({result}) => result === number), step = plan.steps[at], last = at === plan.steps.length - 1;
  return el("li", {}, plan.steps.length > 1 ? `step ${at + 1} ` : "", el("code", {}, ...colours.of(step.equation)), " ",
    facts(last ? "output" : "", typeText(step.dtype, step.shape), bytes(Number(step.bytes)), count(Number(step.flops), "FLOPs"), step.kind),
    el("ul", {}, ...step.operands.map((operand) => branch(operand, plan, tensors, colours))));
}

function tree(plan, tensors, colours) {
  const {flops, naive_flops: naive, largest_intermediate: largest} = plan;
  return scroll("order of the contractions", el("h3", {}, "Order of the contractions"),
    el("p", {class: "help"}, `${count(Number(flops), "FLOPs")} in this order, ${count(Number(naive), "FLOPs")} in one loop; the largest result has ${bytes(Number(largest.bytes))}`),
    el("ul", {class: "tree"}, branch(plan.steps[plan.steps.length - 1].result, plan, tensors, colours)));
}

// Returns a test for the letters a problem names: the letter at a UTF-8 offset in the equation, or every occurrence of a label.
function badLetters(equation, {offset, label}) {
  if (offset !== undefined) {
    const before = [...new TextDecoder().decode(new TextEncoder().encode(equation).subarray(0, Number(offset)))].length;
    return (_, at) => at === before;
  }
  return (letter) => letter === label;
}

export class PlanView {
  // `endpoint`: "POST PATH"; onproblem: called if the server refuses the plan. `labels`: from labelsOf, or null if not known yet.
  constructor(endpoint, onproblem) {
    Object.assign(this, {path: endpoint.split(" ")[1], onproblem, labels: null, echo: el("div", {class: "echo"}), order: el("div", {class: "order"})});
  }

  showEquation(equation, problem) {
    const colours = new Colours(equation), bad = problem ? badLetters(equation, problem) : undefined;
    // An offset after the last letter means that a letter is missing.
    const letters = colours.of(problem?.offset === undefined ? equation : `${equation} `, bad);
    replace(this.echo, equation ? el("p", {class: "equation"}, ...letters) : null);
    return colours;
  }

  // `equation`: as typed; `attributes`: of the request; `tensors`: [{label, dtype, shape}], without a shape where it is not known.
  async draw(equation, attributes, tensors, signal) {
    const colours = this.showEquation(equation);
    this.labels = null;
    if (!equation || !tensors.every(({shape}) => shape)) return replace(this.order);
    const shapes = tensors.map(({shape}) => shape), dtypes = new Set(tensors.map(({dtype}) => dtype));
    try {
      const reply = await api.postJson(this.path, {...attributes, shapes, dtype: dtypes.size === 1 ? [...dtypes][0] : undefined}, {signal});
      if (signal.aborted) return null;
      const plan = json.parse(reply.text);
      this.labels = labelsOf(plan.equation);
      this.echo.append(sentence(this.labels, tensors, colours));
      return replace(this.order, plan.steps.length ? tree(plan, tensors, colours) : null);
    } catch (error) {
      if (error.name === "AbortError" || signal.aborted) return null;
      replace(this.order);
      if (!(error instanceof api.Problem)) throw error;
      return this.onproblem(error);
    }
  }
}
