// Keeps the state of the view in the address, so users can share links and use the back button.

// Returns {view, parameters} for "#try?op=gather&request=…" or /docs.
export function read() {
  const [view, query = ""] = location.hash.slice(1).split("?");
  return {view: view || (location.pathname === "/docs" ? "docs" : "try"), parameters: new URLSearchParams(query)};
}

export function addressOf(view, parameters = {}) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value)).toString();
  return `${view === "docs" ? "/docs" : "/"}#${view}${query ? `?${query}` : ""}`;
}

// Changes the address without a new history entry, because forms call it at every change.
export function note(view, parameters) {
  try {
    history.replaceState(null, "", addressOf(view, parameters));
  } catch {
    // Some browsers limit the number of changes in half a minute. The next change stores the whole state.
  }
}

// Adds a history entry, so Back returns to the previous view.
export function push(view, parameters) {
  const address = addressOf(view, parameters);
  if (address !== location.pathname + location.hash) history.pushState(null, "", address);
}
