// What one chooses by: search, zoom, grouping, order, colours, filters, and the legend.

import {el, keyed, replace, set} from "../dom.js";
import {count} from "../format.js";
import {GROUPS, SORTS} from "./arrangement.js";
import {COLOUR_BY} from "./colours.js";
import {LEVEL_ORDER, LEVEL_WORDS} from "./levels.js";
import {SIGNS} from "./signs.js";

const MOST_NAMES = 16; // in the legend
const FULL_STEPS = ["0 %", "20 %", "40 %", "60 %", "80 %"];

export class Controls {
  constructor(map) {
    this.map = map;
    this.search = el("input", {
      type: "search",
      class: "map-search",
      placeholder: "Search node, claim, pod, volume, class",
      "aria-label": "Search",
      "aria-keyshortcuts": "/",
      oninput: () => this.onSearch(),
      onkeydown: event => this.onSearchKey(event),
    });
    this.search.value = map.choices.search;
    this.told = el("span", {class: "search-told", role: "status"});
    const steps = LEVEL_ORDER.map(level => el("button", {type: "button", "data-level": level, onclick: () => map.choose({level})}, LEVEL_WORDS[level]));
    const [out, into] = [this.zoomButton(-1, "−", "Zoom out"), this.zoomButton(1, "+", "Zoom in")];
    this.levels = el("div", {class: "levels", role: "group", "aria-label": "Zoom"}, out, steps, into);
    this.group = select("Group", GROUPS, map.choices.group, group => map.choose({group}));
    this.sort = select("Order", SORTS, map.choices.sort, sort => map.choose({sort}));
    this.colour = select("Colour by", COLOUR_BY, map.choices.colourBy, colourBy => map.choose({colourBy}));
    this.classes = el("select", {onchange: () => map.choose({storageClass: this.classes.value})});
    this.trouble = toggle("Trouble only", () => map.choose({isTroubleOnly: !map.choices.isTroubleOnly}));
    this.cordoned = toggle("Cordoned", () => map.choose({isCordonedOnly: !map.choices.isCordonedOnly}));
    this.legend = el("ul", {class: "legend", "aria-label": "Legend"});
    this.counts = el("span", {class: "map-counts"});
    const line = [this.search, this.told, this.levels, this.trouble, this.cordoned, this.more(), this.counts];
    this.element = el("div", {class: "controls", role: "search"}, el("div", {class: "control-line"}, line), this.legend, map.rulers.element);
    document.addEventListener("keydown", event => this.onKey(event), {signal: map.asks.signal});
  }

  zoomButton(step, sign, label) {
    const key = step > 0 ? "+" : "-";
    return el("button", {type: "button", "aria-label": label, "aria-keyshortcuts": key, onclick: () => this.map.zoom(step)}, sign);
  }

  /** What one chooses seldom, folded away; it closes when the focus leaves it. */
  more() {
    const fields = [this.group.label, this.sort.label, this.colour.label, el("label", {}, "Class ", this.classes)];
    const element = el("details", {class: "map-more"}, el("summary", {}, "View"), el("div", {class: "map-choices"}, fields));
    element.addEventListener("focusout", event => {
      if (!element.contains(event.relatedTarget)) element.open = false;
    });
    element.addEventListener("keydown", event => {
      if (event.key !== "Escape" || !element.open) return;
      event.preventDefault();
      element.open = false;
      element.firstChild.focus();
    });
    return element;
  }

  /** Keys of the map, unless somebody types. */
  onKey(event) {
    if (event.target.matches?.("input, select, textarea, [contenteditable]") || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/") {
      event.preventDefault();
      this.search.focus();
      this.search.select();
    } else if (event.key === "+" || event.key === "=") {
      this.map.zoom(1);
    } else if (event.key === "-") {
      this.map.zoom(-1);
    }
  }

  onSearch() {
    this.at = -1;
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.map.choose({search: this.search.value}));
  }

  /** Enter goes to the next node that was found, with Shift to the one before; Escape ends the search. */
  onSearchKey(event) {
    if (event.key === "Escape" && this.search.value) {
      event.preventDefault();
      this.search.value = "";
      this.onSearch();
    }
    if (event.key !== "Enter" || !this.map.found) return;
    event.preventDefault();
    const found = this.map.groups.flatMap(group => group.names).filter(name => this.map.found.nodes.has(name));
    if (!found.length) return;
    this.at = ((this.at ?? -1) + (event.shiftKey ? -1 : 1) + found.length) % found.length;
    this.map.moveTo(found[this.at], {isFocused: false});
    this.tellFound();
  }

  tellFound() {
    const {found} = this.map;
    if (!found) return replace(this.told);
    const at = this.at >= 0 ? `${this.at + 1} of ` : "";
    const shown = this.map.groups.reduce((sum, group) => sum + group.names.filter(name => found.nodes.has(name)).length, 0);
    const words = [`${at}${count(shown, "node")}`, count(found.claims.size, "claim")];
    if (found.nodes.size > shown) words.push(`${found.nodes.size - shown} hidden by filters`);
    replace(this.told, words.join(", "));
  }

  /** Show what is chosen, and the legend of what there is. */
  refresh() {
    const {choices, state, level, groups} = this.map;
    for (const button of this.levels.querySelectorAll("[data-level]")) set(button, "aria-pressed", String(button.dataset.level === level));
    set(this.trouble, "aria-pressed", String(choices.isTroubleOnly));
    set(this.cordoned, "aria-pressed", String(choices.isCordonedOnly));
    const names = ["", ...[...state.classes.keys()].sort()];
    keyed(this.classes, names, name => name, name => el("option", {value: name}, name || "all"));
    this.classes.value = choices.storageClass;
    const shown = groups.reduce((sum, group) => sum + group.names.length, 0);
    const all = state.nodes.size;
    replace(this.counts, shown === all ? count(all, "node") : `${shown} of ${count(all, "node")}`);
    this.tellFound();
    this.showLegend();
  }

  showLegend() {
    const {colours, level, choices} = this.map;
    if (level !== "cells") this.map.learnColours();
    const all = [...colours.given[choices.colourBy].values()];
    const given = all.slice(0, MOST_NAMES);
    const id = `${level} ${choices.colourBy} ${all.length} ${given.map(each => each.name).join("\n")}`;
    if (id === this.legendId) return;
    this.legendId = id;
    const item = (attributes, sign, words) =>
      el("li", {}, el("span", {class: "swatch", "aria-hidden": "true", ...attributes}, sign), el("bdi", {}, words));
    if (level === "cells") {
      const signs = Object.values(SIGNS).filter(sign => sign !== SIGNS.kept);
      return replace(
        this.legend,
        FULL_STEPS.map((words, step) => item({"data-fill": step}, "", `from ${words}`)),
        item({"data-fill": "unknown"}, "", "unknown"),
        signs.map(sign => item({class: "swatch mark-swatch"}, sign.mark, sign.word)),
      );
    }
    const nameless = choices.colourBy === "class" ? "no class" : "no claim";
    replace(
      this.legend,
      given.map(each => item({"data-colour": each.colour, "data-pattern": each.pattern}, "", each.name || nameless)),
      all.length > given.length && el("li", {}, `and ${all.length - given.length} more`),
      item({"data-kind": "free"}, "", "free"),
      item({"data-kind": "kept"}, "", "kept back"),
      item({"data-kind": "coming"}, "→", "on its way"),
      item({"data-kind": "other"}, "", "other"),
    );
  }
}

function select(words, options, value, onChoose) {
  const field = el("select", {onchange: () => onChoose(field.value)}, Object.entries(options).map(([key, text]) => el("option", {value: key}, text)));
  field.value = value;
  return {label: el("label", {}, `${words} `, field), field};
}

function toggle(words, onToggle) {
  return el("button", {type: "button", class: "toggle", "aria-pressed": "false", onclick: onToggle}, words);
}
