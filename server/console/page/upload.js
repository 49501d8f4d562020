// Uploads a file as a resident tensor, with a progress bar, and deletes tensors.

import * as api from "./api.js";
import {el, labelled, replace} from "./dom.js";
import {bytes} from "./numbers.js";
import {deleteButton, putUnlessChanged} from "./stored.js";

const path = (name) => `/v1/tensors/${encodeURIComponent(name)}`;

// Returns the new tensor's description, or null if the user keeps an old one.
const store = (name, file, persist, onprogress) => putUnlessChanged((headers) => api.upload(`${path(name)}${persist ? "?persist=1" : ""}`, file, {onprogress, headers}), {name,
  exists: `A tensor with this name already exists. The file ${file.name} replaces it, and its present contents are lost.`,
  changed: "The tensor has changed in the meantime. The file replaces it, and its present contents are lost.",
  gone: "The tensor was deleted in the meantime. The file stores it again."});

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

export const deleteTensorButton = (name, ondone) =>
  deleteButton(path(name), name, "Requests in progress can still use it. It is then deleted, from disk as well.", ondone);
