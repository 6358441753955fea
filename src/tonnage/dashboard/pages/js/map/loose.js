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
    this.more = el("p", {class: "quiet more"});
    this.element = el("details", {class: "loose", hidden: true}, this.head, this.chips, this.more);
  }

  /** Which shared capacity belongs to which group, and what is listed above the nodes. */
  arrange() {
    const {facts, state, choices, groups} = this.map;
    this.byGroup = new Map();
    const placed = new Set();
    const shared = [...facts.shared].sort().map(key => ({key, row: state.capacities.get(key), claims: []}));
    for (const item of shared) {
      // Claims of a class lie in its shared capacity; where a class has several, and a claim does not say which of them
      // reaches it, nobody tells in which.
      const same = shared.filter(other => other.row.storageClass === item.row.storageClass);
      item.claims = [...facts.nowhere].filter(key => !placed.has(key) && isIn(state.volumes.get(key), item.row, same.length === 1, facts));
      for (const key of item.claims) placed.add(key);
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
    if (found?.others.size) this.element.open = true;
    const rows = keys.map(key => ({key, row: state.volumes.get(key)}));
    const words = Object.entries(WORDS)
      .map(([name, say]) => [say, rows.filter(each => kindOf(each.row) === name)])
      .filter(([, some]) => some.length)
      .map(([say, some]) => say(some.length, bytes(some.reduce((sum, each) => sum + (each.row.bytes ?? 0), 0))));
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
        button.classList.toggle("trouble", each.row.state === "lost" || Boolean(each.row.error));
        replace(button, each.row.state === "lost" || each.row.error ? "! " : "", el("bdi", {}, each.key), ` ${bytes(each.row.bytes ?? 0)}`);
        set(button, "aria-label", `${each.key}, ${bytes(each.row.bytes ?? 0)}, ${stateWords(each.row)}`);
      },
    );
    replace(this.more, rows.length > MOST ? `and ${(rows.length - MOST).toLocaleString("en")} more; search finds them` : "");
  }
}

/** What is said of claims and volumes on no node, by what they are. */
const WORDS = {
  lost: (number, size) => `! ${count(number, "claim")} lost, ${size}`,
  waiting: (number, size) => `${count(number, "claim")} waiting for a node, ${size}`,
  making: (number, size) => `${count(number, "claim")} being made, ${size}`,
  other: (number, size) => `${count(number, "volume")} not tied to a node, ${size}`,
};

function kindOf(row) {
  const state = row.state ?? "waiting";
  return state in WORDS ? state : "other";
}

/** Whether a volume lies in a capacity object: of its class, and it says so, or there is no other. */
function isIn(volume, capacity, isOnly, facts) {
  if ((volume.storageClass ?? "") !== capacity.storageClass || volume.state === "lost") return false;
  if (volume.zones?.length) return (capacity.nodes ?? []).some(name => volume.zones.includes(facts.zones.get(name)));
  if (volume.nodes?.length) return (capacity.nodes ?? []).some(name => volume.nodes.includes(name));
  return isOnly;
}

/** The group of its nodes when they have one, else the first: what all share stands on top. */
function groupFor(row, facts, group, groups) {
  if (group !== "zone") return groups[0]?.key;
  const zones = new Set((row.nodes ?? []).map(name => facts.zones.get(name) ?? ""));
  const [zone] = zones;
  return zones.size === 1 && groups.some(each => each.key === zone) ? zone : groups[0]?.key;
}
