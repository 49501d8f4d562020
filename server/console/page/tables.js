// The resident tensors, their aliases, and a detailed view of the selected tensor.

import {drawAliases} from "./aliases_view.js";
import * as api from "./api.js";
import {el, folding, labelled, replace} from "./dom.js";
import {mayWrite} from "./mode.js";
import {bytes, grouped} from "./numbers.js";
import {note, push} from "./state.js";
import {drawDetail} from "./table_detail.js";
import {deleteTensorButton, uploadForm} from "./upload.js";

class TablesView {
  constructor(node) {
    this.node = node;
    this.tensors = [];
    this.named = {};
    this.filter = el("input", {type: "search", spellcheck: "false", oninput: () => this.drawList()});
    this.listing = el("div", {});
    this.aliases = el("div", {});
    this.detail = el("section", {class: "detail", "aria-label": "selected table", tabindex: -1});
  }

  async open(parameters) {
    replace(this.node, el("div", {class: "columns"},
      el("div", {}, labelled("find by name", this.filter), this.listing, this.aliases, mayWrite() ? uploadForm((name) => this.refresh(name)) : null), this.detail));
    this.wanted = Object.fromEntries(parameters); // of the table in the address
    await this.refresh(parameters.get("name"));
  }

  async refresh(name = this.chosen) {
    const [{tensors}, aliases] = await Promise.all([api.getJson("/v1/tensors"), api.getJson("/v1/aliases")]);
    this.tensors = tensors;
    this.named = aliases.aliases;
    const names = tensors.map((tensor) => tensor.name);
    replace(this.aliases, drawAliases(aliases, tensors, () => this.refresh()));
    const version = Object.hasOwn(this.named, name) ? this.named[name] : name;
    this.chosen = names.includes(version) ? version : undefined;
    this.drawList();
    if (this.chosen) await this.show(this.chosen);
    else if (name) replace(this.detail, el("p", {class: "problem-text"}, `There is no table ${name}.`));
    else replace(this.detail, el("p", {class: "empty"}, tensors.length ? "Select a table." : "There are no tables yet. Upload one, or start tensord with --data-dir."));
  }

  drawList() {
    const wanted = this.filter.value.trim().toLowerCase();
    const found = this.tensors.filter(({name}) => name.toLowerCase().includes(wanted));
    const lines = found.slice(0, 500).map((tensor) => ({current: tensor.name === this.chosen, cells: [
      [el("button", {type: "button", class: "link", onclick: () => this.choose(tensor.name)}, tensor.name), ...this.aliasesOf(tensor.name)],
      tensor.dtype, `[${tensor.shape}]`, bytes(tensor.bytes), tensor.keys ?? "", tensor.checksum === "damaged" ? "damaged" : tensor.persisted ? "on disk" : "memory",
      grouped(tensor.version), mayWrite() ? deleteTensorButton(tensor.name, () => this.refresh()) : ""]}));
    replace(this.listing, folding("list of tables", ["name", "dtype", "shape", "size", "keys", "kept", "change", ""], lines, ["size", "change"]),
      found.length > 500 ? el("p", {class: "help"}, `and ${found.length - 500} more`) : null);
  }

  // Returns a badge with the aliases of a version.
  aliasesOf(name) {
    const own = Object.entries(this.named).filter(([, target]) => target === name).map(([alias]) => alias);
    return own.length ? [" ", el("span", {class: "badge"}, `alias ${own.join(", ")}`)] : [];
  }

  async choose(name) {
    this.wanted = {};
    push("tables", {name});
    await this.show(name);
  }

  // Shows a table with the rows and the second table that the address names.
  async show(name) {
    this.chosen = name;
    const {name: _, ...wanted} = this.wanted;
    const keep = (shown) => {
      this.wanted = shown;
      if (this.node.isConnected && this.chosen === name) note("tables", {name, ...shown});
    };
    keep(wanted);
    this.drawList();
    await drawDetail(this.detail, this.tensors.find((tensor) => tensor.name === name), this.tensors.map((tensor) => tensor.name), wanted, keep);
  }
}

export async function open(node, parameters) {
  await new TablesView(node).open(parameters);
}
