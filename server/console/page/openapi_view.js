// The server's OpenAPI document: each endpoint with its parameters, schemas, replies, problems and an example.

import * as api from "./api.js";
import {copy, el, labelled, reference, replace} from "./dom.js";
import {addressOf, note} from "./state.js";

const commaed = (parts, comma = ", ") => parts.flatMap((part, i) => (i ? [comma, part].flat() : [part].flat()));

const schemaId = (name) => `schema-${name}`;

const toSchema = (name) => el("button", {type: "button", class: "link", onclick: () => {
  const schema = document.getElementById(schemaId(name));
  schema.open = true;
  schema.scrollIntoView();
  schema.firstChild.focus();
}}, name);

const resolve = (spec, object) => (object.$ref ? object.$ref.slice(2).split("/").reduce((at, step) => at[step], spec) : object);

const LISTED = 5; // values of a named schema that are listed in its place

// Describes the type of a value, as text and links to the schemas it names.
function typeOf(spec, schema) {
  const named = resolve(spec, schema);
  if (schema.$ref) return named.enum?.length <= LISTED ? typeOf(spec, named) : [toSchema(schema.$ref.split("/").pop())];
  if (schema.enum) return [el("code", {}, schema.enum.map((value) => JSON.stringify(value)).join(" | "))];
  const several = schema.anyOf?.filter((one) => !one.required || one.$ref) ?? [];
  if (several.length) return commaed(several.map((one) => typeOf(spec, one)), " or ");
  if (schema.type === "array") return ["list", ...(schema.items ? [" of ", ...typeOf(spec, schema.items)] : [])];
  if (schema.additionalProperties?.type) return ["object of ", ...typeOf(spec, schema.additionalProperties)];
  return [[schema.type ?? "any value"].flat().join(" or ")];
}

function limitsOf(schema) {
  const own = schema.items && schema.type === "array" ? {...schema.items, ...schema} : schema;
  const {minimum, maximum, maxItems} = own;
  return [minimum !== undefined ? `at least ${minimum}` : "", maximum !== undefined ? `at most ${maximum}` : "", maxItems !== undefined ? `at most ${maxItems} items` : ""].filter(Boolean).join(", ");
}

// Describes the members of an object, or else the type of the schema. Operations can share a schema.
function drawSchema(spec, given, label) {
  const schema = resolve(spec, given), members = Object.entries(schema.properties ?? {});
  const sentence = schema.description ? el("p", {class: "help"}, schema.description) : null;
  if (members.length === 0) return [sentence, el("p", {}, ...typeOf(spec, given))];
  const needed = new Set(schema.required ?? []);
  return [sentence, reference(label, ["member", "type", ""], members.map(([name, member]) => [el("code", {}, name), typeOf(spec, member),
    [needed.has(name) ? "Required. " : "", resolve(spec, member).description ?? "", limitsOf(member) ? ` (${limitsOf(member)})` : ""].join("")]))];
}

function drawContent(spec, content, what) {
  return Object.entries(content ?? {}).flatMap(([type, {schema}]) => [el("h5", {}, `${what} `, el("code", {}, type)),
    ...(Object.keys(schema ?? {}).length ? drawSchema(spec, schema, `${what} ${type}`) : [el("p", {class: "help"}, type === "*/*" ? "Text." : "A file.")])]);
}

const quoted = (text) => `'${text.replace(/'/g, "'\\''")}'`;

function curlOf(path, method, operation) {
  const {example, examples = {}} = operation.requestBody?.content["application/json"] ?? {}, body = example ?? Object.values(examples)[0]?.value;
  const verb = method === "get" || (method === "post" && body) ? "" : ` -X ${method.toUpperCase()}`;
  return `curl -s${verb} ${quoted(location.origin + path)}${body === undefined ? "" : ` -d ${quoted(JSON.stringify(body))}`}`;
}

const isSuccess = (status) => status < 400;

const slugOf = (code) => code.toLowerCase().replace(/_/g, "-");

// Splits descriptions with lines of the form "- STATUS CODE: meaning", sorted by status. A response can be that of a range, 4XX.
const codesOf = (responses) => responses.flatMap((response) => response.description.split("\n").map((line) => /^- (\d+) ([A-Z_]+): (.*)$/.exec(line)).filter(Boolean))
  .map(([, status, code, text]) => ({status, code, text})).sort((a, b) => a.status - b.status);

function drawProblems(spec, operation) {
  const codes = codesOf(Object.entries(operation.responses).filter(([status]) => !isSuccess(status)).map(([, response]) => resolve(spec, response)));
  const lines = [...new Set(codes.map(({status}) => status))].map((wanted) =>
    [wanted, commaed(codes.filter(({status}) => status === wanted).map(({code}) => el("a", {href: `/problems/${slugOf(code)}`}, code)))]);
  return el("details", {class: "problems"}, el("summary", {}, `problems, of ${lines.length} statuses`), reference("problems", ["status", "codes"], lines));
}

function drawReplies(spec, operation) {
  return Object.entries(operation.responses).filter(([status]) => isSuccess(status)).flatMap(([status, given]) => {
    const response = resolve(spec, given), headers = Object.entries(response.headers ?? {});
    return [el("h4", {}, `${status} ${response.description}`),
      headers.length ? el("p", {class: "help"}, "headers: ", ...commaed(headers.map(([name]) => el("code", {}, name)))) : null,
      ...drawContent(spec, response.content, "reply")];
  });
}

function drawOperation(spec, path, method, operation) {
  const parameters = operation.parameters.map((parameter) => resolve(spec, parameter)), code = curlOf(path, method, operation);
  const op = spec.paths[path].post && operation.tags[0] === "Ops" && /^\/v1\/\w+$/.test(path) ? path.slice(4) : null;
  return [el("h4", {}, "example"), el("pre", {tabindex: 0, "aria-label": "example"}, code),
    el("div", {class: "buttons"}, el("button", {type: "button", onclick: () => copy(code)}, "Copy"), op ? el("a", {href: addressOf("try", {op})}, "Try it") : null),
    el("h4", {}, "parameters"), reference("parameters", ["parameter", "in", "type", ""], parameters.map((parameter) =>
      [el("code", {}, parameter.name), parameter.in, typeOf(spec, parameter.schema), [parameter.required ? "Required. " : "", parameter.description ?? "", limitsOf(parameter.schema) ? ` (${limitsOf(parameter.schema)})` : ""].join("")])),
    ...(operation.requestBody ? [el("h4", {}, operation.requestBody.required ? "request" : "request, optional"), ...drawContent(spec, operation.requestBody.content, "body")] : []),
    ...drawReplies(spec, operation), drawProblems(spec, operation),
    operation.security?.length === 0 ? el("p", {class: "help"}, "No token is needed.") : null];
}

// Returns a closed section that draws its content when it is first opened. The page has about 80 of them.
function lazyDetails(attributes, summary, draw) {
  const body = el("div", {class: "details-body"});
  const node = el("details", attributes, el("summary", {}, ...summary), body);
  node.addEventListener("toggle", () => {
    if (node.open && !body.hasChildNodes()) replace(body, ...draw());
  });
  return node;
}

function operationsOf(spec) {
  return Object.entries(spec.paths).flatMap(([path, methods]) => Object.entries(methods).map(([method, operation]) =>
    ({path, method, operation, group: operation.tags[0], words: `${method} ${path} ${operation.summary}`.toLowerCase()})));
}

function drawEndpoint(spec, {path, method, operation}) {
  const node = lazyDetails({class: "endpoint", id: `endpoint-${operation.operationId}`}, [el("span", {class: "method"}, method.toUpperCase()), " ", el("code", {}, path), " ",
    el("span", {class: "help"}, operation.summary)], () => drawOperation(spec, path, method, operation));
  node.addEventListener("toggle", () => {
    if (node.open) note("docs", {part: "http", at: operation.operationId});
  });
  return node;
}

function drawExplanations(spec) {
  const lines = codesOf(Object.entries(spec.components.responses).filter(([name]) => name.startsWith("Problem")).map(([, response]) => response)).map(({status, code, text}) =>
    [status, el("a", {href: `/problems/${slugOf(code)}`, id: `problem-${slugOf(code)}`}, code), text]);
  return reference("problems", ["status", "code", ""], lines);
}

// `at`: the operation to open, or problem-CODE, taken from the link.
export async function drawOpenApi(node, at) {
  const spec = await api.getJson("/openapi.json"), operations = operationsOf(spec);
  const drawn = operations.map((one) => ({...one, node: drawEndpoint(spec, one)}));
  const sections = spec.tags.map(({name: group}) => el("section", {class: "endpoints", "aria-label": group}, el("h3", {}, group), ...drawn.filter((one) => one.group === group).map((one) => one.node)));
  const told = el("span", {class: "help", role: "status"}, `${drawn.length} endpoints`);
  const filter = el("input", {type: "search", spellcheck: "false", oninput: () => {
    const wanted = filter.value.trim().toLowerCase();
    for (const one of drawn) one.node.hidden = !one.words.includes(wanted);
    for (const section of sections) section.hidden = !section.querySelector(".endpoint:not([hidden])");
    replace(told, `${drawn.filter((one) => !one.node.hidden).length} of ${drawn.length} endpoints`);
  }});
  const schemas = Object.entries(spec.components.schemas).map(([name, schema]) => lazyDetails({class: "schema", id: schemaId(name)}, [el("code", {}, name)], () => drawSchema(spec, schema, name)));
  replace(node, el("p", {class: "help"}, `${spec.info.summary}, ${spec.info.version}, OpenAPI ${spec.openapi}. Machine-readable: `, el("a", {href: "/openapi.json"}, "/openapi.json"), "."),
    el("div", {class: "row"}, labelled("find an endpoint", filter)), told, ...sections,
    el("section", {class: "endpoints", "aria-label": "schemas"}, el("h3", {}, "Schemas"), ...schemas), el("section", {class: "endpoints", "aria-label": "problems"}, el("h3", {}, "Problems"), drawExplanations(spec)));
  const problem = at?.startsWith("problem-") ? document.getElementById(at) : null;
  problem?.closest("tr").setAttribute("aria-current", "true");
  problem?.scrollIntoView({block: "center"});
  const wanted = at && drawn.find((one) => one.operation.operationId === at)?.node;
  if (!wanted) return;
  wanted.open = true;
  wanted.scrollIntoView();
}
