// What the reader chose, remembered in this browser. A browser that keeps nothing loses no more than that.

const DEFAULTS = {
  colourBy: "class",
  group: "zone",
  sort: "name",
  level: "",
  isTroubleOnly: false,
  isCordonedOnly: false,
  storageClass: "",
  search: "",
  collapsed: [],
};
const KEPT = ["colourBy", "group", "sort"]; // for ever
const KEPT_HERE = ["level", "collapsed"]; // for this tab

/** What was chosen before, with what is missing by default. */
export function chosen(storageKey) {
  return {...DEFAULTS, ...read("localStorage", storageKey), ...read("sessionStorage", storageKey)};
}

/** Remember it. Filters and search are not: a page that hides nodes because of last week would tell half the truth. */
export function remember(storageKey, choices) {
  write("localStorage", storageKey, KEPT, choices);
  write("sessionStorage", storageKey, KEPT_HERE, choices);
}

function read(where, storageKey) {
  try {
    const told = JSON.parse(window[where].getItem(`tonnage-${storageKey}`) ?? "{}");
    const isAlike = (value, other) => typeof value === typeof other && Array.isArray(value) === Array.isArray(other);
    const isSane = ([name, value]) => Object.hasOwn(DEFAULTS, name) && isAlike(value, DEFAULTS[name]);
    return Object.fromEntries(Object.entries(told ?? {}).filter(isSane));
  } catch {
    return {};
  }
}

function write(where, storageKey, names, choices) {
  try {
    window[where].setItem(`tonnage-${storageKey}`, JSON.stringify(Object.fromEntries(names.map(name => [name, choices[name]]))));
  } catch {
    // full, or forbidden
  }
}
