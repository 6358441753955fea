// How many more fit, in words and tables: the number, where they go, what stops the next one, what would let it in.

import {compareNames} from "../names.js";
import {el} from "../dom.js";
import {count} from "../format.js";
import {name, table} from "../table.js";

/** The whole answer as elements. `zoneOf` gives a node's zone; `waiting` says how many pods wait already. */
export function fitReport(answer, {zoneOf, waiting}) {
  const nodes = Object.entries(answer.byNode).sort((a, b) => b[1] - a[1] || compareNames(a[0], b[0]));
  const zones = Object.entries(answer.byZone).sort((a, b) => compareNames(a[0], b[0]));
  const most = Math.max(1, ...nodes.map(([, number]) => number));
  const hasZones = zones.length > 0;
  return [
    el(
      "p",
      {class: `verdict ${answer.count ? "good" : "bad"}`},
      el("span", {"aria-hidden": "true"}, answer.count ? "✓ " : "✗ "),
      name(answer.workload),
      ": ",
      el("b", {}, answer.text),
      hasZones ? [" (", zones.flatMap(([zone, number], index) => [index ? ", " : "", name(zone), ` ${number.toLocaleString("en")}`]), ")"] : null,
      ".",
    ),
    answer.interrupted ? el("p", {class: "warning"}, "The time limit was reached: not every change that may help was tried.") : null,
    waiting ? el("p", {class: "quiet"}, `${count(waiting, "pod waits", "pods wait")} for a node already and ${waiting === 1 ? "is" : "are"} tried first.`) : null,
    nodes.length ? table("Where they go", ["Node", ...(hasZones ? ["Zone"] : []), "More", el("span", {class: "unseen"}, "Share")], nodes.map(([node, number]) => [name(node), ...(hasZones ? [name(zoneOf(node))] : []), number, el("span", {class: "share", "aria-hidden": "true", style: {"inline-size": `${(number / most) * 100}%`}})])) : null,
    answer.preempting.length ? table("Pods that are preempted", ["Replica", "Node", "Preempts"], answer.preempting.map(each => [name(each.pod), name(each.node), el("bdi", {}, each.victims.join(", "))])) : null,
    answer.stops.length ? table("What stops the next replica", ["Nodes", "Why"], answer.stops.map(each => [each.nodes, el("bdi", {}, each.reason)])) : null,
    answer.wouldHelp.length ? el("section", {class: "helps"}, el("h3", {}, "The least that would let it in"), el("ol", {}, answer.wouldHelp.map(each => el("li", {}, el("bdi", {}, each))))) : null,
  ];
}
