// Why a pod goes where it goes, or nowhere: node by node, pool by pool, scores included.
//
// An explanation is of one moment and does not change by itself; when the cluster has changed since, it says so, and one
// may ask again.

import {asOf, errorBox, notesList} from "../answer_head.js";
import {ask} from "../api.js";
import {el, replace, say} from "../dom.js";
import {feasibleSection} from "../explain/feasible.js";
import {showNode} from "../explain/node_detail.js";
import {offersSection} from "../explain/offers.js";
import {refusedSection} from "../explain/refused.js";
import {hrefs, named} from "../links.js";
import {own} from "../own.js";
import {keepAges} from "../since.js";

export const title = "Explanation";
export const titleOf = (namespace, name) => (name ? `Why ${namespace}/${name}` : "");
export const isListed = () => false;

/** Show the explanation of a pod in `main`; the function that is given back closes it. */
export function open(main, {state}, namespace, name) {
  const key = `${namespace}/${name}`;
  const controller = new AbortController();
  const moment = el("span", {class: "answer-moment"});
  const again = el("button", {type: "button", onclick: () => work()}, "Ask again");
  const verdict = el("div", {class: "explain-verdict", role: "status"}, "Deciding…");
  const notes = notesList();
  const failure = errorBox();
  const body = el("div", {class: "explanation"});
  const view = el(
    "div",
    {class: "explain"},
    el("div", {class: "view-head"}, el("h2", {}, "Why ", named(key)), el("div", {class: "view-tools"}, el("a", {href: hrefs.pod(key)}, "what happened to it"), el("a", {href: "#/pending"}, "all pending pods"), again)),
    verdict,
    moment,
    failure.element,
    notes.element,
    body,
  );
  main.append(view);
  let told = null;

  async function work() {
    again.disabled = true;
    try {
      told = await ask(`/api/v1/pods/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}/explain`, {signal: controller.signal});
    } catch (error) {
      if (controller.signal.aborted) return;
      failure.show(error);
      if (told === null) replace(verdict);
      return;
    } finally {
      again.disabled = false;
    }
    failure.show(null);
    showVerdict(verdict, told.answer);
    notes.show(told.notes);
    showMoment();
    showBody(body, told);
  }

  function showMoment() {
    if (told === null) return;
    const isOld = state.revision > told.revision;
    const text = `${asOf(told)}${isOld ? " · the cluster has changed since" : ""}`;
    say(moment, text);
  }

  work();
  const stopFollowing = state.onChange(showMoment);
  const stopAges = keepAges(view);
  return () => {
    controller.abort();
    stopFollowing();
    stopAges();
  };
}

function showVerdict(element, answer) {
  const isFit = answer.schedulable;
  const word = answer.heldBack ? "✕ is not tried" : "✕ does not fit";
  replace(
    element,
    el("p", {class: `verdict-word ${isFit ? "is-good" : "is-bad"}`}, isFit ? ["✓ goes to ", named(answer.node)] : word),
    el("p", {class: "verdict-message"}, el("bdi", {}, answer.message)),
    answer.preemption ? el("p", {class: "verdict-preemption"}, el("bdi", {}, preemption(answer.preemption))) : null,
  );
}

function preemption({node, victims, budgetViolations}) {
  const against = budgetViolations ? `, ${budgetViolations} of ${victims.length} against a PodDisruptionBudget` : "";
  return `preemption would make room on ${node}: ${victims.slice(0, 3).join(", ")}${victims.length > 3 ? ` and ${victims.length - 3} more` : ""} would go${against}`;
}

function showBody(body, told) {
  const byName = new Map(told.answer.nodes.map(node => [node.name, node]));
  const panel = el("aside", {class: "node-panel", "aria-label": "The node in full", tabindex: "-1"});
  const search = el("input", {type: "search", placeholder: "search nodes", "aria-label": "Show nodes whose names contain this text"});
  const found = el("span", {class: "search-told", role: "status"});
  const choose = name => {
    showNode(panel, byName.get(name), own(told.answer.volumes, name), {weights: told.weights, chosen: told.answer.node});
    sections.forEach(section => section.mark(name));
    panel.dataset.node = name;
  };
  const sections = [feasibleSection(told, chosenByHand), refusedSection(told, chosenByHand)].filter(section => section.count);
  function chosenByHand(name) {
    choose(name);
    if (matchMedia("(max-width: 60rem)").matches) panel.scrollIntoView({block: "nearest"});
  }
  const searchNow = () => {
    const word = search.value.trim().toLowerCase();
    const number = sections.reduce((sum, section) => sum + section.search(word), 0);
    found.textContent = word ? `${number.toLocaleString("en")} of ${byName.size.toLocaleString("en")} nodes` : "";
  };
  search.addEventListener("input", searchNow);
  replace(
    body,
    byName.size
      ? el("div", {class: "explain-columns"}, el("div", {class: "explain-nodes"}, el("p", {class: "node-search"}, search, found), sections.map(({section}) => section)), panel)
      : el("p", {class: "quiet"}, "There are no nodes."),
    offersSection(told, chosenByHand),
  );
  searchNow();
  choose(told.answer.node ?? (told.refused.find(group => group.nearestNode)?.nearestNode || told.answer.nodes[0]?.name));
}
