// The dialog before an action that cannot be undone. It states what is lost and asks the user to type the name.

import {el, labelled, uniqueId} from "./dom.js";

// Returns true if the user agrees. `act`: the verb on the button and at the start of the title; `keep`: label of the button that cancels.
export function confirmByName({act, name, sentence, keep = "Keep it"}) {
  const typed = el("input", {type: "text", autocomplete: "off", spellcheck: "false"}), id = uniqueId("confirm");
  const sure = el("button", {type: "submit", class: "danger", disabled: true}, act);
  typed.addEventListener("input", () => {
    sure.disabled = typed.value !== name;
  });
  const dialog = el("dialog", {"aria-labelledby": id});
  dialog.append(el("form", {method: "dialog", onsubmit: () => {
    dialog.returnValue = "agreed";
  }}, el("h2", {id}, `${act} ${name}?`), el("p", {}, sentence), labelled("type the name to confirm", typed),
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
