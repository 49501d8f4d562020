// The reference: ops from their descriptions, endpoints from the OpenAPI document.

import * as api from "./api.js";
import {el, reference, replace} from "./dom.js";
import {describe, families, listOps} from "./ops.js";
import {drawOpenApi} from "./openapi_view.js";
import {addressOf} from "./state.js";

const rows = (heads, lines) => [el("h3", {}, `${heads[0]}s`), reference(`${heads[0]}s`, heads, lines)];

const all = (dtypes) => (dtypes.length > 10 ? `${dtypes.length} dtypes, ${dtypes[0]} to ${dtypes[dtypes.length - 1]}` : dtypes.join(", "));

function section(op) {
  const example = JSON.stringify(op.examples[0].request);
  return el("section", {class: "op", id: `op-${op.name}`, "aria-labelledby": `title-${op.name}`},
    el("h2", {id: `title-${op.name}`}, op.name), el("p", {}, op.summary), el("p", {class: "help"}, `${op.endpoint}. As ${op.source}.`),
    ...rows(["input", "", "dtypes"], op.inputs.map((input) => [el("code", {}, input.name), `${input.list ? "A list. " : ""}${input.optional ? "Optional. " : ""}${input.summary}`, all(input.dtypes)])),
    ...(op.attributes.length ? rows(["attribute", "", "default"], op.attributes.map((attribute) => [el("code", {}, attribute.name),
      `${attribute.summary}${attribute.values ? ` One of ${attribute.values.join(", ")}.` : ""}`, attribute.required ? "required" : String(attribute.default)])) : []),
    ...rows(["output", "", "shape"], op.outputs.map((output) => [el("code", {}, output.name), output.summary, el("code", {}, output.shape_rule)])),
    el("p", {class: "help"}, "errors: ", ...op.errors.flatMap((error, i) => [i ? ", " : "", el("a", {href: error.type}, error.code)])),
    el("pre", {tabindex: 0}, `curl -s ${location.origin}${op.endpoint.replace("POST ", "")} -d '${example.replace(/'/g, "'\\''")}'`),
    el("p", {}, el("a", {href: addressOf("try", {op: op.name})}, "Try it")));
}

async function drawOps(node) {
  const {ops} = await listOps();
  const described = await Promise.all(ops.map(({name}) => describe(name)));
  const contents = families(ops).flatMap(([family, own]) => [family ? el("p", {class: "help"}, family) : null,
    el("ul", {class: "contents", "aria-label": family || null}, ...own.map(({name}) => el("li", {}, el("button", {type: "button", class: "link",
      onclick: () => document.getElementById(`op-${name}`).scrollIntoView()}, name))))]);
  replace(node, ...contents, ...described.map(section));
}

const parts = [["ops", "Ops", drawOps], ["http", "HTTP API", drawOpenApi]];

export async function open(node, parameters) {
  const [wanted, , draw] = parts.find(([name]) => name === parameters.get("part")) ?? parts[0];
  const body = el("div", {});
  replace(node, el("h2", {}, "Reference"), el("nav", {class: "parts", "aria-label": "Parts of the reference"}, ...parts.map(([name, text]) =>
    el("a", {href: addressOf("docs", {part: name}), "aria-current": name === wanted ? "page" : null}, text))), body);
  await draw(body, parameters.get("at"));
}
