// What happened in a step, in words: the author's sentence, what was done, where the pod goes and why there.

import {el} from "../dom.js";
import {name} from "../table.js";

const MOST_REASONS = 5;

/** Elements that tell of one frame. */
export function stepWords(frame) {
  const {caption, title, lines, answer} = frame;
  return [
    caption ? el("p", {class: "caption"}, el("bdi", {}, caption)) : null,
    el("h3", {}, el("bdi", {}, title)),
    answer ? decision(answer) : null,
    lines.length ? el("ul", {class: "bare lines"}, lines.map(each => el("li", {}, el("bdi", {}, each)))) : null,
  ];
}

function decision(answer) {
  if (answer.node) {
    return [
      el("p", {class: "verdict good"}, el("span", {"aria-hidden": "true"}, "✓ "), name(answer.pod), " goes to ", el("b", {}, name(answer.node)), "."),
      sentences([...answer.why, answer.message, ...answer.claims]),
      elsewhere(answer.reasons),
    ];
  }
  return [
    el("p", {class: "verdict bad"}, el("span", {"aria-hidden": "true"}, "✗ "), name(answer.pod), " ", el("b", {}, "does not fit"), "."),
    el("p", {}, el("bdi", {}, answer.message)),
    answer.misses.length ? [el("h4", {}, "Nearest misses"), sentences(answer.misses)] : null,
  ];
}

function elsewhere(reasons) {
  if (!reasons.length) return null;
  return [el("h4", {}, "Why not elsewhere"), sentences(reasons.slice(0, MOST_REASONS).map(each => `${each.nodes} ${each.reason}`))];
}

function sentences(list) {
  return el("ul", {}, list.map(each => el("li", {}, el("bdi", {}, each))));
}
