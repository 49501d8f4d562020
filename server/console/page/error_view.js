// The view of an error from the daemon. The form marks the field; this view shows the part of the request that the error names.

import {el} from "./dom.js";
import {Problem} from "./api.js";
import * as json from "./json.js";
import {addressOf} from "./state.js";

const around = 60; // characters of the request shown on each side of the marked part

// Returns the text with one part marked. A long marked part is shortened.
function marked(text, {from, to}) {
  const begin = Math.max(0, from - around), end = Math.min(text.length, to + around), last = Math.min(to, from + around);
  return el("code", {class: "source"}, begin ? "…" : "", text.slice(begin, from), el("mark", {}, text.slice(from, last)),
    last < to ? "…" : text.slice(to, end), end < text.length ? "…" : "");
}

// Returns the names and numbers in a JSON Pointer.
export const stepsOf = (pointer) => pointer.split("/").slice(1).map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"));

// `body`: the request as sent, if it is text.
function placeOf(pointer, body) {
  const place = body ? json.locate(body, stepsOf(pointer)) : null;
  return [el("p", {class: "meta"}, "at ", el("code", {}, pointer), " in the request"), place ? marked(body, place) : null];
}

export function errorView(error, body) {
  if (!(error instanceof Problem)) return el("div", {class: "error", role: "alert"}, el("p", {}, error.message));
  const {type, code, pointer} = error.document;
  const row = type?.startsWith("/problems/") ? addressOf("docs", {part: "http", at: `problem-${type.slice("/problems/".length)}`}) : null;
  return el("div", {class: "error", role: "alert"},
    el("p", {class: "sentence"}, error.message), ...(pointer ? placeOf(pointer, body) : []),
    el("p", {class: "meta"}, `${error.status} `, row ? el("a", {href: row}, code) : code ?? "", error.requestId ? ` · request ${error.requestId}` : ""));
}
