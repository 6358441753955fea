// The cluster in one line: nodes, how full each class is and its largest free pool, what waits, what is on its way.

import {el, replace} from "../dom.js";
import {bytes, count} from "../format.js";

const MOST_CLASSES = 4;

/** Show an overview in a list. */
export function showLine(list, overview) {
  const {nodesReady, nodesNotReady, nodesCordoned, pending, gated, onTheirWay, classes} = overview;
  const names = Object.keys(classes);
  const items = [
    item(count(nodesReady, "node"), "ready", [nodesNotReady && `${nodesNotReady.toLocaleString("en")} not`, nodesCordoned && `${nodesCordoned.toLocaleString("en")} cordoned`], nodesNotReady),
    ...names.slice(0, MOST_CLASSES).map(name => ofClass(name, classes[name])),
    names.length > MOST_CLASSES ? item(`${names.length - MOST_CLASSES} more`, "classes", [], false) : null,
    item(count(pending, "pod"), "pending", [gated && `${gated.toLocaleString("en")} gated`], pending),
    item(count(onTheirWay, "volume"), onTheirWay === 1 ? "on its way" : "on their way", [], false),
  ];
  replace(list, items);
}

function item(number, words, more, isBad) {
  return el("li", {class: isBad ? "is-bad" : null}, el("b", {}, number), ` ${words}`, more.filter(Boolean).map(each => `, ${each}`));
}

function ofClass(name, room) {
  return el(
    "li",
    {class: room.nearlyFull ? "is-bad" : null},
    el("bdi", {class: "name"}, name),
    " ",
    el("b", {}, `${room.percentFull} %`),
    " full",
    el("meter", {min: 0, max: 100, value: room.percentFull, "aria-hidden": "true"}),
    el("span", {class: "quiet"}, `largest free pool ${bytes(room.largest)}`),
  );
}
