// The capacity map of the live cluster; #/map/node/NAME and #/map/claim/NAMESPACE/NAME open it with details.

import {el} from "../dom.js";
import {drawMap} from "../map/capacity_map.js";

export const title = "Map";

/** Show the map in `main`; the function that is given back closes it. */
export function open(main, {state}, kind, ...key) {
  const place = el("div", {class: "map-place"});
  main.append(el("h2", {class: "unseen"}, "Capacity map"), place);
  const map = drawMap(place, state);
  const show = () => {
    if (kind === "node") {
      map.openNode(key[0]);
      map.moveTo(key[0], {isFocused: false});
    } else {
      map.openClaim(key.join("/"));
    }
  };
  const isAsked = (kind === "node" || kind === "claim") && key.length > 0;
  let unfollow = () => {};
  if (isAsked && state.nodes.size) {
    show();
  } else if (isAsked) {
    // The page was opened at this address: nothing is known yet.
    unfollow = state.onChange(() => {
      unfollow();
      map.drawFrame();
      show();
    });
  }
  return () => {
    unfollow();
    map.close();
  };
}
