// The field of one attribute. An empty field stands for the default, and the request leaves the attribute out.

import {describedAlso, el, labelled, markInvalid, replace, select} from "./dom.js";
import * as json from "./json.js";

function control(spec, onchange) {
  const shown = spec.default === undefined ? "required" : `default: ${spec.default}`;
  if (spec.values) return select([[shown, ""], ...spec.values.map((value) => [value, value])], "", {onchange});
  if (spec.type === "bool" || spec.type === "boolean") return select([[shown, ""], "true", "false"], "", {onchange});
  return el("input", {type: "text", placeholder: shown, spellcheck: "false", autocomplete: "off", oninput: onchange,
    inputmode: spec.type === "int64" ? "numeric" : "text"});
}

export class AttributeInput {
  constructor(spec, onchange) {
    this.spec = spec;
    this.control = control(spec, onchange);
    this.fault = el("p", {class: "problem-text"});
    this.node = labelled(spec.name, this.control, spec.summary);
    this.control.after(this.fault);
    describedAlso(this.control, this.fault);
  }

  // True for required text without which the inputs make no sense, such as an equation.
  comesFirst() {
    return this.spec.required && this.spec.type === "string" && !this.spec.values;
  }

  // Shows `sentence` as the attribute's error; null removes the error.
  blame(sentence) {
    markInvalid(this.control, sentence !== null);
    replace(this.fault, sentence);
  }

  isEmpty() {
    return this.control.value.trim() === "";
  }

  set(value) {
    this.control.value = value === undefined ? "" : typeof value === "string" ? value : json.stringify(value);
  }

  // Returns numbers and lists as typed, and anything else in quotes, so no text can add members to the request.
  requestText() {
    const text = this.control.value.trim();
    if (this.spec.type === "string" || this.spec.type === "dtype") return JSON.stringify(text);
    const value = /list|\[/.test(this.spec.type) && !text.startsWith("[") ? `[${text}]` : text;
    return json.isValue(value) ? value : JSON.stringify(text);
  }
}
