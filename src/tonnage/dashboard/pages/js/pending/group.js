// One cause for which pods wait, on the page: what they wait for, how near the nearest node came, what would let them in,
// and, when it is opened, the pods themselves.

import {calmOrder} from "../calm_order.js";
import {el, replace} from "../dom.js";
import {count} from "../format.js";
import {link, named} from "../links.js";
import {ageOf, setAge} from "../since.js";
import {windowed} from "../windowed.js";

const ROW = 34;
const MOST_FIRST = 3;

/** By cause: a sign and a word for it; colour says nothing that these do not. */
const KINDS = {
  storage: ["▤", "storage"],
  reserved: ["▨", "reserved"],
  capacity: ["∅", "no capacity"],
  volumes: ["▣", "volume"],
  slots: ["⚯", "attach slots"],
  resources: ["◔", "resources"],
  taints: ["⊘", "taints"],
  cordoned: ["⊖", "cordoned"],
  selector: ["⌖", "node selector"],
  places: ["⌂", "volume's place"],
  gates: ["‖", "held back"],
  scheduler: ["↗", "other scheduler"],
  nobody: ["∄", "no scheduler"],
  fits: ["✓", "fits"],
  assumed: ["→", "on its way"],
  terminating: ["✕", "being deleted"],
  reasons: ["?", "other reasons"],
};

/** A group's element; `opened` is the set of keys of groups that are open. */
export function makeGroup(key, opened) {
  const parts = {
    number: el("span", {class: "cause-count"}),
    kind: el("span", {class: "cause-kind"}),
    message: el("span", {class: "cause-message"}),
    oldest: el("span", {class: "cause-oldest"}),
    miss: el("p", {class: "cause-miss"}),
    help: el("p", {class: "cause-help"}),
    first: el("p", {class: "cause-first"}),
    body: el("div", {class: "cause-pods"}),
  };
  const details = el(
    "details",
    {class: "cause-details", open: opened.has(key)},
    el("summary", {}, "Pods"),
    parts.body,
  );
  const element = el(
    "article",
    {class: "cause"},
    el("h3", {class: "cause-head"}, parts.number, parts.kind, parts.message, parts.oldest),
    parts.miss,
    parts.help,
    parts.first,
    details,
  );
  const pods = podList();
  details.addEventListener("toggle", () => {
    if (details.open) opened.add(key);
    else opened.delete(key);
    if (details.open) fillPods();
  });
  const fillPods = () => {
    if (!pods.element.isConnected) parts.body.append(pods.element);
    pods.show(element.group?.pods ?? []);
  };
  element.group = null;
  element.parts = parts;
  element.details = details;
  element.fillPods = fillPods;
  return element;
}

/** Bring a group's element up to date. */
export function updateGroup(element, group, isGone) {
  const {number, kind, message, oldest, miss, help, first} = element.parts;
  const [sign, word] = KINDS[group.cause.kind] ?? KINDS.reasons;
  element.dataset.kind = group.cause.kind;
  element.classList.toggle("cause-fits", group.fits);
  element.classList.toggle("cause-gone", isGone);
  if (element.group === group && element.isGone === isGone) return;
  element.group = group;
  element.isGone = isGone;
  number.textContent = group.pods.length.toLocaleString("en");
  replace(kind, el("span", {"aria-hidden": "true"}, `${sign} `), word);
  replace(message, el("bdi", {}, group.message), isGone ? " (not any more)" : "");
  const since = group.pods.map(pod => pod.since ?? "").filter(Boolean).sort()[0];
  replace(oldest, since ? ["longest for ", ageOf(since)] : "");
  showMiss(miss, group.nearestMiss);
  showHelp(help, group);
  showFirst(first, group.pods);
  element.details.querySelector("summary").textContent = `${count(group.pods.length, "pod")} one by one`;
  if (element.details.open) element.fillPods();
}

function showMiss(element, miss) {
  element.hidden = !miss;
  if (!miss) return;
  if (miss.node) replace(element, "nearest miss on ", link("node", miss.node), ": ", el("bdi", {}, miss.told));
  else replace(element, el("bdi", {}, miss.told));
}

function showHelp(element, group) {
  const best = group.wouldHelp[0];
  element.hidden = !best;
  if (!best) return;
  const all = group.pods.length;
  const whom = all === 1 ? "it" : best.pods === all ? "all of them" : `${best.pods.toLocaleString("en")} of them`;
  replace(element, el("bdi", {}, best.change), `: would let ${whom} in`);
}

/** The first few at once: one click to why. */
function showFirst(element, pods) {
  const told = pods.slice(0, MOST_FIRST).map((pod, number) => [number ? ", " : "", link("explanation", pod.pod)]);
  const more = pods.length - told.length;
  replace(element, "why: ", told, more > 0 ? ` and ${more.toLocaleString("en")} more` : "");
}

// -- pods ------------------------------------------------------------------------------------------------------------

function podList() {
  const list = windowed({
    label: "Pods of this cause",
    rowHeight: ROW,
    most: 12,
    keyOf: ({key}) => key,
    make: ({item}) => {
      const row = el(
        "div",
        {class: "waiting-pod"},
        link("explanation", item.pod, {title: `Why: ${item.pod}`}),
        el("span", {class: "waiting-workload"}),
        el("span", {class: "waiting-where"}),
        item.since ? ageOf(item.since) : el("time", {class: "age"}),
        link("pod", item.pod, {class: "story-link", "aria-label": `Story of pod ${item.pod}`}),
      );
      replace(row.querySelector(".story-link"), "story");
      return row;
    },
    update: (row, {item, isGone}) => {
      row.classList.toggle("cause-gone", isGone);
      setAge(row.querySelector("time"), item.since);
      const where = item.node ? `→ ${item.node}` : item.preemption ?? "";
      if (row.dataset.where === where && row.dataset.workload === (item.workload ?? "")) return;
      row.dataset.where = where;
      row.dataset.workload = item.workload ?? "";
      replace(row.querySelector(".waiting-workload"), item.workload ? named(item.workload) : "");
      replace(row.querySelector(".waiting-where"), el("bdi", {title: where}, where));
    },
  });
  let pods = [];
  const show = () => list.show(calm.order(pods, pod => pod.pod));
  const calm = calmOrder(list.element, show);
  return {
    element: list.element,
    show(next) {
      pods = next;
      show();
    },
  };
}
