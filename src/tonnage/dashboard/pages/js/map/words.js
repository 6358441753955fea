// What the map says in words: labels for screen readers, and the lines of tooltips. Plain text only.

import {ago, bytes, clockTime, count, percent} from "../format.js";

/** "node-1, zone a, 42 % full, 12Gi free; cordoned: it takes no new pods" */
export function nodeLabel(fact, mark = "") {
  const full = fact.fullness === null ? "fullness not known" : `${percent(fact.fullness)} full, ${bytes(fact.free)} free`;
  const signs = fact.signs.map(sign => (sign.why ? `${sign.word}: ${sign.why}` : sign.word));
  const what = `${fact.name}, ${fact.zone ? `zone ${fact.zone}` : "no zone"}, ${full}, ${count(fact.claims.length, "claim")}`;
  return [what, mark, ...signs].filter(Boolean).join("; ");
}

/** A row of the overview in one sentence. */
export function rowLabel(names, facts) {
  const known = names.map(name => facts.of(name));
  const told = known.filter(fact => fact.fullness !== null);
  const mean = told.length ? told.reduce((sum, fact) => sum + fact.fullness, 0) / told.length : null;
  const troubled = known.filter(fact => fact.signs.some(sign => sign.isTrouble));
  const named = troubled.slice(0, 5).map(fact => `${fact.name} ${fact.signs[0].word}`);
  const rest = troubled.length > named.length ? [`and ${troubled.length - named.length} more`] : [];
  const range = names.length > 1 ? `${names[0]} to ${names.at(-1)}` : names[0];
  const trouble = troubled.length ? `; trouble: ${[...named, ...rest].join(", ")}` : "; no trouble";
  return `${count(names.length, "node")}, ${range}, ${mean === null ? "fullness not known" : `${percent(mean)} full on average`}${trouble}`;
}

/** What a segment is, line by line; `volumes` is the state's map. */
export function segmentLines(segment, volumes) {
  if (segment.kind === "kept") return keptLines(segment.entry);
  if (segment.kind === "other") return [`${bytes(segment.bytes)} without a claim`, "snapshots, and contents without a record"];
  if (segment.kind === "small") return [`${count(segment.count, "small claim")}, ${bytes(segment.bytes)} together`];
  const row = volumes.get(segment.key);
  const lines = row === undefined ? [segment.key] : claimLines(segment.key, row);
  return segment.entry ? [...lines, ...keptLines(segment.entry)] : lines;
}

/** Who has room kept back, since when and why. */
export function keptLines(entry) {
  const what = entry.mode === "Object" ? "the whole object is reserved" : `${bytes(entry.bytes ?? 0)} kept back`;
  return [
    `${what} for pod ${entry.pod}`,
    entry.mode === "Object" && entry.bytes ? `it asked for ${bytes(entry.bytes)}` : "",
    entry.storageClass ? `of class ${entry.storageClass}, which has the same pools` : "",
    entry.claims?.length ? `claims: ${entry.claims.join(", ")}` : "",
    `since ${clockTime(entry.since)} (${ago(entry.since)})`,
    entry.why ?? "",
  ].filter(Boolean);
}

/** A claim, line by line. */
function claimLines(key, row) {
  return [
    `${row.claim || row.volume || key}, ${bytes(row.bytes ?? 0)}`,
    row.storageClass ? `class ${row.storageClass}` : "",
    stateWords(row),
    row.why ?? "",
    row.error ? `cannot be made: ${row.error}` : "",
    row.attachError ? `cannot be attached: ${row.attachError}` : "",
    row.terminating ? "being deleted" : "",
    row.pods?.length ? `pods: ${row.pods.slice(0, 5).join(", ")}${row.pods.length > 5 ? ", …" : ""}` : "",
  ].filter(Boolean);
}

/** "on its way from node-1 to node-2", "bound", … */
export function stateWords(row) {
  switch (row.state ?? "waiting") {
    case "moving":
      if (row.node && row.node === row.target) return `has arrived on ${row.node}; its node affinity is not set yet`;
      return `on its way${row.node ? ` from ${row.node}` : ""} to ${row.target ?? "another node"}`;
    case "making":
      return row.node ? `being made on ${row.node}` : "being made";
    case "waiting":
      return "waiting for a node";
    case "released":
      return "released: no claim has it any more";
    case "available":
      return "available: any claim may have it";
    case "lost":
      return "lost: its volume is gone";
    default:
      return row.node ? `on ${row.node}` : `bound; ${reachWords(row)}`;
  }
}

/** Who reaches a volume that is on no one node. */
function reachWords(row) {
  if (row.zones?.length) return `reached from ${row.zones.length === 1 ? "zone" : "zones"} ${row.zones.join(", ")}`;
  if (row.nodes?.length) return `reached from ${row.nodes.join(", ")}`;
  return "not on one node";
}

/** What a bar is: "pool 0: 60Gi of 100Gi free". */
export function barWords(bar) {
  if (bar.kind === "pool" && !bar.total) return `${bar.label}: its driver does not serve the node any more`;
  if (bar.kind === "pool") return `${bar.label}: ${bytes(bar.free)} of ${bytes(bar.total)} free`;
  if (bar.kind === "free") return `${bar.label}: ${bytes(bar.free)}${bar.total > bar.free ? ` of ${bytes(bar.total)}` : ""} free`;
  return `${bar.label}: ${bytes(bar.size)}`;
}

/** Bars that are not drawn: "2 more pools, 120Gi free". */
export function moreWords(bars) {
  const free = bars.reduce((sum, bar) => sum + (bar.free ?? 0), 0);
  return `${count(bars.length, "more pool", "more pools")}, ${bytes(free)} free`;
}

/** What a scale is of: its classes, or the pools of a driver that shows them. */
export function scaleName(scale) {
  return scale.classes.join(", ") || "no class";
}

/** A bar, line by line. */
export function barLines(bar) {
  return [barWords(bar), bar.toldAt ? `reported ${ago(bar.toldAt)} ago` : "", bar.stale ? `stale: ${bar.stale}` : ""].filter(Boolean);
}

/** What stands on a block, as far as there is room. */
export function nameOn(segment) {
  if (segment.kind === "kept") return `◇ ${segment.entry.pod}`;
  if (segment.kind === "other") return "other";
  if (segment.kind === "small") return `${segment.count} small`;
  const arrow = segment.kind === "leaving" ? "→ " : segment.kind === "coming" ? "← " : "";
  return `${arrow}${segment.key.slice(segment.key.indexOf("/") + 1)}`;
}
