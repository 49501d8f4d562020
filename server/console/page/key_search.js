// A search field for the keys of a table by prefix, and a list to choose keys from.

import {el, labelled, replace, uniqueId} from "./dom.js";
import {searchKeys} from "./keys.js";
import {element, grouped} from "./numbers.js";

const pauseMs = 200; // after the last character typed, before the search starts

export class KeySearch {
  // isChosen(key), ontoggle(key)
  constructor({isChosen, ontoggle}) {
    Object.assign(this, {isChosen, ontoggle, table: null, found: [], next: 0, active: -1});
    this.list = el("ul", {role: "listbox", id: uniqueId("keys"), "aria-multiselectable": "true"});
    this.field = el("input", {type: "search", role: "combobox", "aria-autocomplete": "list", "aria-expanded": "false", "aria-controls": this.list.id,
      spellcheck: "false", autocomplete: "off", oninput: () => this.later(), onfocus: () => this.later(0), onkeydown: (event) => this.onKey(event)});
    this.told = el("span", {role: "status"});
    this.further = el("button", {type: "button", hidden: true, onclick: () => this.search(this.next)}, "Search more rows");
    this.label = labelled("", this.field);
    this.options = el("div", {class: "options", hidden: true}, this.list, this.further);
    this.node = el("div", {class: "key-search", hidden: true}, this.label, el("p", {class: "help"}, this.told), this.options);
    this.node.addEventListener("focusout", (event) => {
      if (!this.node.contains(event.relatedTarget)) this.close();
    });
  }

  // `table`: the description of a table with keys, or null.
  of(table) {
    if (table?.name === this.table?.name && table?.version === this.table?.version) return;
    this.stop();
    this.table = table;
    this.node.hidden = !table;
    this.field.value = "";
    this.close();
    if (!table) return;
    replace(this.label.querySelector("label"), `keys of ${table.name}`);
    this.list.setAttribute("aria-label", `keys of ${table.name}`);
    this.field.placeholder = table.keys === "string" ? "start of a key" : `start of a key (${table.keys})`;
    replace(this.told, `${grouped(table.shape[0])} rows with keys`);
  }

  stop() {
    clearTimeout(this.timer);
    this.running?.abort();
  }

  later(ms = pauseMs) {
    this.stop();
    this.timer = setTimeout(() => this.search(0), ms);
  }

  // `from`: the row to continue from in the same search, or 0 for a new search.
  async search(from) {
    this.stop();
    const text = from ? this.text : this.field.value.trim(), running = this.running = new AbortController();
    try {
      const {found, next} = await searchKeys(this.table, text, from, {signal: running.signal});
      this.found = from ? [...this.found, ...found] : found;
      this.next = next;
      this.text = text;
      if (!from) this.active = -1;
      this.draw(text);
    } catch (error) {
      if (error.name !== "AbortError") replace(this.told, error.message);
    }
  }

  draw(text) {
    const rows = this.table.shape[0], n = this.found.length;
    replace(this.list, ...this.found.map(({key, row}, i) => el("li", {role: "option", id: `${this.list.id}-${i}`, "aria-selected": String(this.isChosen(key)),
      onpointerdown: (event) => event.preventDefault(), onclick: () => this.toggle(i)}, el("span", {class: "key"}, element(key)), el("span", {class: "row-number"}, `row ${row}`))));
    const all = this.next >= rows;
    const what = text ? `begin${n === 1 ? "s" : ""} with "${text}"` : "shown";
    replace(this.told, all ? `${grouped(n)} of ${grouped(rows)} keys ${what}` : `${grouped(n)} found in ${grouped(this.next)} of ${grouped(rows)} keys`);
    this.further.hidden = all;
    this.open(n > 0 || !all);
    this.activate(this.active);
  }

  open(is) {
    this.options.hidden = !is;
    this.field.setAttribute("aria-expanded", String(is));
  }

  close() {
    this.stop();
    this.open(false);
    this.activate(-1);
  }

  activate(i) {
    this.active = i;
    for (const option of this.list.children) option.classList.toggle("active", option.id === `${this.list.id}-${i}`);
    const option = this.list.children[i];
    if (option) this.field.setAttribute("aria-activedescendant", option.id);
    else this.field.removeAttribute("aria-activedescendant");
    option?.scrollIntoView({block: "nearest"});
  }

  toggle(i) {
    this.ontoggle(this.found[i].key);
    [...this.list.children].forEach((option, at) => option.setAttribute("aria-selected", String(this.isChosen(this.found[at].key))));
  }

  onKey(event) {
    const n = this.options.hidden ? 0 : this.found.length;
    if (event.key === "ArrowDown" && n) this.activate((this.active + 1) % n);
    else if (event.key === "ArrowUp" && n) this.activate((Math.max(this.active, 0) - 1 + n) % n);
    else if (event.key === "Escape" && n) this.close();
    else if (event.key === "Enter" && !event.ctrlKey && !event.metaKey) {
      // A single result needs no arrow key. If the text has changed, search for it first.
      if (this.active >= 0) this.toggle(this.active);
      else if (n === 1 && this.text === this.field.value.trim()) this.toggle(0);
      else this.later(0);
    } else return;
    event.preventDefault();
  }
}
