// What if: drains and fits on the cluster as it is now. Nothing is changed by asking.
//
//   #/what-if/drain/NODE,NODE     #/what-if/fit/KIND%2FNAMESPACE%2FNAME

import {el} from "../dom.js";
import {own} from "../own.js";
import {openDrain} from "../what_if/drain.js";
import {openFit} from "../what_if/fit.js";

export const title = "What if";

const TOPICS = {drain: ["Drain", openDrain], fit: ["Fit", openFit]};

/** Show a topic in `main`; the function that is given back closes it. */
export function open(main, context, topic = "drain", asked = "") {
  const [, openTopic] = own(TOPICS, topic) ?? TOPICS.drain;
  const links = Object.entries(TOPICS).map(([name, [words]]) => el("li", {}, el("a", {href: `#/what-if/${name}`, "aria-current": name === topic ? "true" : null}, words)));
  const place = el("div", {});
  main.append(el("div", {class: "view-head"}, el("h2", {}, "What if"), el("nav", {"aria-label": "Questions"}, el("ul", {class: "tabs"}, links)), el("p", {class: "quiet"}, "Decided by the scheduler's own code on the cluster as it is now; nothing is changed.")), place);
  return openTopic(place, context, asked);
}
