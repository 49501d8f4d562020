// The list of aliases and their versions, with controls that point an alias to another version.

import * as api from "./api.js";
import {confirmByName} from "./confirm.js";
import {el, folding, labelled, notify, replace, select} from "./dom.js";
import {partOf} from "./keys.js";
import {mayWrite} from "./mode.js";
import {listOps} from "./ops.js";

const baseOf = (name) => name.split("@")[0];

// `problem`: the element next to the control, for errors from the server.
async function flip(set, wanted, problem, ondone) {
  replace(problem);
  try {
    await api.postJson("/v1/aliases", {set, if: wanted});
    notify(`Set: ${Object.entries(set).map(([alias, target]) => `${alias} → ${target ?? "nothing"}`).join(", ")}`);
    ondone();
  } catch (error) {
    replace(problem, error.message);
  }
}

// Changes the aliases of a quantised table's parts together with its own alias.
async function together(alias, target, aliases) {
  const set = {[alias]: target};
  for (const part of (await listOps()).table_parts)
    if (Object.hasOwn(aliases, partOf(alias, part))) set[partOf(alias, part)] = target && partOf(target, part);
  return set;
}

const aProblem = () => el("p", {class: "problem-text", role: "alert"});

function controls(alias, target, aliases, tensors, ondone) {
  const versions = tensors.filter(({name}) => name.includes("@") && (baseOf(name) === baseOf(target) || name === target));
  const choice = select(versions.map(({name}) => name), target, {"aria-label": `version of ${alias}`}), problem = aProblem();
  const remove = async () => {
    const sentence = `It names ${target}, which stays. Requests that use the name ${alias} will fail.`;
    if (await confirmByName({act: "Remove", name: alias, sentence})) flip(await together(alias, null, aliases), {[alias]: target}, problem, ondone);
  };
  return [choice, el("button", {type: "button", "aria-label": `Flip ${alias}`,
    onclick: async () => flip(await together(alias, choice.value, aliases), {[alias]: target}, problem, ondone)}, "Flip"),
  el("button", {type: "button", class: "danger", "aria-label": `Remove ${alias}`, onclick: remove}, "Remove"), problem];
}

function line(alias, target, aliases, tensors, ondone) {
  return {cells: [alias, target, mayWrite() ? el("div", {class: "controls"}, ...controls(alias, target, aliases, tensors, ondone)) : ""]};
}

function newAlias(names, ondone) {
  const alias = el("input", {type: "text", spellcheck: "false", required: true}), target = select(names, ""), problem = aProblem();
  return el("form", {class: "row", onsubmit: (event) => {
    event.preventDefault();
    flip({[alias.value.trim()]: target.value}, {[alias.value.trim()]: null}, problem, ondone);
  }}, labelled("new alias", alias), labelled("for version", target), el("button", {type: "submit"}, "Set"), problem);
}

// `state`: the reply of GET /v1/aliases.
export function drawAliases(state, tensors, ondone) {
  const versions = tensors.map(({name}) => name).filter((name) => name.includes("@"));
  const lines = Object.entries(state.aliases).map(([alias, target]) => line(alias, target, state.aliases, tensors, ondone));
  return el("section", {class: "aliases", "aria-label": "aliases"}, el("h3", {}, "Aliases"),
    lines.length ? folding("list of aliases", ["alias", "names", ""], lines) : el("p", {class: "empty"}, "No aliases yet."),
    ...state.problems.map((problem) => el("p", {class: "problem-text"}, `${problem.source}: ${problem.reason}`)),
    state.problems_not_listed ? el("p", {class: "problem-text"}, `and ${state.problems_not_listed} more problems in the data folder`) : null,
    mayWrite() && versions.length ? newAlias(versions, ondone) : null);
}
