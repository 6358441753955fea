// What is on no one node: claims that wait, volumes that every node reaches or that are lost, and capacity that nodes share.

import {el, keyed, replace, set} from "../dom.js";
import {bytes, count} from "../format.js";
import {stateWords} from "./words.js";

const MOST = 40;

export class Loose {
  constructor(map) {
    this.map = map;
    this.byGroup = new Map();
    this.chips = el("ul", {class: "chips"});
    this.head = el("summary", {});
    this.element = el("details", {class: "loose", hidden: true}, this.head, this.chips);
  }

  /** Which shared capacity belongs to which group, and what is listed above the nodes. */
  arrange() {
    const {facts, state, choices, groups} = this.map;
    this.byGroup = new Map();
    const placed = new Set();
    const shared = [...facts.shared].sort().map(key => ({key, row: state.capacities.get(key), claims: []}));
    for (const item of shared) {
      const same = shared.filter(other => other.row.storageClass === item.row.storageClass);
      // Claims of a class lie in its shared capacity; where a class has several, nobody tells in which.
      if (same.length === 1) {
        item.claims = [...facts.nowhere].filter(key => isIn(state.volumes.get(key), item.row));
        for (const key of item.claims) placed.add(key);
      }
      const group = groupFor(item.row, facts, choices.group, groups);
      if (group === undefined) continue;
      if (!this.byGroup.has(group)) this.byGroup.set(group, []);
      this.byGroup.get(group).push(item);
    }
    this.show([...facts.waiting, ...[...facts.nowhere].filter(key => !placed.has(key))]);
  }

  sharedOf(group) {
    return this.byGroup.get(group) ?? [];
  }

  show(keys) {
    const {state, found} = this.map;
    this.element.hidden = !keys.length;
    if (!keys.length) return;
    const rows = keys.map(key => ({key, row: state.volumes.get(key)}));
    const waiting = rows.filter(each => (each.row.state ?? "waiting") === "waiting");
    const words = [];
    if (waiting.length) words.push(`${count(waiting.length, "claim")} waiting for a node, ${bytes(waiting.reduce((sum, each) => sum + (each.row.bytes ?? 0), 0))}`);
    if (rows.length > waiting.length) words.push(`${count(rows.length - waiting.length, "volume")} on no one node`);
    replace(this.head, words.join(" · "));
    rows.sort((a, b) => Boolean(found?.claims.has(b.key)) - Boolean(found?.claims.has(a.key)) || (a.key < b.key ? -1 : 1));
    keyed(
      this.chips,
      rows.slice(0, MOST),
      each => each.key,
      each => el("li", {}, el("button", {type: "button", class: "chip", onclick: () => this.map.openClaim(each.key)})),
      (item, each) => {
        const button = item.firstChild;
        const given = this.map.look().colourOf(each.key);
        button.dataset.colour = given.colour;
        button.classList.toggle("is-found", Boolean(found?.claims.has(each.key)));
        replace(button, el("bdi", {}, each.key), ` ${bytes(each.row.bytes ?? 0)}`);
        set(button, "aria-label", `${each.key}, ${bytes(each.row.bytes ?? 0)}, ${stateWords(each.row)}`);
      },
    );
    if (rows.length > MOST) this.chips.append(el("li", {class: "more"}, `and ${count(rows.length - MOST, "more", "more")}`));
    for (const more of [...this.chips.querySelectorAll(".more")].slice(0, rows.length > MOST ? -1 : undefined)) more.remove();
  }
}

function isIn(volume, capacity) {
  return (volume.storageClass ?? "") === capacity.storageClass && volume.state !== "lost";
}

/** The group of its nodes when they have one, else the first: what all share stands on top. */
function groupFor(row, facts, group, groups) {
  if (group !== "zone") return groups[0]?.key;
  const zones = new Set((row.nodes ?? []).map(name => facts.zones.get(name) ?? ""));
  const [zone] = zones;
  return zones.size === 1 && groups.some(each => each.key === zone) ? zone : groups[0]?.key;
}
