// What is drawn of one node, as numbers: bars, and segments in them from byte to byte. Pure; drawn by paint.js and tile.js.
//
// A bar is {kind, label, of, size, free, segments, stale, toldAt}:
//   pool     a pool seen from inside: claims, what else is in it, what is kept back, and free room
//   claims   the node's claims of a class side by side, where nobody tells in which of several pools they lie
//   free     free room as a capacity object tells it; behind the claims of its class, where it tells one number
//   kept     room that is kept back or on its way, where nobody tells of which pool
//
// A segment is {kind, from, bytes, key?, entry?, count?}; `from` is where it begins, in bytes:
//   claim     `key` of a volume                     leaving   the same, and it is on its way to another node
//   making    a claim whose volume is being made    coming    a volume on its way to this node
//   other     bytes that no claim names             kept      kept back for a pod: `entry` says for whom and since when
//   small     `count` claims too small to be drawn one by one
//
// `size` is a pool's size, or more where more is written down than it has. `of` says by which scale the bar is drawn
// (scale.js): its class, or POOLS.

import {isInPools, POOLS} from "./scale.js";

/** A node's storage, {row, claims, coming, told}, in parts: what its pools show, and what other drivers have there. */
export function partsOf(whole, {classes, volumes}) {
  if (!whole.row.pools?.length) return [whole];
  const part = (row, isPool) => {
    const isOfPart = driver => isInPools(whole.row, driver) === isPool;
    const isClaimOf = key => isOfPart(volumes.get(key).driver);
    const isToldOf = ([, each]) => isOfPart(classes.get(each.storageClass)?.driver);
    return {row, claims: whole.claims.filter(isClaimOf), coming: whole.coming.filter(isClaimOf), told: whole.told.filter(isToldOf)};
  };
  return [part(whole.row, true), part({...whole.row, pools: []}, false)];
}

/** Bars of a node. `volumes` is the state's map; `told` are the capacity objects of this node alone, [key, row]. */
export function barsOf(row, {claims, coming, told, volumes}) {
  const entries = entriesOf(told);
  const promised = new Map(entries.flatMap(entry => (entry.claims ?? []).map(key => [key, entry])));
  const listed = new Set((row.pools ?? []).flatMap(keysOf));
  const ghosts = [
    ...claims.filter(key => volumes.get(key).state === "making" && !promised.has(key) && !listed.has(key)).map(key => ghost("making", key, volumes)),
    ...coming.filter(key => !listed.has(key)).map(key => ghost("coming", key, volumes, promised.get(key))),
  ];
  const unlisted = [];
  const bars = row.pools?.length ? insideBars(row, claims, volumes, told, unlisted) : outsideBars(claims, told, volumes);
  // Where a node has one pool it is clear where such room is taken from; else it is drawn beside the pools.
  const rooms = bars.filter(bar => bar.kind === "pool" || bar.kind === "free");
  const homeless = unlisted.map(key => blockOf(key, volumes, row.name));
  const home = (segment, some) => (some.length === 1 ? put(some[0], segment) : homeless.push(segment));
  for (const segment of ghosts) {
    const own = segment.kind === "making" && row.pools?.length ? rooms[volumes.get(segment.key).pool ?? -1] : undefined;
    home(segment, own ? [own] : rooms);
  }
  for (const entry of entries) {
    const some = rooms.filter(bar => bar.kind === "pool" || bar.capacity === entry.capacity);
    if (entry.mode === "Object") putWhole(some, entry);
    const bytes = stillKept(entry, key => listed.has(key) || coming.includes(key), volumes);
    if (bytes > 0 && (entry.mode !== "Object" || !some.length)) home({kind: "kept", bytes, entry}, some);
  }
  if (homeless.length) {
    const of = row.pools?.length ? POOLS : classOf(homeless[0], told, volumes);
    const bar = {kind: "kept", label: "pool unknown", of, size: 0, free: null, segments: []};
    for (const segment of homeless) put(bar, segment);
    bars.push(bar);
  }
  return bars;
}

function classOf(segment, told, volumes) {
  if (segment.key !== undefined) return volumes.get(segment.key)?.storageClass ?? "";
  return told.find(([key]) => key === segment.entry.capacity)?.[1].storageClass ?? "";
}

/** Bytes of what is kept back that are not drawn as a claim's block already: what lies in its pool takes no more room,
 * though the scheduler keeps it until the capacity object is told anew. */
export function stillKept(entry, isDrawn, volumes) {
  const drawn = (entry.claims ?? []).filter(isDrawn).reduce((sum, key) => sum + (volumes.get(key)?.bytes ?? 0), 0);
  return Math.max(0, (entry.bytes ?? 0) - drawn);
}

/** Mode Object keeps the whole object back, however little was asked for: nobody else is given its room meanwhile. */
function putWhole(bars, entry) {
  for (const bar of bars) {
    const last = bar.segments.at(-1);
    const bytes = bar.size - (last ? last.from + last.bytes : 0);
    if (bytes > 0) put(bar, {kind: "kept", bytes, entry});
  }
}

/** Keys of the volumes in a pool, or being rebuilt into it. */
export function keysOf(pool) {
  return [...(pool.volumes ?? []), ...(pool.arriving ?? [])];
}

/**
 * What is kept back of some capacity objects, each promise once: classes of one capacity group share their pools, and
 * what is promised of one is kept back of the objects of all (`storageClass` is set in those of the others). What is kept
 * back as a whole stays with every object that is.
 */
export function entriesOf(told) {
  const all = told.flatMap(([key, each]) => (each.reserved ?? []).map(entry => ({capacity: key, ...entry})));
  const toldBy = new Map(); // a promise → the object that tells it first, as its own if any does
  for (const entry of [...all.filter(each => !each.storageClass), ...all]) {
    if (!toldBy.has(idOf(entry))) toldBy.set(idOf(entry), entry.capacity);
  }
  return all.filter(entry => entry.mode === "Object" || toldBy.get(idOf(entry)) === entry.capacity);
}

function idOf(entry) {
  return `${entry.mode} ${entry.pod} ${(entry.claims ?? []).join()}`;
}

/** Bars of a capacity object that several nodes share, with the claims of its class that are on no one node. */
export function sharedBars(row, claims, volumes) {
  const bars = outsideBars(claims, [["", row]], volumes);
  const rooms = bars.filter(bar => bar.kind === "free");
  for (const entry of entriesOf([["", row]])) {
    if (entry.mode === "Object") putWhole(rooms, entry);
    else if (rooms.length) put(rooms[0], {kind: "kept", bytes: entry.bytes ?? 0, entry});
  }
  return bars;
}

function ghost(kind, key, volumes, entry) {
  return {kind, key, bytes: volumes.get(key).bytes ?? 0, ...(entry && {entry})};
}

/** Put a segment behind those that are there. Room that is kept back is still told as free: it is drawn over that. */
function put(bar, segment) {
  const last = bar.segments.at(-1);
  segment.from = last ? last.from + last.bytes : 0;
  bar.segments.push(segment);
  bar.size = Math.max(bar.size, segment.from + segment.bytes);
}

/** The block of a claim on a node: one that is on its way leaves it, or is made there already. */
function blockOf(key, volumes, node) {
  const volume = volumes.get(key);
  const isComing = volume.target === node && node !== undefined;
  const kind = volume.state === "moving" ? (isComing ? "coming" : "leaving") : volume.state === "making" ? "making" : "claim";
  return {kind, key, bytes: volume.bytes ?? 0};
}

/** Claims of the node that are in no pool's list, such as those of a plan, are put where their row says, or into `unlisted`. */
function insideBars(row, claims, volumes, told, unlisted) {
  const listed = row.pools.map(pool => keysOf(pool));
  const known = new Set(listed.flat());
  for (const key of claims) {
    const volume = volumes.get(key);
    if (known.has(key) || volume.state === "making") continue;
    const home = row.pools.length === 1 ? 0 : (volume.pool ?? -1);
    (listed[home] ?? unlisted).push(key);
  }

  const stale = told.map(([, each]) => each.stale).find(Boolean) ?? "";
  const toldAt = told.map(([, each]) => each.toldAt).find(Boolean);
  return row.pools.map((pool, index) => {
    const free = pool.free ?? 0;
    const total = pool.size ?? 0;
    const label = row.pools.length > 1 ? `pool ${index}` : "pool";
    const bar = {kind: "pool", label, of: POOLS, size: total, total, free, segments: [], stale, toldAt};
    let named = 0;
    for (const key of inOrder(listed[index], volumes)) {
      const block = blockOf(key, volumes, row.name);
      named += block.bytes;
      put(bar, block);
    }
    // What is not free and that no row names: snapshots, contents without a record, a volume that is just being told.
    const other = Math.max(pool.other ?? 0, bar.total - free - named);
    bar.snapshots = pool.snapshots ?? 0;
    if (other > 0) put(bar, {kind: "other", bytes: other});
    return bar;
  });
}

/** Bars class by class. Where a class has one number on the node, its claims and its free room are one bar: they make up
 * the pool. */
function outsideBars(claims, told, volumes) {
  const here = inOrder(claims, volumes).filter(key => volumes.get(key).state !== "making");
  const nameOf = key => volumes.get(key).storageClass ?? "";
  const names = [...new Set([...here.map(nameOf), ...told.map(([, each]) => each.storageClass)])].sort();
  return names.flatMap(name => {
    const blocks = here.filter(key => nameOf(key) === name).map(key => blockOf(key, volumes));
    const free = told.filter(([, each]) => each.storageClass === name).flatMap(freeBars);
    const claimed = {kind: "claims", label: `${name || "no class"}: claims`, of: name, size: 0, free: null, segments: []};
    const [into, rest] = free.length === 1 ? [free[0], []] : [claimed, free];
    const room = into.size;
    for (const block of blocks) put(into, block);
    if (into !== claimed) into.size = into.total = room + blocks.reduce((sum, block) => sum + block.bytes, 0);
    return blocks.length || into !== claimed ? [into, ...rest] : rest;
  });
}

function freeBars([key, row]) {
  const pools = row.pools ?? [];
  return pools.map((free, index) => {
    const label = pools.length > 1 ? `${row.storageClass} ${index}` : row.storageClass;
    return {kind: "free", label, of: row.storageClass, size: free, free, segments: [], capacity: key, stale: row.stale ?? "", toldAt: row.toldAt};
  });
}

/** Claims by class and key, so that a block keeps its place while others come and go. */
function inOrder(keys, volumes) {
  const known = [...keys].filter(key => volumes.has(key));
  const nameOf = key => `${volumes.get(key).storageClass ?? ""}\u0000${key}`;
  return known.map(key => [nameOf(key), key]).sort((a, b) => (a[0] < b[0] ? -1 : 1)).map(([, key]) => key);
}

/** The same bar with neighbours that are smaller than `least` bytes drawn as one. */
export function withoutSlivers(bar, least) {
  const segments = [];
  for (const each of bar.segments) {
    const last = segments.at(-1);
    const isSmall = each.bytes < least && (each.kind === "claim" || each.kind === "leaving");
    if (isSmall && last?.kind === "small" && last.bytes < 4 * least) {
      last.bytes += each.bytes;
      last.keys.push(each.key);
      last.count += 1;
    } else if (isSmall) {
      segments.push({kind: "small", from: each.from, bytes: each.bytes, keys: [each.key], count: 1});
    } else {
      segments.push(each);
    }
  }
  const alone = each => each.kind === "small" && each.count === 1;
  return {...bar, segments: segments.map(each => (alone(each) ? bar.segments.find(one => one.key === each.keys[0]) : each))};
}

const MOST_BARS = 12;

/** The bars that a node draws, and those that it only counts. */
export function cutBars(bars) {
  return bars.length <= MOST_BARS ? {drawn: bars, more: []} : {drawn: bars.slice(0, MOST_BARS - 1), more: bars.slice(MOST_BARS - 1)};
}
