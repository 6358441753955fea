// Links from one view to another, by what a thing is called. Names are isolated (<bdi>), so that right-to-left marks in
// one do not reorder what stands beside it.

import {el} from "./dom.js";

const path = key => key.split("/").map(encodeURIComponent).join("/");

/** The fragments, for who makes the element itself. */
export const hrefs = {
  pod: key => `#/pod/${path(key)}`,
  explanation: key => `#/explain/${path(key)}`,
  drain: node => `#/what-if/drain/${encodeURIComponent(node)}`,
  node: name => `#/map/node/${encodeURIComponent(name)}`,
  claim: key => `#/map/claim/${path(key)}`,
  object: (table, key) => `#/tables/${table}/${path(key)}`,
};

/** A link with a name as its text; "" gives nothing. */
export function link(kind, name, attributes = {}) {
  return name ? el("a", {href: hrefs[kind](name), class: "name", ...attributes}, el("bdi", {}, name)) : null;
}

/** A name that leads nowhere. */
export function named(name) {
  return el("bdi", {class: "name"}, name);
}
