// The scale of bars: how many bytes a full line stands for. Every bar of a storage class has one scale, on all nodes, so
// that a pool of 500Gi is five times as long as one of 100Gi; each class has its own, so that small fast disks are no
// slivers beside large slow ones. Pure. Every map of the page draws by it; reports count alike (whatif/page.py,
// `byte_ticks`), and a browser test compares the two.
//
//   const scales = scalesOf([state]);
//   scales.get("fast")            // {full, step, classes}: full in bytes, a mark at every `step` bytes

const MOST_TICKS = 6;
const UNIT = 1024;

/** The pools that a driver's own records show: all classes of the driver lie in them. */
export const POOLS = " pools";

/** True if a node's pools show where a driver's volumes are. A driver that nobody knows counts as theirs. */
export function isInPools(row, driver) {
  return Boolean(row?.pools?.length) && (!driver || !row.poolsDriver || driver === row.poolsDriver);
}

/** A full line that holds `largest` bytes, in round steps of a binary unit: 1, 2 or 5 times a power of ten of it. */
export function scaleFor(largest) {
  if (!(largest > 0) || !Number.isFinite(largest)) return {full: 1, step: 1};
  let unit = 1;
  while (unit * UNIT <= largest && unit < UNIT ** 6) unit *= UNIT;
  const worth = largest / unit;
  const power = 10 ** Math.floor(Math.log10(worth / MOST_TICKS));
  let step = [1, 2, 5, 10].map(each => each * power).find(each => each * MOST_TICKS >= worth * (1 - 1e-9));
  if (unit === 1) step = Math.max(step, 1);
  const count = Math.max(1, Math.ceil(worth / step - 1e-9));
  return {full: Number((step * count).toPrecision(12)) * unit, step: step * unit};
}

/** Which scale a bar of a class is drawn by (`bar.of`): classes of one capacity group have the same pools. */
export function scaleKey(state, storageClass) {
  const group = state.classes.get(storageClass)?.group;
  return group ? ` group ${group}` : storageClass;
}

/** Scales by key, of everything that maps of these States draw. `shared` is capacity that nodes share: [{row, claims}]. */
export function scalesOf(states, shared = [], before = new Map()) {
  const largest = new Map(); // key → {bytes, classes}
  const note = (key, bytes, storageClass) => {
    const found = largest.get(key) ?? {bytes: 0, classes: new Set()};
    found.bytes = Math.max(found.bytes, bytes);
    if (storageClass) found.classes.add(storageClass);
    largest.set(key, found);
  };
  for (const state of states) noteLargest(state, note);
  for (const {row, claims} of shared) {
    const named = sumOf(claims, states[0]);
    for (const free of row.pools ?? []) note(scaleKey(states[0], row.storageClass), row.pools.length === 1 ? free + named : Math.max(free, named), row.storageClass);
  }
  const found = new Map();
  for (const [key, {bytes, classes}] of largest) {
    const scale = {key, ...scaleFor(bytes), classes: [...classes].sort()};
    const old = before.get(key);
    // A scale that shrinks a little would move every bar under one's eyes for nothing.
    found.set(key, old && scale.full < old.full && scale.full * 2 > old.full ? {...scale, full: old.full, step: old.step} : scale);
  }
  return found;
}

/** Call `note(key, bytes, class)` for every bar that a node of this State may have. */
function noteLargest(state, note) {
  for (const row of state.nodes.values()) {
    for (const pool of row.pools ?? []) note(POOLS, Math.max(pool.size ?? 0, sumOf(pool.volumes ?? [], state) + sumOf(pool.arriving ?? [], state)));
  }
  const claimed = new Map(); // node → class → bytes of its claims there; nodes whose pools are seen have them in those
  for (const row of state.volumes.values()) {
    if (!row.node || isInPools(state.nodes.get(row.node), row.driver) || row.state === "making") continue;
    if (!claimed.has(row.node)) claimed.set(row.node, new Map());
    const ofNode = claimed.get(row.node);
    ofNode.set(row.storageClass ?? "", (ofNode.get(row.storageClass ?? "") ?? 0) + (row.bytes ?? 0));
  }
  for (const row of state.capacities.values()) {
    if (row.nodeCount !== 1 || row.nodes?.length !== 1) continue;
    const [node] = row.nodes;
    if (isInPools(state.nodes.get(node), state.classes.get(row.storageClass)?.driver)) note(POOLS, 0, row.storageClass);
    else for (const free of row.pools ?? []) note(scaleKey(state, row.storageClass), row.pools.length === 1 ? free + (claimed.get(node)?.get(row.storageClass) ?? 0) : free, row.storageClass);
  }
  for (const ofNode of claimed.values()) for (const [name, bytes] of ofNode) note(scaleKey(state, name), bytes, name);
}

function sumOf(keys, state) {
  return keys.reduce((sum, key) => sum + (state.volumes.get(key)?.bytes ?? 0), 0);
}
