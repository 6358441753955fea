// "What if these nodes were drained?": choose nodes, preview, and see it in words and on the map.

import {el, replace} from "../dom.js";
import {drawMap} from "../map/capacity_map.js";
import {afterDrain, copyOf} from "./after.js";
import {Question} from "./asking.js";
import {BeforeAfter} from "./before_after.js";
import {drainReport} from "./drain_report.js";
import {NodePicker} from "./node_picker.js";

/** Show it in `place`, with these nodes chosen, and asked about at once if there are any. Gives back what closes it. */
export function openDrain(place, {state}, names = "") {
  const chosen = names.split(",").filter(Boolean);
  const answerPlace = el("div", {class: "answer"});
  const mapPlace = el("div", {class: "asked-map"});
  const button = el("button", {type: "submit", class: "main"}, "Preview the drain");
  const oneByOne = el("input", {type: "checkbox", id: "one-by-one"});
  let chooser = null;
  let plan = null;
  const question = new Question(state, answerPlace, () => preview());

  const picker = new NodePicker(state, chosen, nodes => {
    history.replaceState(history.state, "", `#/what-if/drain/${nodes.map(encodeURIComponent).join(",")}`);
    button.disabled = !nodes.length;
    markChosen();
    if (plan) forget();
  });
  button.disabled = !chosen.length;

  function markChosen() {
    chooser?.mark({nodes: new Map([...picker.chosen].map(node => [node, "chosen"])), claims: new Map(), moves: []});
  }

  /** The live map, on which nodes are chosen by a click. */
  function choose() {
    plan?.close();
    plan = null;
    const inner = el("div", {class: "map-place"});
    replace(mapPlace, inner);
    chooser = drawMap(inner, state, {storageKey: "what-if", label: "Nodes to choose from", onNode: node => picker.toggle(node)});
    markChosen();
  }

  function forget() {
    question.close();
    replace(answerPlace);
    choose();
  }

  async function preview() {
    if (!picker.chosen.size) return;
    const before = copyOf(state);
    const nodes = [...picker.chosen];
    const answer = await question.ask("/api/v1/drain-preview", {nodes, oneByOne: oneByOne.checked}, "Rehearsing the drain", drainReport);
    if (answer === undefined) return;
    chooser?.close();
    chooser = null;
    plan?.close();
    plan = new BeforeAfter({label: "The drain", way: plan?.way});
    replace(mapPlace, plan.element);
    const {state: after, marks} = afterDrain(before, answer);
    plan.show(before, after, marks);
  }

  const form = el(
    "form",
    {
      class: "question",
      onsubmit: event => {
        event.preventDefault();
        preview();
      },
    },
    picker.element,
    el("p", {class: "quiet"}, "By their names, or by a click on the map."),
    el("p", {class: "line"}, oneByOne, el("label", {for: "one-by-one"}, "one after the other, each back before the next")),
    el("p", {class: "actions"}, button),
  );
  replace(place, el("div", {class: "asked"}, form, answerPlace, mapPlace));
  choose();
  if (chosen.length) preview();
  return () => {
    question.close();
    chooser?.close();
    plan?.close();
  };
}
