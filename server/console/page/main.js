// Starts the page: which view is shown, the token, the colours, and whether the server answers.

import * as api from "./api.js";
import {el, notify, replace} from "./dom.js";
import {read} from "./state.js";

const views = {
  try: () => import("./try.js"),
  tables: () => import("./tables.js"),
  live: () => import("./live.js"),
  docs: () => import("./docs.js"),
};

const main = document.getElementById("view");
let shown, holder;

// Each view draws into an element of its own: one that is late draws nothing into the next one.
async function show() {
  const {view, parameters} = read();
  const known = Object.hasOwn(views, view) ? view : "try";
  const own = holder = el("div", {});
  for (const link of document.querySelectorAll(".bar nav a")) {
    if (link.dataset.view !== known) link.removeAttribute("aria-current");
    else {
      link.setAttribute("aria-current", "page");
      document.title = `${link.textContent} · tensord`;
    }
  }
  shown?.close?.();
  shown = null;
  replace(main, own);
  try {
    const opened = await (await views[known]()).open(own, parameters);
    if (own === holder) shown = opened;
    else opened?.close?.();
  } catch (error) {
    replace(own, el("p", {class: "error", role: "alert"}, error.message));
  }
}

function setUpTheme() {
  const order = ["", "light", "dark"];
  document.getElementById("theme-button").addEventListener("click", () => {
    const now = document.documentElement.dataset.theme ?? "";
    document.documentElement.dataset.theme = order[(order.indexOf(now) + 1) % order.length];
  });
}

function setUpToken() {
  const dialog = document.getElementById("token-dialog"), input = document.getElementById("token-input");
  const button = document.getElementById("token-button"), problem = document.getElementById("token-problem");
  const ask = () => {
    dialog.returnValue = ""; // what Escape leaves
    dialog.showModal();
  };
  let declined = false;
  button.addEventListener("click", () => {
    replace(problem);
    ask();
  });
  dialog.addEventListener("close", () => {
    declined = !dialog.returnValue;
    if (declined) return;
    api.setToken(dialog.returnValue === "set" ? input.value.trim() : "");
    input.value = "";
    replace(button, `Token: ${api.hasToken() ? "set" : "none"}`);
    if (shown?.retry) shown.retry();
    else show();
  });
  // Requests that nobody waits for are made every few seconds: who has closed the dialog is not asked again.
  api.onUnauthorized(() => {
    replace(problem, api.hasToken() ? "The server does not know this token." : "This server wants a token.");
    if (!dialog.open && !declined) ask();
  });
}

async function watchServer() {
  const state = document.getElementById("server-state");
  try {
    const {status} = await api.getJson("/readyz");
    replace(state, status);
    state.dataset.state = "ready";
  } catch (error) {
    replace(state, error instanceof api.Problem ? "not ready" : "no answer");
    state.dataset.state = "lost";
  }
  setTimeout(watchServer, 5000);
}

// Not by the address, which says what is shown.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
window.addEventListener("hashchange", show);
window.addEventListener("unhandledrejection", (event) => notify(event.reason?.message ?? String(event.reason), "error"));
setUpTheme();
setUpToken();
watchServer();
show();
