// One pod's lane: its steps from left to right as marks, a sign and a word each, with what lies between them in time. The
// newest are always seen; a pod that is not done yet ends in a line that grows.

import {el, replace} from "../dom.js";
import {clockTime, count} from "../format.js";
import {link, named} from "../links.js";
import {ageOf, setAge} from "../since.js";
import {gapWords, kindOf, lengthOf, marksOf} from "./steps.js";

const LETTER_PX = 6.5; // of the marks' type, on average
const NODE_PX = 135; // longer names of nodes are cut by the style
const MORE_PX = 90; // for how many are left out
const OPEN_PX = 100; // for the line that grows

/** A lane's element; `update` fills it. */
export function makeLane({item}) {
  return el(
    "div",
    {class: "lane"},
    el(
      "div",
      {class: "lane-head"},
      link("pod", item.lane.pod, {class: "name lane-pod"}),
      el("span", {class: "lane-workload"}),
      el("span", {class: "lane-last"}, el("bdi", {class: "lane-text"}), " ", el("time", {class: "age"})),
    ),
    el("ol", {class: "lane-marks", "aria-label": `Steps of ${item.lane.pod}`}),
  );
}

/** Bring a lane up to date. */
export function updateLane(element, {item, isGone}) {
  const {lane, workload} = item;
  const head = lane.steps?.at(lane.headline ?? -1); // what happened to the pod; what follows it is bookkeeping
  element.classList.toggle("lane-done", Boolean(lane.done));
  element.classList.toggle("cause-gone", isGone);
  if (head) setAge(element.querySelector(".lane-last time"), head.at);
  const width = element.clientWidth;
  if (element.lane === lane && element.workload === workload && element.width === width) return;
  Object.assign(element, {lane, workload, width});
  replace(element.querySelector(".lane-workload"), workload ? named(workload) : "");
  const text = element.querySelector(".lane-text");
  text.textContent = head?.text ?? "";
  text.title = head?.text ?? "";
  text.classList.toggle("is-bad", Boolean(head) && kindOf(head).tone === "bad");
  replace(element.querySelector(".lane-marks"), marks(lane, width || 900));
}

function marks(lane, width) {
  const all = marksOf(lane.steps ?? []);
  const shown = all.slice(firstSeen(all, width - MORE_PX - (lane.done ? 0 : OPEN_PX)));
  const hidden = all.length - shown.length;
  const items = hidden > 0 ? [el("li", {class: "lane-more"}, `${hidden} earlier`)] : [];
  shown.forEach((mark, number) => items.push(markItem(mark, hidden > 0 || number > 0)));
  const last = lane.steps?.at(-1);
  if (!lane.done && last) items.push(el("li", {class: "lane-open"}, el("span", {class: "lane-line is-open", "aria-hidden": "true"}), el("span", {class: "lane-open-words"}, "for ", ageOf(last.at))));
  return items;
}

/** From which mark on there is room: the newest are always seen. */
function firstSeen(all, room) {
  let left = room;
  for (let position = all.length - 1; position >= 0; position -= 1) {
    const {step, times, gap_s} = all[position];
    const letters = kindOf(step).word.length + (times > 1 ? 4 : 0);
    const node = step.node && room > 400 ? Math.min(NODE_PX, step.node.length * LETTER_PX) + 5 : 0;
    left -= 38 + letters * LETTER_PX + node + Math.max(34, 16 * lengthOf(gap_s));
    if (left < 0) return Math.min(position + 1, all.length - 1);
  }
  return 0;
}

function markItem(mark, hasGap) {
  const {step, last, times, gap_s} = mark;
  const {sign, word, tone} = kindOf(step);
  const told = `${word}${times > 1 ? ` ${count(times, "time")}, last ${clockTime(last.at)}` : ""}: ${step.text} (${clockTime(step.at)}${step.source ? `, ${step.source}` : ""})`;
  const item = el(
    "li",
    {class: "lane-mark", title: told},
    hasGap ? el("span", {class: "lane-gap"}, el("span", {class: "lane-line", "data-length": lengthOf(gap_s), "aria-hidden": "true"}), el("span", {class: "lane-span"}, gapWords(mark))) : null,
    el("span", {class: "lane-sign", "data-tone": tone ?? "plain", "aria-hidden": "true"}, sign),
    el("span", {class: "lane-word"}, word, times > 1 ? ` ×${times}` : "", step.node ? [" ", el("bdi", {class: "lane-node"}, step.node)] : ""),
  );
  item.dataset.kind = step.kind;
  return item;
}
