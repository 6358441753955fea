// What is wrong now, worst first, with the line above it; below, the last hour in charts, and what has ended.

import {ask} from "../api.js";
import {el, replace, say} from "../dom.js";
import {count} from "../format.js";
import {keepAsking} from "../keep_asking.js";
import {drawHistory} from "../now/history.js";
import {showLine} from "../now/line.js";
import {showTroubles} from "../now/troubles.js";
import {problem} from "../problem.js";
import {ageOf, keepAges, setAge, span} from "../since.js";

export const title = "Now";

const CONCERNED = ["nodes", "pods", "volumes", "capacities", "classes", "notices"];

/** Show the landing page in `main`; the function that is given back closes it. */
export function open(main, {state}) {
  const verdict = el("p", {class: "now-verdict", "aria-live": "polite"}, "Looking…");
  const line = el("ul", {class: "now-line", "aria-label": "The cluster in one line"});
  const failure = el("div");
  const troubles = el("ol", {class: "troubles", "aria-label": "What is wrong, worst first"});
  const unseen = el("ul", {class: "answer-notes", hidden: true});
  const ended = el("section", {class: "ended", hidden: true}, el("h3", {}, "What has ended"), el("ol", {}));
  const history = drawHistory();
  const view = el(
    "div",
    {class: "now"},
    el("div", {class: "view-head"}, el("h2", {}, "Now"), verdict),
    line,
    failure,
    troubles,
    unseen,
    history.element,
    ended,
  );
  main.append(view);
  const close = keepAsking(state, {
    path: "/api/v1/status",
    isAbout: changed => CONCERNED.some(name => changed[name]),
    isWorking: answer => answer.at === null,
    renew_ms: 5000,
    onAnswer: async answer => {
      replace(failure);
      if (answer.at === null) return; // the cluster is not read yet
      showVerdict(verdict, answer);
      showLine(line, answer.overview);
      showTroubles(troubles, answer.troubles);
      unseen.hidden = !answer.unseen.length;
      replace(unseen, answer.unseen.map(each => el("li", {}, el("bdi", {}, each))));
      showEnded(ended, answer.ended);
      await history.update(since => ask(`/api/v1/history${since ? `?since=${encodeURIComponent(since)}` : ""}`), answer.startedAt);
    },
    onError: error => replace(failure, problem(error)),
  });
  const stopAges = keepAges(view);
  return () => {
    close();
    stopAges();
    history.close();
  };
}

function showVerdict(element, answer) {
  const of = severity => answer.troubles.filter(each => each.severity === severity).reduce((sum, each) => sum + 1 + each.more, 0);
  const [errors, warnings] = [of("error"), of("warning")];
  element.dataset.severity = errors ? "error" : warnings ? "warning" : "good";
  if (errors || warnings) {
    const told = [errors && count(errors, "error"), warnings && count(warnings, "warning")].filter(Boolean).join(", ");
    say(element, told);
    return;
  }
  const words = answer.unseen.length ? "Nothing is wrong that can be seen" : "Nothing is wrong";
  const soon = answer.overview.pending ? "; a pending pod counts after 30 s" : "";
  const age = element.querySelector("time");
  const isSame = age && element.firstChild.textContent.startsWith(words) && (age.nextSibling?.textContent ?? "") === soon;
  if (isSame) setAge(age, answer.fineSince);
  else replace(element, `${words}. It has been so for `, ageOf(answer.fineSince), soon);
}

function showEnded(section, ended) {
  section.hidden = !ended.length;
  replace(
    section.querySelector("ol"),
    ended.map(each =>
      el(
        "li",
        {},
        el("bdi", {class: "ended-headline"}, each.headline),
        el("span", {class: "quiet"}, " ended ", ageOf(each.until), ` ago, after ${span((Date.parse(each.until) - Date.parse(each.since)) / 1000)}`),
      ),
    ),
  );
}
