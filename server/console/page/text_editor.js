// A field for a long text, with line numbers and marked ranges.

import {el, replace} from "./dom.js";

// Returns the text as nodes, with the ranges {from, to, kind} marked. Ranges can overlap.
function marked(text, ranges) {
  const cuts = [...new Set([0, ...ranges.flatMap(({from, to}) => [from, to]), text.length])].sort((a, b) => a - b);
  const parts = cuts.slice(1).map((to, i) => {
    const kinds = ranges.filter((range) => range.from <= cuts[i] && range.to >= to).map(({kind}) => kind), own = text.slice(cuts[i], to);
    return kinds.length ? el("mark", {class: kinds.join(" ")}, own) : own;
  });
  return [...parts, "\n"]; // a last empty line has a height of its own
}

export class TextEditor {
  constructor(label, onchange) {
    this.numbers = el("pre", {class: "numbers", "aria-hidden": "true"});
    this.echo = el("pre", {class: "echo-text", "aria-hidden": "true"});
    this.field = el("textarea", {"aria-label": label, wrap: "off", spellcheck: "false", autocomplete: "off", autocapitalize: "off", oninput: () => {
      this.draw();
      onchange();
    }});
    this.node = el("div", {class: "editor"}, this.numbers, this.echo, this.field);
    this.ranges = new Map();
  }

  get text() {
    return this.field.value;
  }

  set text(text) {
    this.field.value = text;
    this.draw();
  }

  // The marks belong to the text before a change.
  draw() {
    this.ranges.clear();
    replace(this.numbers, Array.from({length: this.text.split("\n").length}, (_, i) => i + 1).join("\n"));
    this.drawMarks();
  }

  drawMarks() {
    replace(this.echo, ...marked(this.text, [...this.ranges.values()]));
  }

  // Marks a range {from, to} in place of the other range of this kind; null removes the mark.
  mark(kind, range) {
    this.ranges.delete(kind);
    if (range) this.ranges.set(kind, {...range, kind});
    this.drawMarks();
    const node = this.echo.querySelector(`mark.${kind}`);
    if (node) this.reveal(node);
  }

  // Scrolls the field only, not the page.
  reveal(node) {
    const own = node.getBoundingClientRect(), box = this.node.getBoundingClientRect();
    if (own.top < box.top || own.bottom > box.bottom) this.node.scrollTop += own.top - box.top - box.height / 3;
    if (own.left < box.left || own.left > box.right) this.node.scrollLeft += own.left - box.left - box.width / 3;
  }

  // Moves the caret to a range.
  goTo({from, to}) {
    this.field.focus({preventScroll: true});
    this.field.setSelectionRange(from, to);
    this.node.scrollIntoView({block: "nearest"});
  }
}
