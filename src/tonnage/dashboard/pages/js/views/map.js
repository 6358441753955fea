// The capacity map.

import {el, keyed} from "../dom.js";

export const title = "Map";

/** Show the map in `main`; the function that is given back closes it. */
export function open(main, {state}) {
  const list = el("ul", {class: "nodes"});
  main.append(el("h2", {}, "Capacity map"), list);
  const draw = () => keyed(list, [...state.nodes.values()], node => node.name, node => el("li", {}, node.name));
  draw();
  return state.onChange(changed => changed.nodes && draw());
}
