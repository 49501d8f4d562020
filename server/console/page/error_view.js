// What the daemon refused, at its place.

import {el} from "./dom.js";
import {Problem} from "./api.js";

// A text with one character of it marked; `offset` counts bytes of its UTF-8.
export function markedAt(text, offset) {
  const bytes = new TextEncoder().encode(text), decode = (part) => new TextDecoder().decode(part);
  const before = decode(bytes.subarray(Math.max(0, offset - 60), offset));
  const rest = decode(bytes.subarray(offset, offset + 60));
  const at = String.fromCodePoint(rest.codePointAt(0) ?? 0x2400);
  return el("code", {class: "source"}, offset > 60 ? "…" : "", before, el("mark", {}, at), rest.slice(rest ? at.length : 0), bytes.length > offset + 60 ? "…" : "");
}

// `sources`: texts in which `offset` may lie: {equation, body}.
export function errorView(error, sources) {
  if (!(error instanceof Problem)) return el("div", {class: "error", role: "alert"}, el("p", {}, error.message));
  const {document} = error;
  const source = document.offset === undefined ? null
    : document.attribute === "equation" ? sources.equation : sources.body;
  return el("div", {class: "error", role: "alert"},
    el("p", {class: "sentence"}, error.message),
    source ? markedAt(source, Number(document.offset)) : null,
    el("p", {class: "meta"}, `${error.status} `, document.type ? el("a", {href: document.type, target: "_blank", rel: "noopener"}, document.code) : document.code ?? "",
      error.requestId ? ` · request ${error.requestId}` : ""));
}
