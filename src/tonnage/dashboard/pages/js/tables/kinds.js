// The tables: what each lists, its columns, and the commands that look at one object.
//
// A column is {head, of, sort?, weight, from?, isNumber?}: `of(row, key)` gives what is shown, a text or an element's words;
// `sort(row, key)` what it is put in order by, when that is not the text. `from` is the width of the window, in rem, from
// which on the column is shown: the first ones stay on a telephone. `trouble(row)` says in words what is wrong, or "".

import {ago, bytes, count, percent} from "../format.js";
import {stateWords} from "../map/words.js";

const age = field => ({head: "Age", of: row => ago(row[field]), sort: row => -(Date.parse(row[field] ?? "") || 0), weight: 1, from: 50});
const size = {head: "Size", of: row => bytes(row.bytes ?? 0), sort: row => row.bytes ?? 0, weight: 1.2, isNumber: true};
const classOf = {head: "Class", of: row => row.storageClass ?? "", weight: 2, from: 60};
const usedBy = {head: "Pods", of: row => (row.pods?.length > 1 ? count(row.pods.length, "pod") : (row.pods?.[0] ?? "")), weight: 3, from: 75};

/** What is wrong with a claim or a volume, in words. */
function volumeTrouble(row) {
  if (row.error) return `cannot be made: ${row.error}`;
  if (row.attachError) return `cannot be attached: ${row.attachError}`;
  return row.state === "lost" ? "lost" : "";
}

const shortState = row => volumeTrouble(row) || (row.terminating ? "Terminating" : row.state === "moving" ? stateWords(row) : (row.state ?? "waiting"));

const PODS = {gated: "gated", waiting: "Pending", decided: "decided", bound: "starting", running: "Running", succeeded: "Succeeded", failed: "Failed", terminating: "Terminating"};

/** Tables by the name that the address has for them. */
export const TABLES = {
  nodes: {
    title: "Nodes",
    resource: "nodes",
    from: ["nodes"],
    rows: state => [...state.nodes],
    trouble: (row, key, facts) => facts.of(key)?.signs.filter(sign => sign.isTrouble).map(sign => sign.word).join(", ") ?? "",
    columns: [
      {head: "Name", of: (row, key) => key, weight: 4},
      {head: "State", of: (row, key, facts) => nodeState(facts.of(key)), weight: 3},
      {head: "Full", of: (row, key, facts) => percent(facts.of(key)?.fullness), sort: (row, key, facts) => facts.of(key)?.fullness ?? -1, weight: 1, isNumber: true},
      {head: "Free", of: (row, key, facts) => bytes(facts.of(key)?.free), sort: (row, key, facts) => facts.of(key)?.free ?? -1, weight: 1.3, isNumber: true, from: 40},
      {head: "Zone", of: row => row.zone ?? "", weight: 2, from: 50},
      {head: "Claims", of: (row, key, facts) => facts.of(key)?.claims.length ?? 0, weight: 1, isNumber: true, from: 60},
      {head: "Pods", of: row => row.pods ?? 0, weight: 1, isNumber: true, from: 60},
    ],
    commands: (key, row) => [
      ["kubectl", "describe", "node", key],
      ["kubectl", "get", "pods", "-A", "-o", "wide", "--field-selector", `spec.nodeName=${key}`],
      ["kubectl", "get", "csinode", key, "-o", "yaml"],
      ["kubectl", row?.cordoned ? "uncordon" : "cordon", key],
    ],
  },
  claims: {
    title: "Claims",
    resource: "persistentvolumeclaims",
    from: ["volumes"],
    rows: state => [...state.volumes].filter(([, row]) => row.claim).map(([, row]) => [row.claim, row]),
    trouble: volumeTrouble,
    columns: [
      {head: "Name", of: (row, key) => key, weight: 4},
      {head: "State", of: shortState, weight: 3},
      size,
      {head: "Node", of: row => row.node ?? "", weight: 2.5, from: 40},
      classOf,
      usedBy,
      {head: "Volume", of: row => row.volume ?? "", weight: 3, from: 90},
      age("since"),
    ],
    commands: (key, row) => [
      ["kubectl", "describe", "pvc", ...named(key)],
      ["kubectl", "get", "events", ...inNamespace(key), "--field-selector", `involvedObject.name=${nameOf(key)}`],
      ...(row?.volume ? [["kubectl", "describe", "pv", row.volume]] : []),
    ],
  },
  volumes: {
    title: "Volumes",
    resource: "persistentvolumes",
    from: ["volumes"],
    rows: state => [...state.volumes.values()].filter(row => row.volume).map(row => [row.volume, row]),
    trouble: volumeTrouble,
    columns: [
      {head: "Name", of: (row, key) => key, weight: 4},
      {head: "State", of: shortState, weight: 3},
      size,
      {head: "Node", of: row => row.node || (row.zones ?? row.nodes ?? []).join(", "), weight: 2.5, from: 40},
      {head: "Claim", of: row => row.claim ?? "", weight: 3, from: 50},
      classOf,
      {head: "Driver", of: row => row.driver ?? "", weight: 2.5, from: 90},
      {head: "Attached to", of: row => (row.attached ?? []).join(", "), weight: 2.5, from: 75},
    ],
    commands: (key, row) => [
      ["kubectl", "describe", "pv", key],
      ["kubectl", "get", "volumeattachments", "-o", `custom-columns=NAME:.metadata.name,VOLUME:.spec.source.persistentVolumeName,NODE:.spec.nodeName,ATTACHED:.status.attached`],
      ...(row?.claim ? [["kubectl", "describe", "pvc", ...named(row.claim)]] : []),
    ],
  },
  pods: {
    title: "Pods",
    resource: "pods",
    from: ["pods"],
    rows: state => [...state.pods],
    trouble: ({state = "waiting"}) => (["waiting", "gated", "failed", "terminating"].includes(state) ? PODS[state] : ""),
    columns: [
      {head: "Name", of: (row, key) => key, weight: 4},
      {head: "State", of: row => PODS[row.state ?? "waiting"] ?? row.state, weight: 1.6},
      {head: "Node", of: row => row.node || row.nominated || "", weight: 2, from: 30},
      {head: "Claims", of: row => (row.claims?.length > 1 ? count(row.claims.length, "claim") : nameOf(row.claims?.[0] ?? "")), sort: row => row.claims?.length ?? 0, weight: 2.5, from: 60},
      {head: "Workload", of: row => row.workload ?? "", weight: 3, from: 75},
      {head: "Message", of: row => row.message ?? "", weight: 4, from: 60},
      age("created"),
    ],
    commands: (key, row, {isEmbedded}) => [
      ["kubectl", "describe", "pod", ...named(key)],
      ["kubectl", "get", "events", ...inNamespace(key), "--field-selector", `involvedObject.name=${nameOf(key)}`],
      ...(row?.node && !isEmbedded ? [["kubectl", "logs", ...named(key), "--all-containers", "--tail=100"]] : []), // nodes of `tonnage up` run no containers
      ["tonnage", "explain", "--pod", key],
    ],
  },
};

function nodeState(fact) {
  if (!fact) return "";
  return fact.signs.filter(sign => sign.kind !== "kept" && sign.kind !== "moving").map(sign => sign.word).join(", ") || "Ready";
}

const nameOf = key => key.slice(key.indexOf("/") + 1);
const inNamespace = key => ["-n", key.slice(0, key.indexOf("/"))];
const named = key => [...inNamespace(key), nameOf(key)];

/** A command as a shell takes it: what is more than letters, digits and some signs stands in quotes. */
export function shellWords(words) {
  return words.map(word => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`)).join(" ");
}
