// True if the page offers changes. Depends on --console on or read-only.

export const mayWrite = () => document.documentElement.dataset.console === "on";
