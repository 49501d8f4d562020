// The resident tensors, their aliases, and one of them in detail.

import {drawAliases} from "./aliases_view.js";
import * as api from "./api.js";
import {el, folding, labelled, replace} from "./dom.js";
import {mayWrite} from "./mode.js";
import {bytes, grouped} from "./numbers.js";
import {note} from "./state.js";
import {drawDetail} from "./table_detail.js";
import {deleteButton, uploadForm} from "./upload.js";

class TablesView {
  constructor(node) {
    this.node = node;
    this.tensors = [];
    this.named = {};
    this.filter = el("input", {type: "search", spellcheck: "false", oninput: () => this.drawList()});
    this.listing = el("div", {});
    this.aliases = el("div", {});
    this.detail = el("section", {class: "detail", "aria-label": "the chosen table", tabindex: -1});
  }

  async open(parameters) {
    replace(this.node, el("div", {class: "columns"},
      el("div", {}, labelled("find by name", this.filter), this.listing, this.aliases, mayWrite() ? uploadForm((name) => this.refresh(name)) : null), this.detail));
    await this.refresh(parameters.get("name"));
  }

  async refresh(name = this.chosen) {
    const [{tensors}, aliases] = await Promise.all([api.getJson("/v1/tensors"), api.getJson("/v1/aliases")]);
    this.tensors = tensors;
    this.named = aliases.aliases;
    const names = tensors.map((tensor) => tensor.name);
    replace(this.aliases, drawAliases(aliases, tensors, () => this.refresh()));
    this.chosen = names.includes(name) ? name : undefined;
    this.drawList();
    if (this.chosen) await this.show(this.chosen);
    else replace(this.detail, el("p", {class: "empty"}, tensors.length ? "Choose a table." : "There are no tables yet: upload one, or start tensord with --data-dir."));
  }

  drawList() {
    const wanted = this.filter.value.trim().toLowerCase();
    const found = this.tensors.filter(({name}) => name.toLowerCase().includes(wanted));
    const lines = found.slice(0, 500).map((tensor) => ({current: tensor.name === this.chosen, cells: [
      [el("button", {type: "button", class: "link", onclick: () => this.show(tensor.name)}, tensor.name), ...this.aliasesOf(tensor.name)],
      tensor.dtype, `[${tensor.shape}]`, bytes(tensor.bytes), tensor.keys ?? "", tensor.checksum === "damaged" ? "damaged" : tensor.persisted ? "on disk" : "memory",
      grouped(tensor.version), mayWrite() ? deleteButton(tensor.name, () => this.refresh()) : ""]}));
    replace(this.listing, folding("list of tables", ["name", "dtype", "shape", "size", "keys", "kept", "change", ""], lines, ["size", "change"]),
      found.length > 500 ? el("p", {class: "help"}, `and ${found.length - 500} more`) : null);
  }

  // The names under which requests may ask for it, too.
  aliasesOf(name) {
    const own = Object.entries(this.named).filter(([, target]) => target === name).map(([alias]) => alias);
    return own.length ? [" ", el("span", {class: "badge"}, `alias ${own.join(", ")}`)] : [];
  }

  async show(name) {
    this.chosen = name;
    if (this.node.isConnected) note("tables", {name});
    this.drawList();
    await drawDetail(this.detail, this.tensors.find((tensor) => tensor.name === name), this.tensors.map((tensor) => tensor.name));
  }
}

export async function open(node, parameters) {
  await new TablesView(node).open(parameters);
}
