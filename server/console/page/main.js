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
let shown;

async function show() {
  const {view, parameters} = read();
  const known = views[view] ? view : "try";
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.view === known) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  shown?.close?.();
  shown = null;
  try {
    shown = await (await views[known]()).open(main, parameters);
  } catch (error) {
    replace(main, el("p", {class: "error", role: "alert"}, error.message));
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
  button.addEventListener("click", () => {
    replace(problem);
    dialog.showModal();
  });
  dialog.addEventListener("close", () => {
    if (!dialog.returnValue) return;
    api.setToken(dialog.returnValue === "set" ? input.value.trim() : "");
    input.value = "";
    replace(button, `Token: ${api.hasToken() ? "set" : "none"}`);
    show();
  });
  api.onUnauthorized(() => {
    replace(problem, api.hasToken() ? "The server does not know this token." : "This server wants a token.");
    if (!dialog.open) dialog.showModal();
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

window.addEventListener("hashchange", show);
window.addEventListener("unhandledrejection", (event) => notify(event.reason?.message ?? String(event.reason), "error"));
setUpTheme();
setUpToken();
watchServer();
show();
