// A file as a resident tensor, with a progress bar; and the deletion of one.

import * as api from "./api.js";
import {confirmByName} from "./confirm.js";
import {el, labelled, notify, replace} from "./dom.js";
import {bytes} from "./numbers.js";

const path = (name) => `/v1/tensors/${encodeURIComponent(name)}`;

// Uploads, and replaces a tensor of this name only if the user agrees, and only the version that the user was told of. Gives its
// description, or null if it stays.
async function store(name, file, persist, onprogress) {
  let condition = {"If-None-Match": "*"};
  for (;;) {
    try {
      return await api.upload(`${path(name)}${persist ? "?persist=1" : ""}`, file, {onprogress, headers: condition});
    } catch (error) {
      const etag = error.status === 412 ? error.document.etag : null;
      if (!etag) throw error;
      const sentence = condition["If-Match"] ? "It has changed meanwhile. The file takes its place; what it has now is lost."
        : `There is a tensor of this name already. The file ${file.name} takes its place; what it has now is lost.`;
      if (!await confirmByName({act: "Replace", name, sentence})) return null;
      condition = {"If-Match": etag};
    }
  }
}

export function uploadForm(ondone) {
  const file = el("input", {type: "file", accept: ".npy,.safetensors,.json"});
  const name = el("input", {type: "text", spellcheck: "false", required: true, placeholder: "letters, digits and . _ : - @"});
  const persist = el("input", {type: "checkbox"});
  const bar = el("progress", {max: 1, value: 0, hidden: true, "aria-label": "upload"}), told = el("p", {class: "help", role: "status"});
  let suggested = ""; // by a file; what the user has typed stays when another file is chosen
  const choose = () => {
    if (!file.files[0] || (name.value && name.value !== suggested)) return;
    suggested = name.value = file.files[0].name.replace(/\.\w+$/, "").normalize("NFC").replace(/[^\p{L}\p{M}\p{N}._:@-]/gu, "_");
  };
  file.addEventListener("change", choose);
  const button = el("button", {type: "submit", class: "primary"}, "Upload");
  const send = async () => {
    const wanted = name.value.trim();
    bar.hidden = false;
    button.disabled = true;
    try {
      const tensor = await store(wanted, file.files[0], persist.checked, (sent, total) => {
        bar.value = sent / total;
        replace(told, `${bytes(sent)} of ${bytes(total)}`);
      });
      if (!tensor) return replace(told, `${wanted} stays as it was.`);
      replace(told, `${tensor.name}: ${tensor.dtype} [${tensor.shape}]`);
      file.value = name.value = suggested = "";
      return ondone(tensor.name);
    } catch (error) {
      replace(told, error.message);
      told.className = "problem-text";
      return null;
    } finally {
      bar.hidden = true;
      button.disabled = false;
    }
  };
  const form = el("form", {class: "upload", onsubmit: (event) => {
    event.preventDefault();
    told.className = "help";
    if (file.files[0]) send();
    else replace(told, "Choose a file, or drop one here.");
  }}, el("h3", {}, "Upload"), el("div", {class: "row"}, labelled("file: .npy, .safetensors or JSON", file), labelled("name", name),
    el("label", {class: "check"}, persist, " keep it on disk"), button), bar, told);
  form.addEventListener("dragover", (event) => event.preventDefault());
  form.addEventListener("drop", (event) => {
    event.preventDefault();
    file.files = event.dataTransfer.files;
    choose();
  });
  return form;
}

// Deletes once the name has been typed.
export function deleteButton(name, ondone) {
  return el("button", {type: "button", class: "danger", "aria-label": `Delete ${name}`, onclick: async () => {
    if (!await confirmByName({act: "Delete", name, sentence: "Requests in progress keep it; then it is gone, from the disk as well."})) return;
    try {
      await api.request("DELETE", path(name));
      notify(`${name} is deleted.`);
      ondone();
    } catch (error) {
      notify(error.message, "error");
    }
  }}, "Delete");
}
