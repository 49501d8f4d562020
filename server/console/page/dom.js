// Helpers that create and change elements.

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "disabled" || name === "hidden") node[name] = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== undefined && child !== null));
  return node;
}

// el("button", {type: "button", class: "x", onclick: f, "aria-label": "y"}, child, ...): children are nodes or text.
export const el = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);

// Like el, but creates an element of an SVG picture.
export const svg = (tag, attributes = {}, ...children) => fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

export function replace(node, ...children) {
  node.replaceChildren(...children.flat().filter((child) => child !== undefined && child !== null));
  return node;
}

// Returns a part that scrolls sideways in a narrow window. It takes the focus, so the keyboard can scroll it too.
export function scroll(label, ...children) {
  return el("div", {class: "scroll", role: "group", "aria-label": label, tabindex: 0}, ...children);
}

// Returns a reference table. In a narrow window its rows become lines and each cell shows its heading.
export function reference(label, heads, lines) {
  return scroll(label, el("table", {class: "reference"}, el("thead", {}, el("tr", {}, ...heads.map((head) => el("th", {scope: "col"}, head)))),
    el("tbody", {}, ...lines.map((cells) => el("tr", {}, ...cells.map((cell, i) => el("td", {class: "text", "data-head": i && heads[i] ? heads[i] : null}, ...[cell].flat())))))));
}

// Returns a list whose rows become blocks if the columns do not fit; each cell then shows its heading. `lines`: {cells, current};
// `numbers`: headings of the columns that hold numbers.
export function folding(label, heads, lines, numbers = []) {
  const kind = (head) => (numbers.includes(head) ? "number" : "text");
  return el("div", {class: "folds", role: "group", "aria-label": label}, el("table", {class: "listing"},
    el("thead", {}, el("tr", {}, ...heads.map((head) => el("th", {scope: "col", class: kind(head)}, head)))),
    el("tbody", {}, ...lines.map(({cells, current}) => el("tr", {"aria-current": current ? "true" : null},
      ...cells.map((cell, i) => el("td", {class: kind(heads[i]), "data-head": i && heads[i] ? heads[i] : null}, ...[cell].flat())))))));
}

const barHeight = 60; // height of the bar that can cover the bottom of the window

export function isInSight(node) {
  const {top, bottom} = node?.getBoundingClientRect() ?? {};
  return top >= 0 && bottom <= window.innerHeight - barHeight;
}

let next = 0;
export function uniqueId(prefix) {
  next += 1;
  return `${prefix}-${next}`;
}

// Returns a control below its label.
export function labelled(text, control, help) {
  control.id ||= uniqueId("control");
  const parts = [el("label", {for: control.id}, text), control];
  if (help) {
    const id = uniqueId("help");
    control.setAttribute("aria-describedby", id);
    parts.push(el("span", {class: "help", id}, help));
  }
  return el("div", {class: "field"}, ...parts);
}

// Adds a text to those that describe a control to assistive technology.
export function describedAlso(control, node) {
  node.id ||= uniqueId("text");
  control.setAttribute("aria-describedby", `${control.getAttribute("aria-describedby") ?? ""} ${node.id}`.trim());
}

export function markInvalid(control, is) {
  if (is) control.setAttribute("aria-invalid", "true");
  else control.removeAttribute("aria-invalid");
}

export function select(options, value, attributes = {}) {
  const node = el("select", attributes);
  for (const option of options) {
    const [text, own] = Array.isArray(option) ? option : [option, option];
    node.append(el("option", {value: own, selected: own === value}, text));
  }
  return node;
}

// Shows a message in the corner of the window for a few seconds.
export function notify(text, kind = "info") {
  const notice = el("p", {class: `notice ${kind}`}, text);
  document.getElementById("notices").append(notice);
  setTimeout(() => notice.remove(), kind === "error" ? 12000 : 5000);
}

// Saves bytes or text as a file.
export function save(content, name) {
  const address = URL.createObjectURL(new Blob([content], {type: "application/json"}));
  el("a", {href: address, download: name}).click();
  setTimeout(() => URL.revokeObjectURL(address), 60000);
}

export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    notify("Copied.");
  } catch {
    notify("The browser does not let this page copy; select the text instead.", "error");
  }
}
