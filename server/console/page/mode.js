// Whether the page offers changes: --console on or read-only.

export const mayWrite = () => document.documentElement.dataset.console === "on";
