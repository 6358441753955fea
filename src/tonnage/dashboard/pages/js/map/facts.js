// What the map knows of each node, from the rows of a State, kept up to date row by row.
//
//   const facts = new Facts(state);
//   const touched = facts.update(changed);      // as State tells it: {nodes: Set, isArranged, isLoose}
//   facts.of("node-1")                          // {name, row, zone, bars, size, used, free, kept, fullness, signs, …}
//
// A node's facts are worked out when they are asked for, and kept until a row that they come from changes.

import {barsOf, entriesOf, keysOf, partsOf, stillKept} from "./bars.js";
import {signsOf} from "./signs.js";

export class Facts {
  constructor(state) {
    this.state = state;
    this.rebuild();
  }

  /** Everything anew, from the state as it is. */
  rebuild() {
    this.cache = new Map();
    this.zones = new Map([...this.state.nodes].map(([name, row]) => [name, row.zone ?? ""]));
    this.listedOn = new Map(); // key of a volume → nodes with a pool that lists it
    this.listedBy = new Map(); // node → keys that its pools list
    this.claimsOf = new Map(); // node → keys of volumes that are there, or are being made there
    this.comingTo = new Map(); // node → keys of volumes on their way to it
    this.toldOf = new Map(); // node → keys of capacity objects of this node alone
    this.places = new Map(); // key of a volume → [node, target] under which it is filed
    this.moving = new Map(); // key of a volume on its way → {key, from, to}
    this.reaches = new Map(); // key of a capacity object → the node it is filed under
    this.shared = new Set(); // capacity objects that several nodes share, or that reach none
    this.waiting = new Set(); // claims that are nowhere yet
    this.nowhere = new Set(); // volumes that are on no one node: every node reaches them, or they are lost
    for (const name of this.state.nodes.keys()) this.filePools(name);
    for (const key of this.state.volumes.keys()) this.fileVolume(key);
    for (const key of this.state.capacities.keys()) this.fileCapacity(key);
  }

  /** Take in what changed; null stands for everything. `isArranged` says that nodes came, went or changed zone;
   * `isLoose` that claims without a node or shared capacity did; `isAll` that any node's facts may have. */
  update(changed) {
    const touched = {nodes: new Set(), isArranged: false, isLoose: false, isAll: false};
    if (changed === null) {
      this.rebuild();
      return {...touched, isArranged: true, isLoose: true, isAll: true};
    }
    const touch = name => {
      if (name === undefined || name === "") return;
      touched.nodes.add(name);
      this.cache.delete(name);
    };
    for (const name of changed.nodes ?? []) {
      const row = this.state.nodes.get(name);
      const zone = row === undefined ? undefined : (row.zone ?? "");
      if (this.zones.get(name) !== zone) touched.isArranged = true;
      if (row === undefined) this.zones.delete(name);
      else this.zones.set(name, zone);
      this.filePools(name);
      touch(name);
    }
    for (const key of changed.volumes ?? []) {
      this.listedOn.get(key)?.forEach(touch);
      this.places.get(key)?.forEach(touch);
      if (this.waiting.has(key) || this.nowhere.has(key)) touched.isLoose = true;
      this.fileVolume(key);
      this.places.get(key)?.forEach(touch);
      if (this.waiting.has(key) || this.nowhere.has(key)) touched.isLoose = true;
    }
    for (const key of changed.capacities ?? []) {
      touch(this.reaches.get(key));
      if (this.shared.has(key)) touched.isLoose = true;
      this.fileCapacity(key);
      touch(this.reaches.get(key));
      if (this.shared.has(key)) touched.isLoose = true;
    }
    if (changed.classes) {
      // Which classes share their pools may be otherwise now.
      this.cache.clear();
      touched.isArranged = touched.isLoose = touched.isAll = true;
    }
    return touched;
  }

  filePools(name) {
    for (const key of this.listedBy.get(name) ?? []) unfile(this.listedOn, key, name);
    const keys = (this.state.nodes.get(name)?.pools ?? []).flatMap(keysOf);
    if (keys.length) this.listedBy.set(name, keys);
    else this.listedBy.delete(name);
    for (const key of keys) file(this.listedOn, key, name);
  }

  fileVolume(key) {
    const before = this.places.get(key);
    if (before) {
      unfile(this.claimsOf, before[0], key);
      unfile(this.comingTo, before[1], key);
      this.places.delete(key);
    }
    this.moving.delete(key);
    this.waiting.delete(key);
    this.nowhere.delete(key);
    const row = this.state.volumes.get(key);
    if (row === undefined) return;
    const node = row.node ?? "";
    // One that its driver has on its target already is there, though it may not be told of yet.
    const target = row.state === "moving" && row.target !== node ? (row.target ?? "") : "";
    if (node) file(this.claimsOf, node, key);
    else if ((row.state ?? "waiting") === "waiting") this.waiting.add(key);
    else if (!target) this.nowhere.add(key);
    if (target) file(this.comingTo, target, key);
    if (node && target) this.moving.set(key, {key, from: node, to: target});
    if (node || target) this.places.set(key, [node, target]);
  }

  fileCapacity(key) {
    const before = this.reaches.get(key);
    if (before !== undefined) unfile(this.toldOf, before, key);
    this.reaches.delete(key);
    this.shared.delete(key);
    const row = this.state.capacities.get(key);
    if (row === undefined) return;
    if (row.nodeCount === 1 && row.nodes?.length === 1) {
      this.reaches.set(key, row.nodes[0]);
      file(this.toldOf, row.nodes[0], key);
    } else {
      this.shared.add(key);
    }
  }

  /** Names of all nodes. */
  names() {
    return [...this.state.nodes.keys()];
  }

  /** What is known of a node; undefined when there is no row of it. */
  of(name) {
    const known = this.cache.get(name);
    if (known !== undefined) return known;
    const row = this.state.nodes.get(name);
    if (row === undefined) return undefined;
    const fact = this.workOut(name, row);
    this.cache.set(name, fact);
    return fact;
  }

  workOut(name, row) {
    const {volumes, capacities} = this.state;
    const claims = [...(this.claimsOf.get(name) ?? [])].sort();
    const coming = [...(this.comingTo.get(name) ?? [])].sort();
    const told = [...(this.toldOf.get(name) ?? [])].sort().map(key => [key, capacities.get(key)]);
    const parts = partsOf({row, claims, coming, told}, this.state);
    let bars;
    const fact = {
      name,
      row,
      zone: row.zone ?? "",
      claims,
      coming,
      told,
      leaving: [],
      classes: new Set(),
      ...parts.map(part => this.sums(part)).reduce(added),
      get bars() { // only what is drawn in bars needs them
        return (bars ??= parts.flatMap(part => barsOf(part.row, {...part, volumes})));
      },
    };
    for (const key of claims) {
      const volume = volumes.get(key);
      if (volume.state === "moving" && volume.target !== name) fact.leaving.push(key);
      if (volume.storageClass) fact.classes.add(volume.storageClass);
    }
    for (const [, each] of told) fact.classes.add(each.storageClass);
    fact.signs = signsOf(fact, volumes);
    return fact;
  }

  /** size, used, free, kept in bytes; fullness 0..1, null where nobody tells. */
  sums({row, claims, told}) {
    const kept = this.keptOf(row, told);
    if (row.pools?.length) {
      const size = row.pools.reduce((sum, pool) => sum + (pool.size ?? 0), 0);
      const free = row.pools.reduce((sum, pool) => sum + (pool.free ?? 0), 0);
      return {size, free, used: size - free, kept, fullness: fullnessOf(size, free)};
    }
    let used = 0;
    for (const key of claims) {
      const volume = this.state.volumes.get(key);
      if (volume.state !== "making") used += volume.bytes ?? 0;
    }
    if (!told.length) return {size: null, free: null, used, kept, fullness: null};
    const free = this.freeOf(told);
    return {size: used + free, free, used, kept, fullness: fullnessOf(used + free, free)};
  }

  /** Bytes kept back of a node, each promise once, less what lies in its pools already; of an object that is kept back
   * as a whole (mode Object) all that is free. */
  keptOf(row, told) {
    const entries = entriesOf(told);
    if (!entries.length) return 0;
    const listed = new Set((row.pools ?? []).flatMap(keysOf));
    const whole = told.filter(([key]) => entries.some(entry => entry.mode === "Object" && entry.capacity === key));
    const promised = entries.filter(entry => entry.mode !== "Object");
    return promised.reduce((sum, entry) => sum + stillKept(entry, key => listed.has(key), this.state.volumes), this.freeOf(whole));
  }

  /** Free bytes of some capacity objects: classes of one group (tonnage.dev/capacity-group) have the same pools, and
   * so have classes of one driver that tell the same pools: their room is counted once. */
  freeOf(told) {
    const rooms = new Map();
    for (const [key, each] of told) {
      const of = this.state.classes.get(each.storageClass);
      const pools = each.pools ?? [];
      const group = of?.group ? `group ${of.group}` : of && each.tellsPools ? `${of.driver} ${pools.join()}` : key;
      const free = pools.reduce((sum, amount) => sum + amount, 0);
      rooms.set(group, Math.max(rooms.get(group) ?? 0, free));
    }
    return [...rooms.values()].reduce((sum, free) => sum + free, 0);
  }
}

function fullnessOf(size, free) {
  return size > 0 ? Math.min(1, Math.max(0, (size - free) / size)) : null;
}

/** The sums of a node's pools and of what is beside them, of which nobody may tell how large it is. */
function added(pools, beside) {
  const [size, free] = [pools.size + beside.size, pools.free + beside.free];
  return {size, free, used: pools.used + beside.used, kept: pools.kept + beside.kept, fullness: fullnessOf(size, free)};
}

function file(index, at, key) {
  const found = index.get(at);
  if (found === undefined) index.set(at, new Set([key]));
  else found.add(key);
}

function unfile(index, at, key) {
  const found = index.get(at);
  if (found === undefined) return;
  found.delete(key);
  if (!found.size) index.delete(at);
}
