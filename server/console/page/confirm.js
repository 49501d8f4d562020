// The dialog before what cannot be undone: it names what is lost, and wants that name typed.

import {el, labelled, uniqueId} from "./dom.js";

// Gives whether the user agrees. `act`: the verb on the button, which the title begins with; `keep`: the button that does nothing.
export function confirmByName({act, name, sentence, keep = "Keep it"}) {
  const typed = el("input", {type: "text", autocomplete: "off", spellcheck: "false"}), id = uniqueId("confirm");
  const sure = el("button", {type: "submit", class: "danger", disabled: true}, act);
  typed.addEventListener("input", () => {
    sure.disabled = typed.value !== name;
  });
  const dialog = el("dialog", {"aria-labelledby": id});
  dialog.append(el("form", {method: "dialog", onsubmit: () => {
    dialog.returnValue = "agreed";
  }}, el("h2", {id}, `${act} ${name}?`), el("p", {}, sentence), labelled("its name, to be sure", typed),
  el("div", {class: "buttons"}, sure, el("button", {type: "button", onclick: () => dialog.close()}, keep))));
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "agreed");
    });
  });
}
