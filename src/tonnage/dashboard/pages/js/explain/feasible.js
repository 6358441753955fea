// The nodes that fit, the best first: totals as bars made of the plugins' parts, and the scores that differ as columns.

import {el, replace} from "../dom.js";
import {count} from "../format.js";
import {windowed} from "../windowed.js";
import {shortName, telling, whyChosen} from "./words.js";

const ROW = 40;
const MOST_COLUMNS = 6;

/** A section with the nodes that fit; `onChoose(name)` when somebody chooses one. */
export function feasibleSection(told, onChoose) {
  const nodes = told.answer.nodes.filter(node => node.feasible);
  const {differ, alike} = telling(nodes.filter(node => !node.passedOver));
  const columns = [...differ].sort((one, other) => reach(nodes, other) - reach(nodes, one)).slice(0, MOST_COLUMNS);
  const most = Math.max(1, ...nodes.map(node => node.total));
  const chosen = told.answer.node;
  const list = windowed({
    label: "Nodes that fit",
    rowHeight: ROW,
    most: 10,
    keyOf: node => node.name,
    make: node => row(node, {columns, most, chosen, weights: told.weights, onChoose}),
  });
  const head = el(
    "div",
    {class: "node-row node-head", "aria-hidden": "true"},
    el("span", {}, "Node"),
    el("span", {}, "Total"),
    el("span", {class: "score-columns"}, columns.map(name => el("span", {title: name}, shortName(name)))),
  );
  const section = el(
    "section",
    {class: "feasible"},
    el("h3", {}, `✓ ${count(nodes.length, "node fits", "nodes fit")}`),
    el("p", {class: "why-chosen"}, el("bdi", {}, whyChosen(chosen, nodes))),
    legend(columns, differ, alike, nodes[0], told.weights),
    head,
    list.element,
  );
  return {
    section,
    count: nodes.length,
    /** Show those with this in their name. */
    search: word => {
      const found = nodes.filter(node => node.name.toLowerCase().includes(word));
      section.hidden = !found.length;
      list.show(found);
      return found.length;
    },
    mark: name => markRows(list.element, name),
  };
}

/** Mark the row of the node that is chosen for the panel. */
export function markRows(element, name) {
  for (const each of element.querySelectorAll(".node-row")) {
    each.querySelector("button")?.setAttribute("aria-pressed", String(each.dataset.name === name));
  }
}

function reach(nodes, plugin) {
  const scores = nodes.map(node => node.scores[plugin] ?? 0);
  return Math.max(...scores) - Math.min(...scores);
}

function row(node, {columns, most, chosen, weights, onChoose}) {
  const isChosen = node.name === chosen;
  const bar = el("span", {class: "total-bar", "aria-hidden": "true"});
  columns.forEach((plugin, number) => bar.append(part(node.scores[plugin] ?? 0, most, number)));
  const rest = node.total - columns.reduce((sum, plugin) => sum + (node.scores[plugin] ?? 0), 0);
  bar.append(part(rest, most, "rest"));
  const element = el(
    "div",
    {class: `node-row${isChosen ? " is-chosen" : ""}`},
    el("button", {class: "node-name", "aria-pressed": "false", onclick: () => onChoose(node.name)}, el("span", {"aria-hidden": "true"}, isChosen ? "★ " : ""), el("bdi", {}, node.name), isChosen ? el("span", {class: "unseen"}, " (chosen)") : null),
    node.passedOver
      ? el("span", {class: "passed-over"}, el("bdi", {}, node.passedOver))
      : el("span", {class: "total"}, el("b", {class: "number"}, node.total), bar),
    el("span", {class: "score-columns"}, columns.map(plugin => score(node, plugin, weights[plugin] ?? 1))),
  );
  element.dataset.name = node.name;
  return element;
}

function score(node, plugin, weight) {
  const weighted = node.scores[plugin];
  if (weighted === undefined) return el("span", {});
  const told = `${plugin}: ${weighted / weight} × ${weight} = ${weighted}`;
  return el("span", {class: "number", title: told}, weighted, el("small", {}, weight === 1 ? "" : ` ${weighted / weight}×${weight}`));
}

function part(worth, most, number) {
  const element = el("span", {class: "total-part"});
  element.dataset.part = number;
  element.style.setProperty("width", `${Math.max(0, (100 * worth) / most)}%`);
  return element;
}

/** What the parts of the bars are, and what was the same everywhere and decided nothing. */
function legend(columns, differ, alike, first, weights) {
  const name = plugin => `${shortName(plugin)}${(weights[plugin] ?? 1) === 1 ? "" : `×${weights[plugin]}`}`;
  const items = columns.map((plugin, number) => {
    const sign = el("span", {class: "total-part swatch-part", "aria-hidden": "true"});
    sign.dataset.part = number;
    return el("li", {title: plugin}, sign, name(plugin));
  });
  const others = differ.filter(plugin => !columns.includes(plugin));
  const rest = [...others, ...alike].filter(plugin => first?.scores[plugin] !== undefined);
  if (rest.length) {
    const sign = el("span", {class: "total-part swatch-part", "aria-hidden": "true"});
    sign.dataset.part = "rest";
    const told = alike.length ? `the same on all of them: ${alike.map(plugin => `${name(plugin)} ${first.scores[plugin]}`).join(", ")}` : "others";
    items.push(el("li", {class: "alike"}, sign, told));
  }
  const list = el("ul", {class: "score-legend", "aria-label": "What the totals are made of"});
  replace(list, items);
  list.hidden = !items.length;
  return list;
}
