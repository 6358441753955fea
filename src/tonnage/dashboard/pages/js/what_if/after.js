// A cluster as it would be: a copy of a State in which an answer's moves have happened. Pure; the map shows it.
//
//   const {state: after, marks} = afterDrain(state, answer);       // answer of /api/v1/drain-preview
//   const {state: after, marks} = afterFit(state, answer);         // answer of /api/v1/fit
//
// `marks` is what the map marks: {nodes: Map of words by node, claims: Map of words by key, moves: [{key, from, to}]}.

import {COLLECTIONS, State} from "../state.js";

/** A State with the same rows, that nobody changes. */
export function copyOf(state) {
  const copy = new State();
  copy.revision = state.revision;
  for (const name of COLLECTIONS) copy[name] = new Map(state[name]);
  return copy;
}

/** The cluster after a drain. Nodes that are drained one after the other are back in use by then. */
export function afterDrain(state, answer) {
  const after = copyOf(state);
  const marks = {nodes: new Map(), claims: new Map(), moves: []};
  const counts = new Map();
  for (const name of answer.drained) {
    change(after.nodes, name, {cordoned: answer.oneByOne ? after.nodes.get(name)?.cordoned : true});
    marks.nodes.set(name, "drained");
  }
  for (const move of [...answer.moves, ...answer.preempted]) {
    const [namespace] = move.pod.split("/");
    change(after.pods, move.pod, {node: move.to, nominated: ""});
    countPods(after, move.from, move.to);
    for (const volume of move.volumes) {
      const key = `${namespace}/${volume.claim}`;
      if (volume.action === "rebuild") rebuilt(after, key, move.to);
      else if (volume.action === "reattach") reattached(after, key, move.to);
      if (volume.action === "stays") continue;
      marks.claims.set(key, volume.action === "rebuild" ? "rebuilt here" : "reattached");
      marks.moves.push({key, from: state.volumes.get(key)?.node || move.from, to: move.to});
    }
    counts.set(move.to, (counts.get(move.to) ?? 0) + 1);
  }
  for (const [node, number] of counts) {
    const come = number === 1 ? "1 pod comes" : `${number} pods come`;
    marks.nodes.set(node, marks.nodes.has(node) ? `${marks.nodes.get(node)}, ${come}` : come);
  }
  for (const stuck of answer.stuck) {
    if (stuck.evicted && !stuck.comesBack) {
      change(after.pods, stuck.pod, {node: "", phase: "Pending", message: stuck.message});
      countPods(after, stuck.from, "");
    }
  }
  for (const lost of answer.lost) {
    after.pods.delete(lost.pod);
    countPods(after, lost.from, "");
  }
  tellDisks(after, answer.disksAfter);
  return {state: after, marks};
}

/** The cluster with the replicas that fit. */
export function afterFit(state, answer) {
  const after = copyOf(state);
  const marks = {nodes: new Map(), claims: new Map(), moves: []};
  for (const [node, number] of Object.entries(answer.byNode)) {
    marks.nodes.set(node, `+${number}`);
    const row = after.nodes.get(node);
    if (row) after.nodes.set(node, {...row, pods: (row.pods ?? 0) + number});
  }
  tellDisks(after, answer.disks.map(lessPromised));
  for (const disk of answer.disks) {
    const row = onlyNode(after, disk);
    for (const volume of disk.volumes) {
      if (!volume.promised || !volume.claim || !row || state.volumes.has(volume.claim)) continue;
      marks.claims.set(volume.claim, "would be made here");
      after.volumes.set(volume.claim, {claim: volume.claim, storageClass: disk.classes[0], bytes: volume.bytes, state: "making", node: row.name});
      intoPool(after, row.name, volume.claim, volume.bytes);
    }
  }
  return {state: after, marks};
}

function change(rows, key, fields) {
  const row = rows.get(key);
  if (row !== undefined) rows.set(key, {...row, ...fields});
}

function countPods(after, from, to) {
  const less = after.nodes.get(from);
  if (less) after.nodes.set(from, {...less, pods: Math.max(0, (less.pods ?? 0) - 1)});
  const more = after.nodes.get(to);
  if (more) after.nodes.set(to, {...more, pods: (more.pods ?? 0) + 1});
}

/** The volume is made anew where its pod goes. */
function rebuilt(after, key, to) {
  const row = after.volumes.get(key);
  if (row === undefined || row.node === to) return;
  outOfPool(after, row.node, key, row.bytes ?? 0);
  intoPool(after, to, key, row.bytes ?? 0);
  reattached(after, key, to);
  after.volumes.set(key, {...after.volumes.get(key), node: to, target: "", state: "bound"});
}

function reattached(after, key, to) {
  const row = after.volumes.get(key);
  if (row === undefined) return;
  for (const node of row.attached ?? []) countSlot(after, node, row.driver, -1);
  countSlot(after, to, row.driver, 1);
  after.volumes.set(key, {...row, attached: [to]});
}

function countSlot(after, node, driver, difference) {
  const row = after.nodes.get(node);
  if (!row?.slots) return;
  after.nodes.set(node, {...row, slots: row.slots.map(each => (each.driver === driver ? {...each, used: Math.max(0, (each.used ?? 0) + difference)} : each))});
}

function outOfPool(after, node, key, bytes) {
  const row = after.nodes.get(node);
  if (!row?.pools) return;
  const pools = row.pools.map(pool =>
    pool.volumes?.includes(key) ? {...pool, free: (pool.free ?? 0) + bytes, volumes: pool.volumes.filter(each => each !== key)} : pool,
  );
  after.nodes.set(node, {...row, pools});
}

/** Into the smallest pool that holds it: which one the driver takes is its choice, and this is one way. */
function intoPool(after, node, key, bytes) {
  const row = after.nodes.get(node);
  if (!row?.pools?.length) return;
  const fitting = row.pools.filter(pool => (pool.free ?? 0) >= bytes).sort((a, b) => (a.free ?? 0) - (b.free ?? 0));
  const chosen = fitting[0] ?? [...row.pools].sort((a, b) => (b.free ?? 0) - (a.free ?? 0))[0];
  const pools = row.pools.map(pool => (pool === chosen ? {...pool, free: Math.max(0, (pool.free ?? 0) - bytes), volumes: [...(pool.volumes ?? []), key]} : pool));
  after.nodes.set(node, {...row, pools});
}

/** What is free then, as the rehearsed driver would publish it; where pools are seen from inside, as they would be. */
function tellDisks(after, disks) {
  for (const disk of disks) {
    for (const key of disk.objects) {
      const row = after.capacities.get(key);
      if (row === undefined) continue;
      const seen = row.nodeCount === 1 ? after.nodes.get(row.nodes[0])?.pools : undefined;
      const told = row.tellsPools && seen?.length === row.pools.length ? seen.map(pool => pool.free ?? 0) : undefined;
      const free = sum(told ?? disk.freeBytes);
      const pools = told ?? (row.tellsPools ? inOrderOf(row.pools, disk.freeBytes) : [free]);
      const next = {...row, pools};
      if (row.capacity !== undefined) next.capacity = free;
      if (row.tellsPools && row.largest === Math.max(...row.pools)) next.largest = Math.max(...pools);
      if (row.left !== undefined) next.left = leftOf(row, free);
      after.capacities.set(key, next);
    }
  }
}

function sum(numbers) {
  return numbers.reduce((all, each) => all + each, 0);
}

/** Free bytes in the order in which the object tells its pools: an answer has the largest first. */
function inOrderOf(before, free) {
  if (before.length !== free.length) return [...free];
  const places = before.map((each, index) => [each, index]).sort((a, b) => b[0] - a[0] || a[1] - b[1]);
  const ordered = [...free].sort((a, b) => b - a);
  const found = [];
  places.forEach(([, index], rank) => (found[index] = ordered[rank]));
  return found;
}

function leftOf(row, free) {
  const reserved = row.reserved ?? [];
  if (reserved.some(each => each.mode === "Object")) return 0;
  return Math.max(0, free - sum(reserved.map(each => each.bytes ?? 0)));
}

/** A disk when what is promised of it has been made. */
function lessPromised(disk) {
  const freeBytes = [...disk.freeBytes];
  for (const volume of disk.volumes) {
    if (!volume.promised) continue;
    // Where no way is known in which all of it fits, it comes out of the largest.
    const pool = volume.pool ?? freeBytes.indexOf(Math.max(...freeBytes));
    if (pool in freeBytes) freeBytes[pool] = Math.max(0, freeBytes[pool] - volume.bytes);
  }
  return {...disk, freeBytes};
}

/** The row of the one node that a disk is on; undefined for storage that several nodes reach. */
function onlyNode(after, disk) {
  for (const key of disk.objects) {
    const row = after.capacities.get(key);
    if (row?.nodeCount === 1) return after.nodes.get(row.nodes[0]);
  }
  return after.nodes.get(disk.where);
}
