// Starts the page: the current view, the token, the colours, and the server's state.

import * as api from "./api.js";
import {el, notify, replace} from "./dom.js";
import {read} from "./state.js";

const views = {
  try: () => import("./try.js"),
  tables: () => import("./tables.js"),
  programs: () => import("./programs.js"),
  live: () => import("./live.js"),
  docs: () => import("./docs.js"),
};

const main = document.getElementById("view");
let shown, holder;

// Gives each view its own element, so a view that finishes late cannot draw into the next view.
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

// Switches between light and dark. Choosing the system's preference clears the choice, so the page follows the system again.
function setUpTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)"), root = document.documentElement;
  const now = () => root.dataset.theme || (dark.matches ? "dark" : "light");
  const button = document.getElementById("theme-button");
  const tell = () => button.setAttribute("aria-label", `Colours: ${now()}; choose ${now() === "dark" ? "light" : "dark"}`);
  root.dataset.theme = stored("theme");
  button.addEventListener("click", () => {
    const wanted = now() === "dark" ? "light" : "dark";
    root.dataset.theme = wanted === (dark.matches ? "dark" : "light") ? "" : wanted;
    store("theme", root.dataset.theme);
    tell();
  });
  dark.addEventListener("change", tell);
  tell();
}

// Returns "" if the browser does not let the page store anything.
function stored(name) {
  try {
    return localStorage.getItem(name) ?? "";
  } catch {
    return "";
  }
}

function store(name, value) {
  try {
    if (value) localStorage.setItem(name, value);
    else localStorage.removeItem(name);
  } catch {
    // The choice lasts until the page is closed.
  }
}

function setUpToken() {
  const dialog = document.getElementById("token-dialog"), input = document.getElementById("token-input");
  const button = document.getElementById("token-button"), problem = document.getElementById("token-problem");
  const ask = () => {
    dialog.returnValue = ""; // the value after Escape
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
  // The page sends requests every few seconds by itself. Do not ask again after the user closes the dialog.
  api.onUnauthorized(() => {
    replace(problem, api.hasToken() ? "The server does not know this token." : "This server requires a token.");
    if (!dialog.open && !declined) ask();
  });
}

let workers = 0;

async function watchServer() {
  const state = document.getElementById("server-state");
  try {
    const {status} = await api.getJson("/readyz");
    replace(state, workers ? `${status} · ${workers} worker${workers === 1 ? "" : "s"}` : status);
    state.dataset.state = "ready";
  } catch (error) {
    replace(state, error instanceof api.Problem ? "not ready" : "no answer");
    state.dataset.state = "lost";
  }
  setTimeout(watchServer, 5000);
}

// Records the server's activity whichever view is shown. Starts after the first view is drawn.
async function watchLoad() {
  const live = await import("./live.js");
  live.watch((samples) => {
    workers = samples.get("tensord_workers")?.[0].value ?? 0;
  });
}

// Links between the views change only the address. Loading a new page would lose the token, the user's input and the charts.
function setUpLinks() {
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href]");
    if (!link || event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey || link.target || link.hasAttribute("download")) return;
    const to = new URL(link.href);
    if (to.origin !== location.origin || !["/", "/docs"].includes(to.pathname) || link.classList.contains("skip")) return;
    event.preventDefault();
    if (to.href !== location.href) history.pushState(null, "", to.href);
    window.scrollTo(0, 0);
    show();
  });
}

// Stops the browser from opening a file dropped outside an input in place of the page.
function setUpDrops() {
  document.addEventListener("dragover", (event) => {
    if (event.defaultPrevented) return;
    event.preventDefault();
    event.dataTransfer.dropEffect = "none";
  });
  document.addEventListener("drop", (event) => {
    if (event.defaultPrevented) return;
    event.preventDefault();
    notify("Nothing was read. Drop the file on an input, or on the upload form under Tables.");
  });
}

// Moves the focus without changing the address, which names the view.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
window.addEventListener("popstate", show);
window.addEventListener("unhandledrejection", (event) => notify(event.reason?.message ?? String(event.reason), "error"));
setUpTheme();
setUpToken();
setUpLinks();
setUpDrops();
watchServer();
show().finally(watchLoad);
