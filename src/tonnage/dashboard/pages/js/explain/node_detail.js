// One node's part in an explanation: who refused it and why, how it scored plugin by plugin, and where the bytes of each
// claim would come from, pool by pool.

import {el, replace} from "../dom.js";
import {clockTime} from "../format.js";
import {link, named} from "../links.js";
import {own} from "../own.js";
import {ageOf} from "../since.js";
import {amounts, bytesOf} from "./amounts.js";
import {GRADES} from "./words.js";

const MOST_POOLS = 24;

/** Show a node in `panel`. `weights` are what scores were multiplied by. */
export function showNode(panel, node, claims, {weights, chosen}) {
  if (!node) return replace(panel, el("p", {class: "quiet"}, "Choose a node to see it in full."));
  replace(
    panel,
    el("h3", {class: "detail-name"}, named(node.name), node.name === chosen ? el("span", {class: "badge is-good"}, "★ chosen") : null),
    el("p", {class: "detail-links"}, link("node", node.name, {class: "map-link", "aria-label": `${node.name} on the map`})),
    verdict(node),
    Object.keys(node.scores).length ? scores(node, weights) : null,
    claims?.length ? claims.map(claimPart) : null,
  );
  const toMap = panel.querySelector(".map-link");
  if (toMap) replace(toMap, "on the map");
}

function verdict(node) {
  if (node.passedOver) return el("p", {}, "Fits, and ", el("bdi", {}, node.passedOver));
  if (node.feasible) return el("p", {class: "fits"}, "✓ fits");
  return [
    el("p", {class: "refused"}, "✕ refused by ", el("b", {}, el("bdi", {}, node.rejectedBy || "a filter")), node.unresolvable ? "; preemption would not help" : ""),
    el("ul", {class: "reasons"}, node.reasons.map(reason => el("li", {}, el("bdi", {}, reason)))),
    node.nearestMiss ? el("p", {class: "miss"}, "nearest miss: ", el("bdi", {}, node.nearestMiss)) : null,
    (node.heldBy ?? []).map(holder =>
      el("p", {class: "held"}, "room held for ", link("pod", holder.pod), holder.by ? [" by ", el("bdi", {}, holder.by)] : "", holder.since ? [" since ", clockTime(holder.since)] : ""),
    ),
  ];
}

function scores(node, weights) {
  const most = Math.max(1, ...Object.values(node.scores));
  const rows = Object.entries(node.scores)
    .sort((one, other) => other[1] - one[1])
    .map(([plugin, weighted]) => {
      const weight = own(weights, plugin) ?? 1;
      const bar = el("span", {class: "score-bar", "aria-hidden": "true"});
      bar.style.setProperty("width", `${(100 * weighted) / most}%`);
      return el(
        "tr",
        {},
        el("th", {scope: "row"}, el("bdi", {}, plugin)),
        el("td", {class: "number"}, weight ? weighted / weight : weighted),
        el("td", {class: "number"}, `×${weight}`),
        el("td", {class: "number"}, weighted),
        el("td", {class: "score-cell"}, bar),
      );
    });
  return el(
    "table",
    {class: "scores"},
    el("caption", {}, `Scores: ${node.total} in all`),
    el("thead", {}, el("tr", {}, ["Plugin", "Raw", "Weight", "Weighted"].map(head => el("th", {scope: "col"}, head)), el("td", {}))),
    el("tbody", {}, rows),
  );
}

// -- claims ----------------------------------------------------------------------------------------------------------

function claimPart(claim) {
  const facts = [];
  const fact = (word, ...said) => facts.push(el("div", {}, el("dt", {}, word), el("dd", {}, said)));
  if (claim.size) fact("needs", claim.size);
  if (claim.volume) fact("volume", named(claim.volume));
  if (claim.capacity) fact("of", named(claim.capacity));
  if (claim.capacity === null) fact("of", "no capacity object reaches this node");
  if (claim.capacityGroup) fact("group", named(claim.capacityGroup));
  if (claim.maximumVolumeSize) fact("largest volume", claim.maximumVolumeSize);
  if (claim.poolPolicy) fact("driver takes", named(claim.poolPolicy));
  if (claim.grade) fact("fit", GRADES[claim.grade] ?? claim.grade);
  if (claim.attach) fact("attach slots", `${claim.attach.used} of ${claim.attach.limit ?? "any number"} used`);
  if (claim.reservedBy) fact("reserved", "for ", link("pod", claim.reservedBy.pod) ?? "somebody", ` since ${clockTime(claim.reservedBy.since)}, for `, ageOf(claim.reservedBy.since));
  for (const each of claim.promised ?? []) {
    fact("promised", each.size, " to ", each.pod ? link("pod", each.pod) : named(each.claim), ` since ${clockTime(each.since)}, for `, ageOf(each.since));
  }
  return el(
    "section",
    {class: "claim-part"},
    el("h4", {}, link("claim", claim.claim), el("span", {class: "badge"}, claim.kind)),
    claim.miss ? el("p", {class: "miss"}, "✕ ", el("bdi", {}, claim.miss)) : null,
    claim.pools?.length ? pools(claim) : null,
    el("dl", {class: "fact-list"}, facts),
    claim.badSequence ? badSequence(claim) : null,
  );
}

/** The pools of an object as bars, the largest free one first; what the claim would take of one is marked in it. */
function pools(claim) {
  const most = Math.max(...claim.pools.map(bytesOf), bytesOf(claim.size), 1);
  const taken = claim.takes?.pool;
  const shown = claim.pools.slice(0, MOST_POOLS);
  const list = el("ol", {class: "pool-bars", "aria-label": `Free in pools: ${amounts(claim.pools)}`});
  shown.forEach((free, position) => {
    const bar = el("span", {class: "pool-bar"});
    bar.style.setProperty("width", `${(100 * bytesOf(free)) / most}%`);
    const takes = position === taken && claim.size;
    if (takes) {
      const part = el("span", {class: "pool-take"});
      part.style.setProperty("width", `${Math.min(100, (100 * bytesOf(claim.size)) / Math.max(bytesOf(free), 1))}%`);
      bar.append(part);
    }
    list.append(el("li", {}, el("span", {class: "pool-track"}, bar), el("span", {class: "pool-word"}, takes ? `takes ${claim.size} of ${free}` : `${free} free`)));
  });
  const more = claim.pools.length - shown.length;
  if (more > 0) list.append(el("li", {class: "quiet"}, `and ${more.toLocaleString("en")} more`));
  if (claim.miss && claim.size) {
    const bar = el("span", {class: "pool-bar pool-need"});
    bar.style.setProperty("width", `${(100 * bytesOf(claim.size)) / most}%`);
    list.append(el("li", {}, el("span", {class: "pool-track"}, bar), el("span", {class: "pool-word"}, `needs ${claim.size}`)));
  }
  return list;
}

function badSequence(claim) {
  return el(
    "div",
    {class: "bad-sequence"},
    el("p", {}, "Asked in this order, the driver finds no room:"),
    el(
      "ol",
      {},
      claim.badSequence.map(step =>
        el("li", {}, step.size, step.claim ? [" of ", named(step.claim)] : " promised to another", step.pool ? ` into the pool of ${step.pool}` : " finds no pool"),
      ),
    ),
  );
}
