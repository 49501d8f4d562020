// Uploads a file as a resident tensor, with a progress bar, and deletes tensors.

import * as api from "./api.js";
import {confirmByName} from "./confirm.js";
import {el, labelled, notify, replace} from "./dom.js";
import {bytes} from "./numbers.js";

const path = (name) => `/v1/tensors/${encodeURIComponent(name)}`;

// Uploads a file. Replaces an existing tensor only if the user agrees, and only the version that the user was told about. Returns the
// new tensor's description, or null if the user keeps the old one.
async function store(name, file, persist, onprogress) {
  let condition = {"If-None-Match": "*"};
  for (;;) {
    try {
      return await api.upload(`${path(name)}${persist ? "?persist=1" : ""}`, file, {onprogress, headers: condition});
    } catch (error) {
      const etag = error.status === 412 ? error.document.etag : null;
      if (!etag) throw error;
      const sentence = condition["If-Match"] ? "The tensor has changed in the meantime. The file replaces it, and its present contents are lost."
        : `A tensor with this name already exists. The file ${file.name} replaces it, and its present contents are lost.`;
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
  let suggested = ""; // the name of the last chosen file; a name the user typed is never replaced
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
      if (!tensor) return replace(told, `${wanted} is unchanged.`);
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
  }}, el("h3", {}, "Upload"), el("div", {class: "row"}, labelled("file (.npy, .safetensors or JSON)", file), labelled("name", name),
    el("label", {class: "check"}, persist, " keep on disk"), button), bar, told);
  form.addEventListener("dragover", (event) => event.preventDefault());
  form.addEventListener("drop", (event) => {
    event.preventDefault();
    file.files = event.dataTransfer.files;
    choose();
  });
  return form;
}

// Deletes the tensor after the user types its name.
export function deleteButton(name, ondone) {
  return el("button", {type: "button", class: "danger", "aria-label": `Delete ${name}`, onclick: async () => {
    if (!await confirmByName({act: "Delete", name, sentence: "Requests in progress can still use it. It is then deleted, from disk as well."})) return;
    try {
      await api.request("DELETE", path(name));
      notify(`${name} was deleted.`);
      ondone();
    } catch (error) {
      notify(error.message, "error");
    }
  }}, "Delete");
}
