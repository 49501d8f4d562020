// What is shown, in the address: so that a question can be sent to a colleague, and the back button works.

// {view, parameters}: "#try?op=gather&request=…", or /docs.
export function read() {
  const [view, query = ""] = location.hash.slice(1).split("?");
  return {view: view || (location.pathname === "/docs" ? "docs" : "try"), parameters: new URLSearchParams(query)};
}

export function addressOf(view, parameters = {}) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value)).toString();
  return `${view === "docs" ? "/docs" : "/"}#${view}${query ? `?${query}` : ""}`;
}

// Without a new entry in the history: forms write it at every change.
export function note(view, parameters) {
  try {
    history.replaceState(null, "", addressOf(view, parameters));
  } catch {
    // Some browsers refuse more than so many changes in half a minute; the next one says all.
  }
}

// With an entry in the history, so that Back leads to what was shown before.
export function push(view, parameters) {
  const address = addressOf(view, parameters);
  if (address !== location.pathname + location.hash) history.pushState(null, "", address);
}
