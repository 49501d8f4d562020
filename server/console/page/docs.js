// The reference of the ops, from their descriptions.

import * as api from "./api.js";
import {el, replace} from "./dom.js";
import {addressOf} from "./state.js";

function rows(heads, lines) {
  return el("div", {class: "scroll"}, el("table", {class: "reference"}, el("thead", {}, el("tr", {}, ...heads.map((head) => el("th", {scope: "col"}, head)))),
    el("tbody", {}, ...lines.map((cells) => el("tr", {}, ...cells.map((cell) => el("td", {class: "text"}, cell)))))));
}

const all = (dtypes) => (dtypes.length > 10 ? `${dtypes.length} dtypes, ${dtypes[0]} to ${dtypes[dtypes.length - 1]}` : dtypes.join(", "));

function section(op) {
  const example = JSON.stringify(op.example.request);
  return el("section", {class: "op", id: `op-${op.name}`, "aria-labelledby": `title-${op.name}`},
    el("h2", {id: `title-${op.name}`}, op.name), el("p", {}, op.summary), el("p", {class: "help"}, `${op.endpoint}. As ${op.source}.`),
    rows(["input", "", "dtypes"], op.inputs.map((input) => [el("code", {}, input.name), `${input.list ? "A list. " : ""}${input.optional ? "Optional. " : ""}${input.summary}`, all(input.dtypes)])),
    op.attributes.length ? rows(["attribute", "", "default"], op.attributes.map((attribute) => [el("code", {}, attribute.name),
      `${attribute.summary}${attribute.values ? ` One of ${attribute.values.join(", ")}.` : ""}`, attribute.required ? "required" : String(attribute.default)])) : null,
    rows(["output", "", "shape"], op.outputs.map((output) => [el("code", {}, output.name), output.summary, el("code", {}, output.shape_rule)])),
    el("p", {class: "help"}, "errors: ", ...op.errors.flatMap((error, i) => [i ? ", " : "", el("a", {href: error.type}, error.code)])),
    el("pre", {tabindex: 0}, `curl -s ${location.origin}${op.endpoint.replace("POST ", "")} -d '${example.replace(/'/g, "'\\''")}'`),
    el("p", {}, el("a", {href: addressOf("try", {op: op.name})}, "Try it")));
}

export async function open(node) {
  const {ops} = await api.getJson("/v1/ops");
  const described = await Promise.all(ops.map(({name}) => api.getJson(`/v1/ops/${name}`)));
  replace(node, el("h2", {}, "Ops"), el("ul", {class: "contents"}, ...ops.map(({name}) => el("li", {}, el("button", {type: "button", class: "link",
    onclick: () => document.getElementById(`op-${name}`).scrollIntoView()}, name)))), ...described.map(section));
}
