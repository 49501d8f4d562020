// Stores and deletes tensors and programs. Nothing is lost unless the user types its name.

import * as api from "./api.js";
import {confirmByName} from "./confirm.js";
import {el, notify} from "./dom.js";

// Replaces something only if the user agrees, and only the version that the user knows. put(headers): sends the request; `etag`: of the
// version that the user changed, or nothing if it is new; `exists`, `changed`: sentences for the dialog. Returns null if the user keeps the
// old version.
export async function putUnlessChanged(put, {name, etag, exists, changed}) {
  let condition = etag ? {"If-Match": etag} : {"If-None-Match": "*"};
  for (;;) {
    try {
      return await put(condition);
    } catch (error) {
      const present = error.status === 412 ? error.document.etag : null;
      if (!present) throw error;
      if (!await confirmByName({act: "Replace", name, sentence: condition["If-Match"] ? changed : exists})) return null;
      condition = {"If-Match": present};
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
