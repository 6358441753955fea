// The capacity map of the live cluster.

import {el} from "../dom.js";
import {drawMap} from "../map/capacity_map.js";

export const title = "Map";

/** Show the map in `main`, with a node's or a claim's details (#/map/node/NAME, #/map/claim/NAMESPACE/NAME); the function that is given back closes it. */
export function open(main, {state}, kind, ...key) {
  const place = el("div", {class: "map-place"});
  main.append(el("h2", {class: "unseen"}, "Capacity map"), place);
  const map = drawMap(place, state);
  if (kind === "node" && key.length) {
    map.moveTo(key[0], {isFocused: false});
    map.openNode(key[0]);
  } else if (kind === "claim" && key.length) {
    map.openClaim(key.join("/"));
  }
  return () => map.close();
}
