// Nodes that are chosen: found by a part of their name, kept as a list, taken out again.

import {compareNames} from "../names.js";
import {el, keyed, replace} from "../dom.js";
import {name} from "../table.js";

const MOST_FOUND = 8;

export class NodePicker {
  /** `onChange` is told when the chosen nodes are others. */
  constructor(state, chosen, onChange) {
    this.state = state;
    this.chosen = new Set(chosen);
    this.onChange = onChange;
    this.list = el("ul", {class: "chips", "aria-label": "Chosen nodes"});
    this.found = el("ul", {class: "found", "aria-label": "Nodes that were found"});
    this.field = el("input", {
      type: "search",
      id: "node-search",
      autocomplete: "off",
      placeholder: "part of a name",
      "aria-describedby": "node-search-told",
      oninput: () => this.search(),
      onkeydown: event => {
        if (event.key !== "Enter" || !this.field.value.trim()) return;
        event.preventDefault(); // Enter in the search chooses; an empty search lets it send the form
        const first = this.matches()[0];
        if (first !== undefined) this.add(first);
      },
    });
    this.told = el("p", {id: "node-search-told", class: "quiet", role: "status"});
    this.element = el("div", {class: "picker"}, el("label", {for: "node-search"}, "Nodes"), this.list, this.field, this.found, this.told);
    this.draw();
  }

  matches() {
    const wanted = this.field.value.trim().toLowerCase();
    if (!wanted) return [];
    const found = [...this.state.nodes.values()].filter(row => !row.gone && row.name.toLowerCase().includes(wanted) && !this.chosen.has(row.name));
    return found.map(row => row.name).sort(compareNames);
  }

  search() {
    const matches = this.matches();
    replace(this.found, matches.slice(0, MOST_FOUND).map(each => el("li", {}, el("button", {type: "button", onclick: () => this.add(each)}, "+ ", name(each)))));
    const wanted = this.field.value.trim();
    const more = matches.length - MOST_FOUND;
    replace(this.told, !wanted ? "" : !matches.length ? "No other node has this text in its name." : more > 0 ? `${more} more; type more of the name.` : "");
  }

  add(node) {
    this.chosen.add(node);
    this.field.value = "";
    this.search();
    this.changed();
    this.field.focus();
  }

  /** In, or out again. */
  toggle(node) {
    if (!this.chosen.delete(node)) this.chosen.add(node);
    this.changed();
  }

  remove(node) {
    this.chosen.delete(node);
    this.changed();
    this.field.focus();
  }

  changed() {
    this.draw();
    this.onChange([...this.chosen]);
  }

  draw() {
    keyed(
      this.list,
      [...this.chosen],
      each => each,
      each => el("li", {class: "chip"}, name(each), el("button", {type: "button", "aria-label": `Leave out ${each}`, onclick: () => this.remove(each)}, "×")),
    );
  }
}
