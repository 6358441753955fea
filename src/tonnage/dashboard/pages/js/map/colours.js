// Which colour and pattern a claim's block has: by its class or by its namespace. Its tooltip and the details say it in words.
//
// There are eight colours that colour-blind people tell apart; the ninth name has the first colour again with a pattern.
// What a name was given it keeps as long as the page is open, so that nothing changes its colour under one's eyes.

export const COLOUR_BY = {class: "class", namespace: "namespace"};
const COLOURS = 8;
const PATTERNS = 3;

export class Colours {
  constructor(by = "class") {
    this.by = by;
    this.given = {class: new Map(), namespace: new Map()};
  }

  /** Give every name of a state its place, in order of name, so that each browser shows the same. */
  learn(state) {
    const names = new Set(this.by === "class" ? state.classes.keys() : []);
    for (const [key, row] of state.volumes) names.add(this.nameOf(key, row));
    for (const name of [...names].sort()) this.give(this.by, name);
  }

  give(by, name) {
    const given = this.given[by];
    let found = given.get(name);
    if (found === undefined) {
      const index = given.size;
      found = {index, colour: index % COLOURS, pattern: Math.floor(index / COLOURS) % PATTERNS, name};
      given.set(name, found);
    }
    return found;
  }

  /** {colour: 0..7, pattern: 0..2, name} of a volume's row. */
  of(key, row) {
    return this.give(this.by, this.nameOf(key, row));
  }

  nameOf(key, row) {
    return this.by === "class" ? (row.storageClass ?? "") : namespaceOf(key, row);
  }
}

/** The namespace of a volume's claim; "" for a volume that no claim has. */
function namespaceOf(key, row) {
  const claim = row.claim ?? "";
  return claim.slice(0, Math.max(0, claim.indexOf("/")));
}
