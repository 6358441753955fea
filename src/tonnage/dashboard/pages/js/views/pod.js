// A pod's page: its whole story from the API and the scheduler's own memory. Parts that have not changed are left as they
// are, so that nothing is lost of what somebody reads or has selected.

import {asOf, errorBox, notesList} from "../answer_head.js";
import {el, replace} from "../dom.js";
import {clockTime} from "../format.js";
import {keepAsking} from "../keep_asking.js";
import {hrefs, link, named} from "../links.js";
import {own} from "../own.js";
import {claimCard, heldWords} from "../pod/claims.js";
import {eventsPart, stepsPart} from "../pod/story.js";
import {ageOf, keepAges} from "../since.js";
import {factTable} from "../table.js";

export const title = "Pod";
export const titleOf = (namespace, name) => (name ? `${namespace}/${name}` : "");
export const isListed = () => false;

/** Show a pod's page in `main`; the function that is given back closes it. */
export function open(main, {state}, namespace, name) {
  const key = `${namespace}/${name}`;
  const badges = el("span", {class: "pod-badges"});
  const why = el("a", {href: hrefs.explanation(key), class: "button"}, "Why this node, or none");
  const moment = el("p", {class: "answer-moment"});
  const notes = notesList();
  const failure = errorBox();
  const parts = {};
  const part = (id, heading) => {
    parts[id] = el("div", {});
    return el("section", {class: `pod-part pod-${id}`}, el("h3", {}, heading), parts[id]);
  };
  const body = el(
    "div",
    {class: "pod-columns", hidden: true},
    el("div", {}, part("state", "State"), part("memory", "What the scheduler reserves for it"), part("claims", "Claims")),
    el("div", {}, part("steps", "What happened"), part("conditions", "Conditions")),
  );
  const events = part("events", "Events");
  events.hidden = true;
  const view = el(
    "div",
    {class: "pod"},
    el("div", {class: "view-head"}, el("h2", {}, "Pod ", named(key)), badges, el("div", {class: "view-tools"}, why)),
    moment,
    failure.element,
    notes.element,
    body,
    events,
  );
  main.append(view);

  const fill = (id, data, render) => {
    const json = JSON.stringify(data);
    if (parts[id].shown === json) return;
    parts[id].shown = json;
    replace(parts[id], render());
    parts[id].parentElement.hidden = !parts[id].childNodes.length;
  };
  let told = null;
  const show = answer => {
    told = answer;
    failure.show(null);
    body.hidden = false;
    events.hidden = false;
    moment.textContent = asOf(answer);
    notes.show(answer.notes);
    why.hidden = !answer.uid;
    replace(badges, badgesOf(answer));
    const {steps, events: listed, claims, conditions = [], revision, at, notes: _, ...rest} = answer;
    fill("state", rest, () => statePart(answer));
    fill("memory", [answer.assumed, answer.nominations, answer.failedNodes, answer.held], () => memoryPart(answer, state.capacities));
    fill("claims", claims, () => claims.map(each => claimCard(each, state.capacities)));
    fill("steps", [steps, answer.done], () => stepsPart(steps, answer.done));
    fill("conditions", conditions, () => conditionsPart(conditions));
    fill("events", listed, () => eventsPart(listed));
  };
  const isAbout = changed =>
    changed.pods?.has(key) || changed.capacities || (told?.uid ? changed.lanes?.has(told.uid) : changed.lanes) || told?.claims.some(claim => changed.volumes?.has(claim.claim));
  const stopAsking = keepAsking(state, {
    path: `/api/v1/pods/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`,
    isAbout,
    onAnswer: show,
    onError: error => failure.show(error),
    pause_ms: 1000,
  });
  const stopAges = keepAges(view);
  return () => {
    stopAsking();
    stopAges();
  };
}

function badgesOf(answer) {
  if (!answer.uid) return el("span", {class: "badge is-bad"}, "✕ gone");
  const tone = own({Running: "is-good", Succeeded: "is-good", Failed: "is-bad"}, answer.phase) ?? "";
  return [
    el("span", {class: `badge ${tone}`}, answer.phase),
    answer.terminating ? el("span", {class: "badge is-bad"}, "being deleted") : null,
    answer.gates?.length ? el("span", {class: "badge"}, "held back") : null,
  ];
}

function statePart(answer) {
  if (!answer.uid) return el("p", {}, "This pod no longer exists. Shown is what happened to the last pod of this name.");
  const facts = [];
  const fact = (word, ...said) => facts.push(el("div", {}, el("dt", {}, word), el("dd", {}, said)));
  if (answer.node) fact("node", link("node", answer.node));
  if (answer.assumed) fact("node", link("node", answer.assumed), ", where the scheduler has sent it; the API does not show it yet");
  if (answer.nominated) fact("nominated to", link("node", answer.nominated));
  if (!answer.node && !answer.assumed) fact("node", "none yet");
  if (answer.message || answer.reason) fact("says", el("bdi", {}, [answer.reason, answer.message].filter(Boolean).join(": ")));
  if (answer.workload) fact("workload", named(answer.workload));
  if (answer.created) fact("created", ageOf(answer.created), ` ago, ${clockTime(answer.created)}`);
  if (answer.terminating) fact("deleted at", clockTime(answer.terminating));
  fact("requests", Object.entries(answer.requests).map(([name, amount]) => `${amount} ${name}`).join(", ") || "none");
  if (Object.keys(answer.nodeSelector).length) fact("wants", named(Object.entries(answer.nodeSelector).map(([name, value]) => `${name}=${value}`).join(", ")));
  if (answer.gates.length) fact("held back by", named(answer.gates.join(", ")));
  fact("scheduler", named(answer.scheduler));
  if (answer.priority || answer.priorityClass) fact("priority", answer.priority, answer.priorityClass ? [" (", named(answer.priorityClass), ")"] : "");
  fact("uid", named(answer.uid));
  return el("dl", {class: "fact-list"}, facts);
}

function memoryPart({uid, assumed, nominations = [], failedNodes = [], held = []}, capacities) {
  if (!uid) return null;
  const items = [];
  if (assumed) items.push(el("li", {}, "◆ decided: goes to ", link("node", assumed)));
  for (const each of held) items.push(el("li", {}, "▨ keeps back ", heldWords(each, capacities)));
  for (const each of nominations) {
    items.push(el("li", {}, "◇ expected on ", link("node", each.node), each.holds ? ", and holds room for it" : ", and holds no room for it", " for ", ageOf(each.since)));
  }
  for (const each of failedNodes) {
    items.push(el("li", {}, "✖ passes over ", link("node", each.node), ` until ${clockTime(each.until)}: `, el("bdi", {}, each.why)));
  }
  return items.length ? el("ul", {class: "memory"}, items) : el("p", {class: "quiet"}, "Nothing.");
}

function conditionsPart(conditions) {
  if (!conditions.length) return null;
  const rows = conditions.map(each => [
    el("bdi", {}, each.type),
    each.status === "True" ? "✓ True" : each.status === "False" ? "✕ False" : el("bdi", {}, each.status),
    each.since ? ageOf(each.since) : "",
    el("bdi", {class: "event-message"}, [each.reason, each.message].filter(Boolean).join(": ")),
  ]);
  return factTable("Conditions", ["Condition", "Status", "Since", "Why"], rows);
}
