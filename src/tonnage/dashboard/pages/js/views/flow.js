// Flow: decisions, reservations, bindings, provisioning, attachments and rebuilds as they happen, one lane a pod, the one
// with the newest step on top. Lanes stay where they are while somebody points at them, and all of them while paused. Which
// lanes are shown stands in the address: ?search=TEXT&namespace=NAME&workload=KIND/NAMESPACE/NAME&step=KIND&moving=yes.

import {calmOrder} from "../calm_order.js";
import {el, replace, say} from "../dom.js";
import {makeLane, updateLane} from "../flow/lane.js";
import {KINDS, kindOf, newsOf} from "../flow/steps.js";
import {count} from "../format.js";
import {compareNames} from "../names.js";
import {keepAges} from "../since.js";
import {windowed} from "../windowed.js";

export const title = "Flow";

const ROW = matchMedia("(max-width: 36rem)").matches ? 118 : 66; // on a telephone the headline has lines of its own
let chosen = choicesOf(new URLSearchParams()); // kept for when one comes back

/** Show the flow in `main`; gives back how it is closed, and how it shows another address. */
export function open(main, {state, query, tell}) {
  if (query.size) chosen = choicesOf(query);
  const told = el("p", {class: "flow-told", role: "status"});
  const pause = el("button", {type: "button", "aria-pressed": "false"}, "Pause");
  const namespaces = select("Namespace", "all namespaces");
  const workloads = select("Workload", "all workloads");
  const kinds = select("Kind of step", "all steps");
  const search = el("input", {type: "search", placeholder: "pod, node or text", "aria-label": "Show lanes that contain this text"});
  const moving = el("input", {type: "checkbox"});
  const empty = el("p", {class: "quiet"});
  const list = windowed({label: "Lanes of pods", rowHeight: ROW, most: 1000, keyOf: ({key}) => key, make: makeLane, update: updateLane});
  const view = el(
    "div",
    {class: "flow"},
    el("div", {class: "view-head"}, el("h2", {}, "Flow"), told, el("div", {class: "view-tools"}, pause)),
    el("div", {class: "flow-filters", role: "group", "aria-label": "Which lanes"}, search, namespaces, workloads, kinds, el("label", {}, moving, " not done yet")),
    empty,
    list.element,
  );
  main.append(view);

  let paused = null; // the lanes as they were
  let isAsked = false;
  const current = () => paused ?? lanesOf(state);

  const draw = () => {
    isAsked = false;
    const lanes = current();
    fillOptions(lanes);
    const shown = lanes.filter(isWanted);
    list.show(calm.order(shown, lane => lane.key));
    list.element.hidden = !shown.length;
    empty.textContent = shown.length ? "" : lanes.length ? "No lane contains this text." : "Nothing has happened since this dashboard started.";
    say(told, `${count(shown.length, "pod")}${shown.length < lanes.length ? ` of ${lanes.length.toLocaleString("en")}` : ""}${paused ? " · paused" : ""}`);
  };
  const calm = calmOrder(list.element, () => draw());
  const drawSoon = () => {
    if (isAsked) return;
    isAsked = true;
    requestAnimationFrame(draw);
  };

  function fillOptions(lanes) {
    setOptions(namespaces, chosen.namespace, new Set(lanes.map(({lane}) => lane.pod.split("/")[0])));
    setOptions(workloads, chosen.workload, new Set(lanes.map(({workload}) => workload).filter(Boolean)));
    const present = new Set(lanes.flatMap(({lane}) => (lane.steps ?? []).map(step => step.kind)));
    setOptions(kinds, chosen.kind, new Set([...Object.keys(KINDS), ...present].filter(kind => present.has(kind))), kind => kindOf({kind}).word);
  }

  const choose = (name, read) => event => {
    chosen[name] = read(event.target);
    tell([], queryOf(chosen), {isNew: name !== "word"});
    draw();
  };
  const showChosen = () => {
    search.value = chosen.word;
    moving.checked = chosen.moving;
    for (const field of [namespaces, workloads, kinds]) delete field.dataset.offered;
    draw();
  };
  namespaces.addEventListener("change", choose("namespace", field => field.value));
  workloads.addEventListener("change", choose("workload", field => field.value));
  kinds.addEventListener("change", choose("kind", field => field.value));
  search.addEventListener("input", choose("word", field => field.value));
  moving.addEventListener("change", choose("moving", field => field.checked));
  pause.addEventListener("click", () => {
    paused = paused ? null : lanesOf(state);
    pause.setAttribute("aria-pressed", String(Boolean(paused)));
    pause.textContent = paused ? "Go on" : "Pause";
    draw();
  });
  tell([], queryOf(chosen), {isNew: false});
  showChosen();
  const stopFollowing = state.onChange(changed => {
    if ((changed.lanes || changed.pods) && !paused) drawSoon();
  });
  const stopAges = keepAges(view);
  return {
    close: () => {
      stopFollowing();
      stopAges();
      list.close();
    },
    goTo: asked => {
      chosen = choicesOf(asked);
      showChosen();
    },
  };
}

function choicesOf(query) {
  const of = name => query.get(name) ?? "";
  return {namespace: of("namespace"), workload: of("workload"), kind: of("step"), word: of("search"), moving: of("moving") === "yes"};
}

function queryOf({namespace, workload, kind, word, moving}) {
  return {search: word, namespace, workload, step: kind, moving: moving ? "yes" : ""};
}

/** Every lane with its pod's workload, the one with the newest step first. */
function lanesOf(state) {
  const lanes = [];
  for (const [key, lane] of state.lanes) {
    const pod = state.pods.get(lane.pod);
    lanes.push({key, lane, workload: pod?.uid === key ? pod.workload ?? "" : "", news: newsOf(lane)});
  }
  return lanes.sort((one, other) => other.news - one.news || (one.key < other.key ? -1 : 1));
}

function isWanted({lane, workload}) {
  const word = chosen.word.trim().toLowerCase();
  const steps = lane.steps ?? [];
  if (chosen.namespace && !lane.pod.startsWith(`${chosen.namespace}/`)) return false;
  if (chosen.workload && workload !== chosen.workload) return false;
  if (chosen.kind && !steps.some(step => step.kind === chosen.kind)) return false;
  if (chosen.moving && lane.done) return false;
  return !word || `${lane.pod} ${workload}`.toLowerCase().includes(word) || steps.some(step => `${step.text} ${step.node ?? ""}`.toLowerCase().includes(word));
}

function select(label, all) {
  return el("select", {"aria-label": label}, el("option", {value: ""}, all));
}

/** Offer these values, besides all of them; what is chosen stays offered while it is chosen. */
function setOptions(field, value, values, wordOf = each => each) {
  const offered = [...new Set([...values, ...(value ? [value] : [])])].sort(compareNames);
  const key = JSON.stringify(offered);
  if (field.dataset.offered === key) return;
  field.dataset.offered = key;
  replace(field, field.options[0], offered.map(each => el("option", {value: each}, wordOf(each))));
  field.value = value;
}
