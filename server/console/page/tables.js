// The resident tensors, their aliases, and one of them in detail.

import {drawAliases} from "./aliases_view.js";
import * as api from "./api.js";
import {el, labelled, replace, scroll} from "./dom.js";
import {mayWrite} from "./mode.js";
import {bytes} from "./numbers.js";
import {note} from "./state.js";
import {drawDetail} from "./table_detail.js";
import {deleteButton, uploadForm} from "./upload.js";

class TablesView {
  constructor(node) {
    this.node = node;
    this.tensors = [];
    this.filter = el("input", {type: "search", spellcheck: "false", oninput: () => this.drawList()});
    this.listing = scroll("list of tables");
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
    const names = tensors.map((tensor) => tensor.name);
    replace(this.aliases, drawAliases(aliases, names, () => this.refresh()));
    this.chosen = names.includes(name) ? name : undefined;
    this.drawList();
    if (this.chosen) await this.show(this.chosen);
    else replace(this.detail, el("p", {class: "empty"}, tensors.length ? "Choose a table." : "There are no tables yet: upload one, or start tensord with --data-dir."));
  }

  drawList() {
    const wanted = this.filter.value.trim().toLowerCase();
    const found = this.tensors.filter(({name}) => name.toLowerCase().includes(wanted));
    const lines = found.slice(0, 500).map((tensor) => el("tr", {"aria-current": tensor.name === this.chosen ? "true" : null},
      el("td", {class: "text"}, el("button", {type: "button", class: "link", onclick: () => this.show(tensor.name)}, tensor.name)), el("td", {class: "text"}, tensor.dtype),
      el("td", {class: "text"}, `[${tensor.shape}]`), el("td", {}, bytes(tensor.bytes)), el("td", {class: "text"}, tensor.keys ?? ""),
      el("td", {class: "text"}, tensor.checksum === "damaged" ? "damaged" : tensor.persisted ? "on disk" : "memory"), el("td", {}, mayWrite() ? deleteButton(tensor.name, () => this.refresh()) : "")));
    const heads = ["name", "dtype", "shape", "size", "keys", "kept", ""].map((text) => el("th", {scope: "col", class: text === "size" ? "number" : null}, text));
    replace(this.listing, el("table", {class: "listing"}, el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...lines)),
      found.length > 500 ? el("p", {class: "help"}, `and ${found.length - 500} more`) : null);
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
