// What a drain would do, in words and tables: the verdict first, then who is stuck, who moves, and what becomes of the data.

import {el} from "../dom.js";
import {bytes, count} from "../format.js";
import {name, table} from "../table.js";

const ACTIONS = {rebuild: "rebuilt", reattach: "reattached", stays: "stays"};

/** The verdict in a sentence, as the command has it. */
export function verdict(answer) {
  const told = [count(answer.moves.length, "pod moves", "pods move")];
  if (answer.preempted.length) told.push(`${answer.preempted.length} elsewhere ${answer.preempted.length === 1 ? "makes" : "make"} room`);
  if (answer.lost.length) told.push(`${answer.lost.length} ${answer.lost.length === 1 ? "is" : "are"} lost`);
  const {total} = answer.bytesRebuilt;
  told.push(total ? `${bytes(total)} rebuilt` : "nothing is rebuilt");
  if (answer.holds) return `no pod is stuck: ${told.join(", ")}`;
  return `${count(answer.stuck.length, "pod is", "pods are")} stuck; ${told.join(", ")}`;
}

/** The whole answer as elements. */
export function drainReport(answer) {
  const {oneByOne} = answer;
  const how = oneByOne && answer.drained.length > 1 ? ", one after the other" : "";
  return [
    el(
      "p",
      {class: `verdict ${answer.holds ? "good" : "bad"}`},
      el("span", {"aria-hidden": "true"}, answer.holds ? "✓ " : "✗ "),
      "Draining ",
      names(answer.drained),
      `${how}: `,
      el("b", {}, verdict(answer)),
      ".",
    ),
    answer.partial ? el("p", {class: "warning"}, "Partial: the time limit was reached; this is what was known by then.") : null,
    answer.stuck.length ? table("Stuck", heads(oneByOne, "Pod", "On", "Why", "Volumes"), answer.stuck.map(each => cells(oneByOne, each, [pod(each), name(each.from), why(each), volumes(each.volumes)]))) : null,
    answer.moves.length ? table("Moves", heads(oneByOne, "Pod", "From", "To", "Volumes"), answer.moves.map(each => cells(oneByOne, each, movement(each)))) : null,
    answer.preempted.length ? table("Make room elsewhere", heads(oneByOne, "Pod", "From", "To", "Volumes"), answer.preempted.map(each => cells(oneByOne, each, movement(each)))) : null,
    answer.budgets.length ? table("Budgets that keep pods", ["Budget", "Keeps", "Why"], answer.budgets.map(each => [name(each.name), names(each.pods), each.why])) : null,
    answer.bytesRebuilt.moves.length ? table("Rebuilt", ["Size", "From", "To", "Volumes"], answer.bytesRebuilt.moves.map(each => [bytes(each.bytes), name(each.from || "-"), name(each.to), each.volumes])) : null,
    answer.dataLeftBehind.length
      ? table("Data that stays behind", ["Claim or volume", "On", "Size", "What", "Used by"], answer.dataLeftBehind.map(each => [name(each.claim ?? each.volume ?? "-"), name(each.node), each.bytes === null ? "-" : bytes(each.bytes), each.what, each.pods.length ? names(each.pods) : "nobody"]))
      : null,
    el("ul", {class: "notes"}, notes(answer).map(each => el("li", {}, each))),
  ];
}

function heads(oneByOne, ...words) {
  return oneByOne ? ["During", ...words] : words;
}

function cells(oneByOne, each, row) {
  return oneByOne ? [name(each.during ?? ""), ...row] : row;
}

function movement(each) {
  const others = each.equallyGood?.length ? [" (or ", names(each.equallyGood), ")"] : null;
  return [pod(each), name(each.from), [name(each.to), others], volumes(each.volumes)];
}

function pod(each) {
  const isNamed = !each.workload || each.workload.startsWith("StatefulSet/");
  return isNamed ? name(each.pod) : [name(each.pod), el("span", {class: "quiet"}, " of ", name(each.workload))];
}

function why(each) {
  const message = el("bdi", {}, each.message);
  return each.comesBack ? [message, "; it runs again when ", name(each.during), " is back"] : message;
}

function volumes(found) {
  if (!found.length) return "-";
  return el("ul", {class: "bare"}, found.map(each => el("li", {class: `is-${each.action}`}, name(each.claim), ` ${bytes(each.bytes)} `, el("b", {}, ACTIONS[each.action] ?? each.action))));
}

/** Several names, of very many the first. */
export function names(list, most = 5) {
  const shown = list.slice(0, most).flatMap((each, index) => (index ? [", ", name(each)] : [name(each)]));
  return list.length > most ? [...shown, ` and ${list.length - most} more`] : shown;
}

function notes(answer) {
  const found = answer.lost.slice(0, 50).map(each => [name(each.pod), " on ", name(each.from), `: ${each.message}`]);
  if (answer.dataLost.length) found.push(["Data that is lost with its pod: ", names(answer.dataLost.map(each => `${each.pod} (${each.what} ${each.volume})`))]);
  if (answer.daemons.length) found.push([answer.daemons.length === 1 ? "1 pod stays on its node: " : `${answer.daemons.length} pods stay on their nodes: `, names(answer.daemons.map(each => each.pod))]);
  if (answer.waitingBefore.length) found.push([`${count(answer.waitingBefore.length, "pod had", "pods had")} no node before: `, names(answer.waitingBefore)]);
  if (answer.kubectlFlags.length) found.push(["kubectl drain needs ", el("code", {}, answer.kubectlFlags.join(" "))]);
  if (answer.order && answer.drained.length > 1) found.push(order(answer));
  found.push(...oneMore(answer));
  return found;
}

function order({order: found, stuck, bytesRebuilt}) {
  const tried = `${count(found.tried, "order")} tried${found.complete ? "" : ", not all"}`;
  if (found.stuck === stuck.length && found.bytesRebuilt === bytesRebuilt.total) return `No better order was found (${tried}).`;
  return ["A better order: ", el("b", {}, names(found.best, 50)), `, ${found.stuck} stuck and ${bytes(found.bytesRebuilt)} rebuilt (${tried}).`];
}

function oneMore({survivesOneMore: found, oneByOne}) {
  const tried = `${count(found.tried, "failure")} tried${found.notTried ? `, ${found.notTried} not` : ""}`;
  if (found.failures.length) {
    return [
      [el("b", {class: "bad"}, "If one more node fails meanwhile, pods are stuck"), ` (${tried}):`, el("ul", {}, found.failures.slice(0, 50).map(each => el("li", {}, "without ", name(each.node), oneByOne ? [" while ", names(each.during), " is drained"] : null, ": ", names(each.stuck.map(one => one.pod)), ` stuck: ${each.stuck[0]?.message ?? ""}`)))],
    ];
  }
  if (found.complete && found.tried) return [[el("b", {class: "good"}, "If any one more node fails meanwhile, every pod still finds a node"), ` (${tried}).`]];
  return found.tried ? [`If one of the nodes with the most pods fails meanwhile, every pod still finds a node (${tried}).`] : [];
}
