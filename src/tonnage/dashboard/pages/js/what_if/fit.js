// "How many more would fit?": a workload of the cluster or a template, counted, in words and on the map.

import {ask} from "../api.js";
import {el, replace} from "../dom.js";
import {drawMap} from "../map/capacity_map.js";
import {problem} from "../problem.js";
import {afterFit, copyOf} from "./after.js";
import {Question} from "./asking.js";
import {BeforeAfter} from "./before_after.js";
import {fitReport} from "./fit_report.js";

const MOST = 10000;

/** Show it in `place`, for this workload if one is named. Gives back what closes it. */
export function openFit(place, {state}, workload = "") {
  const answerPlace = el("div", {class: "answer"});
  const mapPlace = el("div", {class: "asked-map"});
  const choices = el("datalist", {id: "workloads"});
  const field = el("input", {id: "workload", list: "workloads", autocomplete: "off", placeholder: "StatefulSet/shop/db", value: workload || null});
  const template = el("textarea", {id: "template", rows: 8, spellcheck: "false", placeholder: "apiVersion: apps/v1\nkind: StatefulSet\n…"});
  const most = el("input", {id: "most", type: "number", min: 0, max: MOST, value: MOST, required: true});
  const told = el("p", {class: "quiet", role: "status"});
  let plan = null;
  let live = null; // the map as it is, until there is an answer
  const question = new Question(state, answerPlace, () => fit());

  async function listWorkloads() {
    try {
      const {workloads} = await ask("/api/v1/workloads");
      replace(choices, workloads.map(each => el("option", {value: each})));
      replace(told, workloads.length ? "" : "This cluster has no workloads; paste a template.");
    } catch (error) {
      replace(answerPlace, problem(error));
    }
  }

  async function fit() {
    const before = copyOf(state);
    const body = template.value.trim() ? {template: template.value} : {workload: field.value.trim()};
    if (body.workload) history.replaceState(history.state, "", `#/what-if/fit/${encodeURIComponent(body.workload)}`);
    const waiting = [...state.pods.values()].filter(row => !row.node && (row.phase ?? "Pending") === "Pending").length;
    const answer = await question.ask("/api/v1/fit", {...body, max: most.valueAsNumber}, "Placing replicas", found => fitReport(found, {zoneOf: node => before.nodes.get(node)?.zone ?? "", waiting}));
    if (answer === undefined) return;
    live?.close();
    live = null;
    plan?.close();
    plan = new BeforeAfter({label: "With the replicas that fit", way: plan?.way});
    replace(mapPlace, plan.element);
    const {state: after, marks} = afterFit(before, answer);
    plan.show(before, after, marks);
  }

  async function takeFile(file) {
    if (file) template.value = await file.text();
  }

  const file = el("input", {type: "file", id: "template-file", accept: ".yaml,.yml,.json", onchange: () => takeFile(file.files[0])});
  const pasted = el("details", {class: "template"}, el("summary", {}, "Or a template of a workload that does not exist yet"), el("label", {for: "template"}, "A workload, or a pod with its claims (YAML or JSON)"), template, el("label", {for: "template-file"}, "From a file"), file);
  const form = el(
    "form",
    {
      class: "question",
      onsubmit: event => {
        event.preventDefault();
        fit();
      },
      ondragover: event => event.preventDefault(),
      ondrop: event => {
        event.preventDefault();
        pasted.open = true;
        takeFile(event.dataTransfer.files[0]);
      },
    },
    el("label", {for: "workload"}, "Workload"),
    field,
    choices,
    told,
    pasted,
    el("label", {for: "most"}, "Stop counting at"),
    most,
    el("p", {class: "actions"}, el("button", {type: "submit", class: "main"}, "Count")),
  );
  replace(place, el("div", {class: "asked"}, form, answerPlace, mapPlace));
  const inner = el("div", {class: "map-place"});
  replace(mapPlace, inner);
  live = drawMap(inner, state, {storageKey: "what-if", label: "The cluster as it is"});
  listWorkloads();
  if (workload) fit();
  return () => {
    question.close();
    live?.close();
    plan?.close();
  };
}
