// The order of names, the same everywhere: node-9, node-10. Zones, nodes, claims and pods stand in it.

// The keys are kept, since thousands of names are put in order again and again.
const sortKeys = new Map();
function sortKey(name) {
  let key = sortKeys.get(name);
  if (key === undefined) {
    if (sortKeys.size > 100000) sortKeys.clear();
    key = name.replace(/\d+/g, digits => digits.padStart(12, "0"));
    sortKeys.set(name, key);
  }
  return key;
}

/** For `sort`: numbers in names count as numbers. */
export function compareNames(a, b) {
  const [one, other] = [sortKey(a), sortKey(b)];
  return one < other ? -1 : one > other ? 1 : 0;
}
