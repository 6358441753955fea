// What happened to a pod, one below the other: steps with times and the gaps between them, and its Events.

import {el} from "../dom.js";
import {gapWords, kindOf, marksOf} from "../flow/steps.js";
import {clockTime, count} from "../format.js";
import {link, named} from "../links.js";
import {ageOf, span} from "../since.js";
import {factTable} from "../table.js";

const SOURCES = {api: "the API", scheduler: "the scheduler"};

/** The steps of its lane, the oldest first. */
export function stepsPart(steps, isDone) {
  if (!steps.length) return el("p", {class: "quiet"}, "No step of this pod has been seen since the dashboard started.");
  const marks = marksOf(steps);
  const items = marks.map((mark, number) => {
    const {step, last, times} = mark;
    const {sign, word, tone} = kindOf(step);
    return el(
      "li",
      {class: "story-step", "data-kind": step.kind},
      el("span", {class: "story-gap"}, number ? `+${gapWords(mark)}` : ""),
      el("span", {class: "lane-sign", "data-tone": tone ?? "plain", "aria-hidden": "true"}, sign),
      el(
        "div",
        {class: "story-told"},
        el("b", {}, word),
        times > 1 ? el("span", {class: "badge"}, `${count(times, "time")}, last ${clockTime(last.at)}`) : null,
        step.node ? [" ", link("node", step.node)] : null,
        step.claim ? [" ", link("claim", step.claim)] : null,
        step.text === word ? null : el("p", {}, el("bdi", {}, step.text)),
        el("p", {class: "quiet"}, el("time", {datetime: step.at}, clockTime(step.at)), step.source ? [", reported by ", SOURCES[step.source] ?? named(step.source)] : ""),
      ),
    );
  });
  const whole_s = (Date.parse(steps.at(-1).at) - Date.parse(steps[0].at)) / 1000;
  const end = isDone ? `${span(whole_s)} in all` : ["goes on for ", ageOf(steps.at(-1).at)];
  return [el("ol", {class: "story-steps"}, items), el("p", {class: "quiet"}, end)];
}

/** Events about the pod and its claims, the newest first. */
export function eventsPart(events) {
  if (!events.length) return el("p", {class: "quiet"}, "There are no events about this pod or its claims.");
  const rows = [...events].reverse().map(event => ({
    class: event.type === "Warning" ? "is-warning" : null,
    cells: [
      [ageOf(event.last ?? event.at), event.count > 1 ? el("span", {class: "quiet"}, ` ×${event.count}`) : null],
      event.type === "Warning" ? "▲\u00a0Warning" : event.type,
      el("bdi", {}, event.reason),
      el("bdi", {class: "event-message"}, event.message),
      el("bdi", {}, event.about),
      el("bdi", {}, event.from),
    ],
  }));
  return factTable("Events", ["Ago", "Type", "Reason", "Message", "About", "From"], rows);
}
