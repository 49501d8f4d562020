// A file as a resident tensor, with a progress bar; and the dialog before a deletion.

import * as api from "./api.js";
import {el, labelled, notify, replace, uniqueId} from "./dom.js";
import {bytes} from "./numbers.js";

const path = (name) => `/v1/tensors/${encodeURIComponent(name)}`;

export function uploadForm(ondone) {
  const file = el("input", {type: "file", accept: ".npy,.safetensors,.json"});
  const name = el("input", {type: "text", spellcheck: "false", required: true, placeholder: "letters, digits and . _ : - @"});
  const persist = el("input", {type: "checkbox"});
  const bar = el("progress", {max: 1, value: 0, hidden: true, "aria-label": "upload"}), told = el("p", {class: "help", role: "status"});
  const choose = () => {
    if (file.files[0] && !name.value) name.value = file.files[0].name.replace(/\.\w+$/, "").replace(/[^A-Za-z0-9._:@-]/g, "_");
  };
  file.addEventListener("change", choose);
  const send = async () => {
    bar.hidden = false;
    try {
      const tensor = await api.upload(`${path(name.value.trim())}${persist.checked ? "?persist=1" : ""}`, file.files[0], {onprogress: (sent, total) => {
        bar.value = sent / total;
        replace(told, `${bytes(sent)} of ${bytes(total)}`);
      }});
      replace(told, `${tensor.name}: ${tensor.dtype} [${tensor.shape}]`);
      ondone(tensor.name);
    } catch (error) {
      replace(told, error.message);
      told.className = "problem-text";
    } finally {
      bar.hidden = true;
    }
  };
  const form = el("form", {class: "upload", onsubmit: (event) => {
    event.preventDefault();
    told.className = "help";
    if (file.files[0]) send();
    else replace(told, "Choose a file, or drop one here.");
  }}, el("h3", {}, "Upload"), el("div", {class: "row"}, labelled("file: .npy, .safetensors or JSON", file), labelled("name", name),
    el("label", {class: "check"}, persist, " keep it on disk"), el("button", {type: "submit", class: "primary"}, "Upload")), bar, told);
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
  return el("button", {type: "button", class: "danger", onclick: () => {
    const typed = el("input", {type: "text", autocomplete: "off", spellcheck: "false"}), id = uniqueId("delete");
    const sure = el("button", {type: "submit", class: "danger", disabled: true}, "Delete");
    typed.addEventListener("input", () => {
      sure.disabled = typed.value !== name;
    });
    const dialog = el("dialog", {"aria-labelledby": id}, el("form", {method: "dialog", onsubmit: async (event) => {
      event.preventDefault();
      dialog.close();
      try {
        await api.request("DELETE", path(name));
        notify(`${name} is deleted.`);
        ondone();
      } catch (error) {
        notify(error.message, "error");
      }
    }}, el("h2", {id}, `Delete ${name}?`), el("p", {}, "Requests in progress keep it; then it is gone, from the disk as well."),
    labelled("its name, to be sure", typed), el("div", {class: "buttons"}, sure, el("button", {type: "button", onclick: () => dialog.close()}, "Keep it"))));
    dialog.addEventListener("close", () => dialog.remove());
    document.body.append(dialog);
    dialog.showModal();
  }}, "Delete");
}
