// Stores and deletes tensors and programs. Nothing is lost unless the user types its name.

import * as api from "./api.js";
import {confirmByName} from "./confirm.js";
import {el, notify} from "./dom.js";

// Replaces a tensor or program only if the user agrees, and only the version that the user knows. put(headers): sends the request; `etag`: the
// ETag of the version that the user changed, or nothing if it is new; `exists`, `changed`, `gone`: sentences for the dialog. Returns null if
// the user does not agree.
export async function putUnlessChanged(put, {name, etag, exists, changed, gone}) {
  let condition = etag ? {"If-Match": etag} : {"If-None-Match": "*"};
  for (;;) {
    try {
      return await put(condition);
    } catch (error) {
      if (error.status !== 412) throw error;
      const present = error.document.etag, replaced = condition["If-Match"] ? changed : exists;
      if (!await confirmByName(present ? {act: "Replace", name, sentence: replaced} : {act: "Store", name, sentence: gone, keep: "Cancel"})) return null;
      condition = present ? {"If-Match": present} : {"If-None-Match": "*"};
    }
  }
}

// `sentence`: what the deletion means.
export function deleteButton(path, name, sentence, ondone) {
  return el("button", {type: "button", class: "danger", "aria-label": `Delete ${name}`, onclick: async () => {
    if (!await confirmByName({act: "Delete", name, sentence})) return;
    try {
      await api.request("DELETE", path);
      notify(`${name} was deleted.`);
      ondone();
    } catch (error) {
      notify(error.message, "error");
    }
  }}, "Delete");
}
