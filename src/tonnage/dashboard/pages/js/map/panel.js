// Details of one node or one claim, over the map, which stays as it is. Opened by click or Enter, closed by Escape; the focus goes back then.

import {el, replace} from "../dom.js";
import {claimDetails, nodeDetails} from "./details.js";
import {showBars} from "./tile.js";

export class Panel {
  constructor(map) {
    this.map = map;
    this.shown = null;
    this.title = el("h3", {tabindex: -1});
    this.body = el("div", {class: "panel-body"});
    const end = el("button", {type: "button", class: "panel-close", "aria-label": "Close details", onclick: () => this.close()}, "×");
    const listeners = {onkeydown: event => this.onKey(event), onclick: event => this.onClick(event)};
    const head = el("header", {}, this.title, end);
    this.element = el("aside", {class: "panel", "aria-label": "Details", hidden: true, ...listeners}, head, this.body);
    const onEscape = event => {
      const isOurs = this.map.element.contains(event.target) || event.target === document.body;
      if (event.key === "Escape" && this.shown && !event.defaultPrevented && isOurs) this.close();
    };
    document.addEventListener("keydown", onEscape, {signal: map.asks.signal});
  }

  /** Show a node or a claim; the focus goes to the panel, and back when it is closed. `isTold`: the map's owner hears of it. */
  open(kind, key, {isTold = true} = {}) {
    if (this.element.hidden) this.before = document.activeElement;
    this.shown = {kind, key};
    this.element.hidden = false;
    this.body.replaceChildren();
    this.body.keyedChildren = undefined;
    this.refresh();
    this.title.focus({preventScroll: true});
    if (isTold) this.map.options.onOpen?.(this.shown);
  }

  /** Show it as it is now, when what it shows was touched. */
  refresh(touched = null, changed = null) {
    if (!this.shown) return;
    const {kind, key} = this.shown;
    const {facts, state} = this.map;
    if (touched) {
      const isNode = kind === "node" && touched.nodes.has(key);
      const isClaim = kind === "claim" && (changed.volumes?.has(key) || changed.pods);
      if (!isNode && !isClaim) return;
    }
    const focused = this.body.contains(document.activeElement) ? document.activeElement.dataset.id : undefined;
    replace(this.title, el("bdi", {}, key));
    const fact = kind === "node" ? facts.of(key) : undefined;
    const row = kind === "claim" ? state.volumes.get(key) : undefined;
    if (fact) {
      const bars = el("div", {class: "detail-bars"});
      bars.classList.toggle("is-compact", fact.bars.length > 4);
      showBars(bars, fact.bars, this.map.look());
      replace(this.body, nodeDetails(fact, state, bars, bar => this.map.scaleOf(bar), this.map.options));
    } else if (row) {
      replace(this.body, claimDetails(key, row, state, this.map.options));
    } else {
      replace(this.body, el("p", {}, `There is no ${kind} of this name.`));
    }
    if (focused) [...this.body.querySelectorAll("[data-id]")].find(each => each.dataset.id === focused)?.focus({preventScroll: true});
  }

  onClick(event) {
    const target = event.target.closest("[data-open]");
    if (!target) return;
    const [kind, key] = [target.dataset.open, target.dataset.key];
    if (kind === "node") this.map.moveTo(key, {isFocused: false});
    this.open(kind, key);
  }

  onKey(event) {
    if (event.key !== "Escape") return;
    event.preventDefault();
    this.close();
  }

  close({isTold = true} = {}) {
    if (this.element.hidden) return;
    this.element.hidden = true;
    this.shown = null;
    if (isTold) this.map.options.onOpen?.(null);
    const cell = this.before?.isConnected && this.before !== document.body ? this.before : this.map.grid.cellOf(this.map.grid.cursor);
    cell?.focus({preventScroll: true});
  }
}
