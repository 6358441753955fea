// The rows of a group besides its nodes: its header with sums, and capacity that its nodes share.

import {el, keyed, replace, set} from "../dom.js";
import {bytes, count, percent} from "../format.js";
import {sharedBars} from "./bars.js";
import {isTroubled} from "./signs.js";
import {showBars} from "./tile.js";

const MOST_SHARED = 6;

export class GroupRows {
  constructor(map) {
    this.map = map;
  }

  /** A button that collapses the group, and what its nodes come to. */
  fillHeader(element, row) {
    const group = this.map.groupOf(row.group);
    if (!element.firstChild) {
      const button = el("button", {class: "group-button", type: "button", onclick: () => this.map.toggleGroup(element.dataset.group)}, el("bdi", {}));
      element.append(el("div", {class: "group-head", role: "rowheader"}, button, el("span", {class: "group-sums"})));
    }
    element.dataset.group = row.group;
    const [button, sums] = element.firstChild.children;
    set(button, "aria-expanded", String(!group.isCollapsed));
    button.firstChild.textContent = group.title;
    replace(sums, groupWords(group, this.map.facts));
  }

  /** Bars of capacity objects that several of the group's nodes share: drawn once, not on each node. */
  fillShared(element, row, look) {
    const {state} = this.map;
    if (!element.firstChild) element.append(el("div", {class: "shared-list", role: "gridcell"}));
    const items = this.map.sharedOf(row.group).slice(0, MOST_SHARED);
    keyed(
      element.firstChild,
      items,
      item => item.key,
      () => el("div", {class: "shared-capacity"}, el("p", {class: "shared-head"}), el("div", {class: "detail-bars"})),
      (child, item) => {
        const reach = item.row.nodeCount ? `shared by ${count(item.row.nodeCount, "node")}` : "reaches no node";
        replace(child.firstChild, el("b", {}, el("bdi", {}, item.row.storageClass)), ` ${reach}`);
        showBars(child.lastChild, sharedBars(item.row, item.claims, state.volumes), look);
      },
    );
  }
}

/** How high the row of shared capacity is. */
export function sharedHeight(items, volumes) {
  return items.slice(0, MOST_SHARED).reduce((sum, item) => sum + 28 + 42 * Math.max(1, sharedBars(item.row, item.claims, volumes).length), 0);
}

function groupWords(group, facts) {
  let [size, free, troubled, claims] = [0, 0, 0, 0];
  for (const name of group.names) {
    const fact = facts.of(name);
    if (!fact) continue;
    if (fact.fullness !== null) {
      size += fact.size;
      free += fact.free;
    }
    claims += fact.claims.length;
    if (isTroubled(fact)) troubled += 1;
  }
  const words = [count(group.names.length, "node"), count(claims, "claim")];
  if (size > 0) words.push(`${percent((size - free) / size)} full`, `${bytes(free)} free`);
  // What is wrong comes first: a narrow screen cuts the end.
  return [troubled ? el("b", {class: "trouble"}, `${troubled} in trouble`) : null, troubled ? " · " : "", words.join(" · ")];
}
