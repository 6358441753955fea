// The nodes that were refused, by who refused them and why; each group opens to its nodes.

import {el} from "../dom.js";
import {count} from "../format.js";
import {windowed} from "../windowed.js";
import {markRows} from "./feasible.js";

const ROW = 36;
const keyOf = (plugin, reasons) => JSON.stringify([plugin, reasons]);

/** A section with the nodes that do not fit; `onChoose(name)` when somebody chooses one. */
export function refusedSection(told, onChoose) {
  const byGroup = new Map();
  for (const node of told.answer.nodes) {
    if (node.feasible) continue;
    const key = keyOf(node.rejectedBy, node.reasons);
    if (!byGroup.has(key)) byGroup.set(key, []);
    byGroup.get(key).push(node);
  }
  const groups = told.refused.map(group => refusedGroup(group, byGroup.get(keyOf(group.rejectedBy, group.reasons)) ?? [], onChoose));
  const number = told.refused.reduce((sum, group) => sum + group.nodes, 0);
  const section = el("section", {class: "refused-nodes"}, el("h3", {}, `✕ ${count(number, "node is", "nodes are")} refused`), groups.map(group => group.element));
  const nearest = told.refused.findIndex(group => group.nearestNode);
  if (!told.answer.node && groups.length) groups[Math.max(0, nearest)].element.open = true;
  return {
    section,
    count: number,
    search: word => {
      const found = groups.reduce((sum, group) => sum + group.search(word), 0);
      section.hidden = !found;
      return found;
    },
    mark: name => groups.forEach(group => markRows(group.element, name)),
  };
}

function refusedGroup(group, nodes, onChoose) {
  let shown = nodes;
  const list = windowed({
    label: `Nodes refused by ${group.rejectedBy}`,
    rowHeight: ROW,
    most: 10,
    keyOf: node => node.name,
    make: node => row(node, onChoose),
  });
  const number = el("span", {class: "cause-count"}, group.nodes.toLocaleString("en"));
  const element = el(
    "details",
    {class: "refused-group"},
    el(
      "summary",
      {},
      number,
      el("span", {class: "refused-by"}, el("bdi", {}, group.rejectedBy || "—")),
      el("span", {class: "refused-why"}, el("bdi", {}, group.reasons.join(", "))),
      group.nearestMiss ? el("span", {class: "miss"}, "nearest miss: ", el("bdi", {}, group.nearestMiss)) : null,
    ),
  );
  element.addEventListener("toggle", () => {
    if (!element.open) return;
    if (!list.element.isConnected) element.append(list.element);
    list.show(shown);
  });
  return {
    element,
    search: word => {
      shown = nodes.filter(node => node.name.toLowerCase().includes(word));
      element.hidden = !shown.length;
      number.textContent = shown.length.toLocaleString("en");
      if (word && shown.length) element.open = true;
      if (element.open && list.element.isConnected) list.show(shown);
      return shown.length;
    },
  };
}

function row(node, onChoose) {
  const element = el(
    "div",
    {class: "node-row"},
    el("button", {class: "node-name", "aria-pressed": "false", onclick: () => onChoose(node.name)}, el("bdi", {}, node.name)),
    el("span", {class: "node-miss"}, el("bdi", {title: node.nearestMiss ?? ""}, node.nearestMiss ?? "")),
  );
  element.dataset.name = node.name;
  return element;
}
