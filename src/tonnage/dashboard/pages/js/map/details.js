// What the details panel says of a node and of a claim.

import {el} from "../dom.js";
import {ago, bytes, clockTime, count, percent} from "../format.js";
import {hrefs} from "../links.js";
import {entriesOf} from "./bars.js";
import {slotsElement} from "./tile.js";
import {keptLines, scaleName, stateWords} from "./words.js";

const MOST = 200;

/** A node: its state, pools with figures, slots, what is kept back for whom, and its claims. */
export function nodeDetails(fact, state, bars, scaleOf, {isLive = true} = {}) {
  const {row} = fact;
  const entries = entriesOf(fact.told);
  return [
    facts([
      ["zone", fact.zone || "none"],
      ["full", fact.fullness === null ? "unknown" : percent(fact.fullness)],
      ["free", fact.free === null ? "unknown" : bytes(fact.free)],
      fact.size !== null && row.pools?.length ? ["size", bytes(fact.size)] : null,
      ["pods", row.pods ?? 0],
    ]),
    row.gone || !isLive ? null : drainLink(row.name),
    signList(fact.signs),
    row.taints?.length ? el("p", {class: "quiet"}, "Taints: ", el("bdi", {}, row.taints.join(", "))) : null,
    section("Pools", bars, scaleWords(fact.bars, scaleOf), whyStale(fact).map(why => el("p", {class: "trouble"}, "stale: ", el("bdi", {}, why)))),
    fact.told.length ? section("Capacity objects", table(["class", "free", "largest volume", "reported"], fact.told.map(capacityCells))) : null,
    entries.length ? section("Kept back", el("ul", {class: "kept-list"}, entries.map(entry => keptItem(entry, isLive)))) : null,
    row.slots?.length ? section("Attach slots", row.slots.map(slotsElement)) : null,
    claimList("On their way here", fact.coming, state),
    claimList("Claims", fact.claims, state),
  ];
}

/** Why figures are stale, each reason once. */
function whyStale({told}) {
  return [...new Set(told.map(([, each]) => each.stale).filter(Boolean))];
}

/** "A full line is 500Gi of fast, 4Ti of bulk; a mark every 100Gi, 1Ti." */
function scaleWords(bars, scaleOf) {
  const scales = [...new Set(bars.map(scaleOf))];
  if (!scales.length) return null;
  const of = scale => (scales.length > 1 ? ` of ${scaleName(scale)}` : "");
  const words = scales.map(scale => `${bytes(scale.full)}${of(scale)}, with a mark every ${bytes(scale.step)}`);
  return el("p", {class: "quiet scale-words"}, "A full line is ", el("bdi", {}, words.join("; ")), ", on every node.");
}

function drainLink(name) {
  return el("p", {class: "object-links"}, el("a", {href: hrefs.drain(name), "data-id": "drain"}, "Preview a drain of this node"), objectLink("nodes", name));
}

function objectLink(table, key) {
  return el("a", {href: hrefs.object(table, key), "data-id": "object"}, "YAML and kubectl commands");
}

function signList(signs) {
  if (!signs.length) return null;
  const why = sign => sign.why && el("span", {}, ": ", el("bdi", {}, sign.why));
  const item = sign => el("li", {class: sign.isTrouble ? "trouble" : ""}, el("b", {}, `${sign.mark} ${sign.word}`), why(sign));
  return el("ul", {class: "sign-list"}, signs.map(item));
}

function capacityCells([, row]) {
  const free = (row.pools ?? []).map(bytes).join(", ") || "unknown";
  return [el("bdi", {class: "name"}, row.storageClass), el("span", {class: "words"}, free), row.largest === undefined ? "" : bytes(row.largest), clockTime(row.toldAt)];
}

/** For whom, since when and why; the pod is a link. */
function keptItem(entry, isLive) {
  const [first, ...rest] = keptLines(entry);
  const lines = rest.map(line => el("p", {class: "quiet"}, el("bdi", {}, line)));
  return el("li", {}, el("p", {}, el("bdi", {}, first)), lines, podLink(entry.pod, isLive));
}

/** A claim: where it is, since when, for whom, and where it goes. */
export function claimDetails(key, row, state, {isLive = true} = {}) {
  const seen = state.nodes.has(row.node ?? "");
  return [
    facts([
      ["state", stateWords(row)],
      ["size", bytes(row.bytes ?? 0)],
      ["class", row.storageClass || "none"],
      row.driver ? ["driver", row.driver] : null,
      row.volume ? ["volume", row.volume] : null,
      row.since ? ["since", `${clockTime(row.since)} (${ago(row.since)})`] : null,
      row.node ? ["node", seen ? opener("node", row.node) : row.node] : null,
      row.target ? ["on its way to", state.nodes.has(row.target) ? opener("node", row.target) : row.target] : null,
      (row.pool ?? -1) >= 0 ? ["pool", row.pool] : null,
      ["attached to", row.attached?.length ? row.attached.join(", ") : "no node"],
      row.attaching?.length ? ["being attached to", row.attaching.join(", ")] : null,
    ]),
    isLive && (row.claim || row.volume) ? el("p", {class: "object-links"}, row.claim ? objectLink("claims", row.claim) : objectLink("volumes", row.volume)) : null,
    row.why ? el("p", {}, el("bdi", {}, row.why)) : null,
    row.terminating ? el("p", {}, "Being deleted.") : null,
    row.error ? el("p", {class: "trouble"}, "Cannot be made: ", el("bdi", {}, row.error)) : null,
    row.attachError ? el("p", {class: "trouble"}, "Cannot be attached: ", el("bdi", {}, row.attachError)) : null,
    row.pods?.length ? podList(row.pods, state, isLive) : el("p", {class: "quiet"}, "No pod uses it."),
  ];
}

function podList(pods, state, isLive) {
  const items = pods.slice(0, MOST).map(pod => el("li", {}, podLink(pod, isLive), podWords(state.pods.get(pod))));
  return section(count(pods.length, "pod"), el("ul", {class: "plain"}, items));
}

function podWords(pod) {
  if (pod === undefined) return "";
  return ` ${[pod.phase ?? "Pending", pod.node ? `on ${pod.node}` : "", pod.terminating ? "terminating" : ""].filter(Boolean).join(", ")}`;
}

function podLink(pod, isLive) {
  if (!isLive) return el("bdi", {}, pod);
  return el("a", {href: hrefs.pod(pod), "data-id": `pod ${pod}`}, el("bdi", {}, pod));
}

function opener(kind, key) {
  return el("button", {type: "button", class: "link", "data-open": kind, "data-key": key, "data-id": `${kind} ${key}`}, el("bdi", {}, key));
}

function claimList(words, keys, state) {
  if (!keys.length) return null;
  const rows = keys.map(key => [key, state.volumes.get(key)]).sort((a, b) => (b[1].bytes ?? 0) - (a[1].bytes ?? 0));
  const shownState = row => (row.state === "bound" ? "bound" : el("span", {class: "words"}, stateWords(row)));
  const cells = ([key, row]) => [opener("claim", key), bytes(row.bytes ?? 0), el("bdi", {class: "name"}, row.storageClass ?? ""), shownState(row)];
  const body = rows.slice(0, MOST).map(cells);
  const more = rows.length > MOST ? el("p", {class: "quiet"}, `and ${rows.length - MOST} smaller ones`) : null;
  return section(`${words} (${rows.length})`, table(["claim", "size", "class", "state"], body), more);
}

function section(words, ...children) {
  return el("section", {}, el("h4", {}, words), children);
}

function facts(pairs) {
  const item = ([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, el("bdi", {}, value)));
  return el("dl", {class: "facts"}, pairs.filter(Boolean).map(item));
}

function table(names, rows) {
  const head = el("tr", {}, names.map(each => el("th", {scope: "col"}, each)));
  const body = rows.map(row => el("tr", {}, row.map(each => el("td", {}, el("bdi", {}, each)))));
  return el("table", {class: "small"}, el("thead", {}, head), el("tbody", {}, body));
}
