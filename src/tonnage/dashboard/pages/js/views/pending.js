// Pending: every pod that waits, by cause, with the nearest miss and what would help; one click to why.
//
// Answers come from the server, which works them out when the cluster has changed. Between two of them the page stays as
// it is: groups are told apart by their cause, open ones stay open, and nothing moves under the pointer.

import {asOf, errorBox, notesList} from "../answer_head.js";
import {calmOrder} from "../calm_order.js";
import {el, keyed, replace, say} from "../dom.js";
import {count} from "../format.js";
import {keepAsking} from "../keep_asking.js";
import {makeGroup, updateGroup} from "../pending/group.js";
import {keepAges} from "../since.js";

export const title = "Pending";

const opened = new Set(); // keys of open groups, kept for when one comes back to the view
const MOST_HELPS = 8;
const CONCERNED = ["pods", "nodes", "capacities", "volumes", "classes"];

/** Show what waits in `main`; the function that is given back closes it. */
export function open(main, {state, query, tell}) {
  const headline = el("p", {class: "pending-headline", role: "status"}, "Working out what waits and why…");
  const moment = el("p", {class: "answer-moment"});
  const notes = notesList();
  const failure = errorBox();
  const search = el("input", {type: "search", placeholder: "pod or workload", "aria-label": "Show pods and workloads whose names contain this text"});
  const groups = el("div", {class: "causes"});
  const helps = el("section", {class: "helps", hidden: true}, el("h3", {}, "What would help most"), el("ol", {class: "help-list"}));
  const view = el(
    "div",
    {class: "pending"},
    el("div", {class: "view-head"}, el("h2", {}, "Pending"), headline, el("div", {class: "view-tools"}, search)),
    moment,
    failure.element,
    notes.element,
    el("div", {class: "pending-columns"}, groups, helps),
  );
  main.append(view);
  let answer = null;

  const isWorking = told => told.working || told.revision < state.revision;
  const draw = () => {
    if (answer === null) return;
    const shown = searched(keysOf(answer.groups), search.value.trim().toLowerCase());
    keyed(
      groups,
      calm.order(shown, ({key}) => key),
      ({key}) => key,
      ({key}) => makeGroup(key, opened),
      (element, {item, isGone}) => updateGroup(element, item.group, isGone),
    );
    showHeadline(headline, answer, isWorking(answer) ? waitingIn(state) : 0);
    replace(moment, momentOf(answer));
    notes.show(answer.notes);
    showHelps(helps, answer);
  };
  const calm = calmOrder(groups, draw);
  search.value = query.get("search") ?? "";
  search.addEventListener("input", () => {
    tell([], {search: search.value}, {isNew: false});
    draw();
  });
  const stopAsking = keepAsking(state, {
    path: "/api/v1/pending",
    isAbout: changed => CONCERNED.some(name => changed[name]),
    isWorking,
    onAnswer: told => {
      failure.show(null);
      answer = told;
      draw();
    },
    onError: error => failure.show(error),
  });
  const stopAges = keepAges(view);
  return () => {
    stopAsking();
    stopAges();
  };
}

function keysOf(groups) {
  const counted = new Map();
  return groups.map(group => {
    const base = JSON.stringify([group.cause.kind, group.cause.about, group.cause.where]);
    const number = counted.get(base) ?? 0; // two causes may come to the same place
    counted.set(base, number + 1);
    return {key: `${base}#${number}`, group};
  });
}

/** Groups with the pods that a word is found in; the whole group when it is found in what they wait for. */
function searched(groups, word) {
  if (!word) return groups;
  return groups
    .map(({key, group}) => {
      if (group.message.toLowerCase().includes(word)) return {key, group};
      const pods = group.pods.filter(pod => `${pod.pod} ${pod.workload ?? ""}`.toLowerCase().includes(word));
      return {key, group: {...group, pods}};
    })
    .filter(({group}) => group.pods.length);
}

/** Pods that wait for a node by what is known now; an answer may be of before they came. */
const waitingIn = state => [...state.pods.values()].filter(row => (row.state ?? "waiting") === "waiting").length;

function showHeadline(element, answer, waiting) {
  const podsOf = groups => groups.reduce((sum, group) => sum + group.pods.length, 0);
  const pods = podsOf(answer.groups);
  const fitting = podsOf(answer.groups.filter(group => group.fits));
  const alone = podsOf(answer.groups.filter(group => group.cause.kind === "nobody"));
  const left = pods - fitting - alone;
  let text = "No pod is pending";
  if (answer.count) {
    const told = [];
    if (fitting) told.push(`${fitting.toLocaleString("en")} already ${fitting === 1 ? "fits" : "fit"} and should start soon`);
    if (alone) told.push(`${alone.toLocaleString("en")} ${alone === 1 ? "has" : "have"} no scheduler`);
    if (left) told.push(`${left.toLocaleString("en")} ${left === 1 ? "does" : "do"} not fit`);
    const soFar = answer.decided < answer.count ? `; so far ${answer.decided.toLocaleString("en")} examined` : "";
    text = `${count(answer.count, "pod is", "pods are")} pending${soFar}: ${told.join(", ")}`;
    if (told.length === 1 && !soFar) text = told[0].replace(" ", answer.count === 1 ? " pending pod " : " pending pods ");
  }
  if (!answer.count && waiting) text = `${count(waiting, "pod is", "pods are")} pending; working out why…`;
  element.classList.toggle("is-good", !answer.count && !waiting);
  say(element, text);
}

function momentOf(answer) {
  const told = [asOf(answer)];
  if (answer.partial) {
    const rest = answer.decided < answer.count ? `${answer.decided.toLocaleString("en")} of ${count(answer.count, "pod")} examined` : "not every change that may help was tried";
    told.push(answer.working ? `so far ${rest}` : `partial: ${rest} within the time limit`);
  } else if (answer.working) {
    told.push("a newer answer is on its way");
  }
  return told.join(" · ");
}

function showHelps(section, answer) {
  const helps = answer.wouldHelp.slice(0, MOST_HELPS);
  section.hidden = !helps.length;
  const most = helps[0]?.pods ?? 1;
  keyed(
    section.querySelector("ol"),
    helps,
    help => help.change,
    help => el("li", {}, el("meter", {min: 0, class: "help-meter"}), el("span", {class: "help-count"}), el("bdi", {class: "help-change"}, help.change)),
    (item, help) => {
      const meter = item.querySelector("meter");
      meter.max = most;
      meter.value = help.pods;
      meter.setAttribute("aria-label", `lets in ${count(help.pods, "pod")}`);
      item.querySelector(".help-count").textContent = `${count(help.pods, "pod")}`;
    },
  );
}
