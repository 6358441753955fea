// Which nodes are shown, in which groups and order, and what a search finds. Pure.

import {compareNames} from "../names.js";
import {badness, isTroubled} from "./signs.js";

export const GROUPS = {zone: "by zone", class: "by class", none: "not grouped"};
export const SORTS = {name: "by name", fullness: "fullest first", free: "most free first", trouble: "trouble first"};

/** Names of the nodes that are shown, by group: [{key, label, names}], in order. */
export function arranged(facts, {group, sort, isTroubleOnly, isCordonedOnly, storageClass}) {
  const groups = new Map();
  for (const name of facts.names()) {
    const fact = facts.of(name);
    if (isTroubleOnly && !isTroubled(fact)) continue;
    if (isCordonedOnly && !fact.row.cordoned) continue;
    if (storageClass && !fact.classes.has(storageClass)) continue;
    const key = keyOf(fact, group);
    const found = groups.get(key);
    if (found === undefined) groups.set(key, [fact]);
    else found.push(fact);
  }
  const keys = [...groups.keys()].sort((a, b) => (a === "" ? 1 : b === "" ? -1 : compareNames(a, b)));
  const before = ORDERS[sort] ?? ORDERS.name;
  return keys.map(key => ({
    key,
    label: labelOf(key, group),
    isBare: group === "none",
    names: groups.get(key).sort(before).map(fact => fact.name),
  }));
}

function keyOf(fact, group) {
  if (group === "zone") return fact.zone;
  if (group === "class") return [...fact.classes].sort().join(", ");
  return "all";
}

function labelOf(key, group) {
  if (group === "zone") return key || "no zone";
  return key || "no class";
}

const byName = (a, b) => compareNames(a.name, b.name);
const ORDERS = {
  name: byName,
  fullness: (a, b) => (b.fullness ?? -1) - (a.fullness ?? -1) || byName(a, b),
  free: (a, b) => (b.free ?? -1) - (a.free ?? -1) || byName(a, b),
  trouble: (a, b) => badness(b) - badness(a) || byName(a, b),
};

/**
 * What a text is found in: {nodes, claims, others}: nodes by their own name, or because a claim of theirs was found by
 * its key, volume, class or pods. `others` are claims found that are on no node. null for an empty text.
 */
export function searched(facts, text) {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return null;
  const nodes = new Set();
  const claims = new Set();
  const others = new Set();
  for (const name of facts.names()) {
    if (name.toLowerCase().includes(wanted)) nodes.add(name);
  }
  for (const [key, row] of facts.state.volumes) {
    if (!isFound(key, row, wanted)) continue;
    claims.add(key);
    const places = facts.places.get(key);
    if (places === undefined) others.add(key);
    else for (const name of places) if (name) nodes.add(name);
  }
  for (const [key, row] of facts.state.capacities) {
    if (row.nodeCount === 1 && row.storageClass.toLowerCase().includes(wanted)) nodes.add(facts.reaches.get(key));
  }
  return {nodes, claims, others};
}

function isFound(key, row, wanted) {
  if (key.toLowerCase().includes(wanted)) return true;
  if (row.volume?.toLowerCase().includes(wanted)) return true;
  if (row.storageClass?.toLowerCase().includes(wanted)) return true;
  return row.pods?.some(pod => pod.toLowerCase().includes(wanted)) ?? false;
}
