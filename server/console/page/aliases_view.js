// Which version each alias names, and the flip to another one.

import * as api from "./api.js";
import {el, labelled, notify, scroll, select} from "./dom.js";
import {mayWrite} from "./mode.js";

const baseOf = (name) => name.split("@")[0];

async function flip(set, wanted, persist, ondone) {
  try {
    await api.postJson(`/v1/aliases${persist ? "?persist=1" : ""}`, {set, if: wanted});
    notify(`Set: ${Object.entries(set).map(([alias, target]) => `${alias} → ${target ?? "nothing"}`).join(", ")}`);
    ondone();
  } catch (error) {
    notify(error.message, "error");
  }
}

// The aliases of the parts of a quantised table change with it.
function together(alias, target, aliases) {
  const set = {[alias]: target};
  for (const part of [".scale", ".offset"])
    if (Object.hasOwn(aliases, alias + part)) set[alias + part] = target && target.replace(/(@|$)/, `${part}$1`);
  return set;
}

function line(alias, target, {aliases, persisted: stored}, names, ondone) {
  const persisted = Object.hasOwn(stored, alias) ? stored[alias] : undefined;
  const versions = names.filter((name) => name.includes("@") && (baseOf(name) === baseOf(target) || name === target));
  const choice = select(versions, target, {"aria-label": `version of ${alias}`});
  const persist = el("input", {type: "checkbox", "aria-label": `keep ${alias} on disk`, checked: persisted !== undefined});
  const controls = mayWrite() ? [choice, el("label", {class: "check"}, persist, " on disk"),
    el("button", {type: "button", onclick: () => flip(together(alias, choice.value, aliases), {[alias]: target}, persist.checked, ondone)}, "Flip"),
    el("button", {type: "button", onclick: () => flip(together(alias, null, aliases), {[alias]: target}, persist.checked, ondone)}, "Remove")] : [];
  return el("tr", {}, el("td", {class: "text"}, alias), el("td", {class: "text"}, target), el("td", {class: "text"}, persisted ?? "in memory only"), el("td", {class: "text"}, ...controls));
}

function newAlias(names, ondone) {
  const alias = el("input", {type: "text", spellcheck: "false", required: true}), target = select(names.filter((name) => name.includes("@")), "");
  return el("form", {class: "row", onsubmit: (event) => {
    event.preventDefault();
    flip({[alias.value.trim()]: target.value}, {[alias.value.trim()]: null}, false, ondone);
  }}, labelled("new alias", alias), labelled("of version", target), el("button", {type: "submit"}, "Set"));
}

// `state`: the reply of GET /v1/aliases.
export function drawAliases(state, names, ondone) {
  const lines = Object.entries(state.aliases).map(([alias, target]) => line(alias, target, state, names, ondone));
  const heads = ["alias", "names", "after a restart", ""].map((text) => el("th", {scope: "col"}, text));
  return el("section", {class: "aliases", "aria-label": "aliases"}, el("h3", {}, "Aliases"),
    lines.length ? scroll("list of aliases", el("table", {class: "listing"}, el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...lines))) : el("p", {class: "empty"}, "There are none."),
    ...state.problems.map((problem) => el("p", {class: "problem-text"}, `${problem.source}: ${problem.reason}`)),
    mayWrite() && names.some((name) => name.includes("@")) ? newAlias(names, ondone) : null);
}
