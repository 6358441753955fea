// What the nodes have for a pod's claims, pool by pool: nodes that offer the same stand in one line, however their
// capacity objects are called.

import {el} from "../dom.js";
import {count} from "../format.js";
import {clockTime} from "../format.js";
import {link, named} from "../links.js";
import {wide} from "../table.js";
import {amounts} from "./amounts.js";

const MOST = 20;
const MOST_NODES = 3;
const HEADS = ["Claim", "Kind", "Pools", "Needs", "Verdict", "Reserved", "Slots"];

/** The section, or null for a pod without claims. */
export function offersSection(told, onChoose) {
  const groups = grouped(told.answer.volumes);
  if (!groups.length) return null;
  const rows = [];
  for (const group of groups.slice(0, MOST)) {
    group.claims.forEach((claim, number) => {
      const cells = cellsOf(claim);
      rows.push(
        el(
          "tr",
          {},
          [link("claim", claim.claim), ...cells].map((cell, at) => el("td", {"data-head": HEADS[at]}, cell)),
          number ? null : el("td", {rowspan: group.claims.length, "data-head": "Nodes"}, nodesOf(group.nodes, onChoose)),
        ),
      );
    });
  }
  const hidden = groups.slice(MOST).reduce((sum, group) => sum + group.nodes.length, 0);
  return el(
    "section",
    {class: "offers"},
    el("h3", {}, "Storage, pool by pool"),
    wide("Storage, pool by pool", [...HEADS, "Nodes"], rows),
    hidden ? el("p", {class: "quiet"}, `and ${count(hidden, "more node that differs", "more nodes that differ")} from these`) : null,
  );
}

function grouped(volumes) {
  const found = new Map();
  for (const [node, claims] of Object.entries(volumes)) {
    const key = JSON.stringify(claims.map(({capacity, volume, ...rest}) => rest));
    if (!found.has(key)) found.set(key, {claims, nodes: []});
    found.get(key).nodes.push(node);
  }
  return [...found.values()].sort((one, other) => other.nodes.length - one.nodes.length);
}

function cellsOf(claim) {
  const pools = claim.pools ?? [];
  const limit = claim.maximumVolumeSize ? `volumes up to ${claim.maximumVolumeSize}` : "";
  const taken = claim.takes ? `${claim.size} of ${pools[claim.takes.pool]}` : claim.size ?? "";
  const held = claim.reservedBy
    ? ["by ", link("pod", claim.reservedBy.pod) ?? "somebody", ` since ${clockTime(claim.reservedBy.since)}`]
    : (claim.promised ?? []).map((each, number) => [number ? ", " : "", `${each.size} promised to `, each.pod ? link("pod", each.pod) : named(each.claim)]);
  const slots = claim.attach ? `${claim.attach.used}/${claim.attach.limit ?? "∞"}` : "";
  return [claim.kind, [amounts(pools), limit].filter(Boolean).join(", "), taken, claim.grade ?? "", held, slots];
}

function nodesOf(nodes, onChoose) {
  const shown = nodes.slice(0, MOST_NODES).map(name => el("button", {class: "node-name", onclick: () => onChoose(name)}, el("bdi", {}, name)));
  return [shown, nodes.length > MOST_NODES ? ` and ${(nodes.length - MOST_NODES).toLocaleString("en")} more` : ""];
}
