// A cluster before and after, on the map: one of them, or both side by side. Both are copies of the moment of the answer,
// so that what differs between them is the plan and nothing else.

import {el, replace, set} from "../dom.js";
import {drawMap} from "../map/capacity_map.js";

const WAYS = {after: "After", before: "Before", both: "Side by side"};

export class BeforeAfter {
  /** `label` is what the plan is called, for screen readers. */
  constructor({label, way = "after"}) {
    this.label = label;
    this.way = way;
    this.maps = [];
    this.buttons = Object.entries(WAYS).map(([name, words]) => el("button", {type: "button", "data-way": name, onclick: () => this.choose(name)}, words));
    this.places = el("div", {class: "before-after"});
    this.element = el("section", {class: "plan-map", "aria-label": label}, el("div", {class: "segments", role: "group", "aria-label": "Which cluster is shown"}, this.buttons), this.places);
  }

  /** Show these states; `marks` is what the plan changes. */
  show(before, after, marks) {
    this.shown = {before, after, marks};
    this.draw();
  }

  choose(way) {
    this.way = way;
    this.draw();
  }

  draw() {
    this.close();
    for (const button of this.buttons) set(button, "aria-pressed", button.dataset.way === this.way ? "true" : "false");
    const {before, after, marks} = this.shown;
    const wanted = this.way === "both" ? ["before", "after"] : [this.way];
    set(this.places, "data-way", this.way);
    const leaving = {...marks, claims: new Map([...marks.claims].map(([key]) => [key, "goes from here"]))};
    const columns = wanted.map(which => {
      const place = el("div", {class: "map-place"});
      const state = which === "before" ? before : after;
      return {which, place, state, column: el("div", {class: "map-column"}, el("h3", {}, WAYS[which]), place)};
    });
    replace(this.places, columns.map(each => each.column));
    // Maps measure their place: they are drawn once it is on the page.
    for (const {which, place, state} of columns) {
      this.maps.push(drawMap(place, state, {storageKey: "what-if", label: `${this.label}: ${WAYS[which].toLowerCase()}`, hasControls: wanted.length === 1, beside: which === "after" ? before : after, marks: which === "after" ? marks : leaving}));
    }
  }

  close() {
    for (const map of this.maps) map.close();
    this.maps = [];
  }
}
