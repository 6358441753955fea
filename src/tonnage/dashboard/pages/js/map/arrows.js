// Arrows from where a volume is to where it is on its way, between nodes that are both drawn. The blocks themselves say it
// in words too (their tooltip, the panel, the node's label); an arrow is for the eye alone. Where many are on their way,
// only those of the node or claim that one looks at are drawn: a thicket says nothing.

import {set, svg} from "../dom.js";

const MOST = 12;

let heads = 0; // maps side by side have a head each: ids are of the whole page

export class Arrows {
  /** `map` has `grid`, `facts`, `marks`. */
  constructor(map) {
    this.map = map;
    this.head = `arrow-head-${(heads += 1)}`;
    const shape = {viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto-start-reverse"};
    const head = svg("marker", {id: this.head, ...shape}, svg("path", {d: "M0 0L8 4L0 8z", class: "arrow-head"}));
    this.paths = svg("g", {});
    this.element = svg("svg", {class: "arrows", "aria-hidden": "true", focusable: "false"}, svg("defs", {}, head), this.paths);
  }

  /** Draw those between nodes that are in sight, after the grid was drawn. */
  draw() {
    const {grid, facts, marks} = this.map;
    const {range, layout} = grid;
    const moves = [...(marks?.moves ?? []), ...facts.moving.values()];
    const isSeen = name => {
      const place = layout.placeOf.get(name);
      return place && place.top + place.height > range.top && place.top < range.bottom;
    };
    const both = moves.filter(move => isSeen(move.from) && isSeen(move.to));
    const seen = both.length <= MOST ? both : both.filter(move => this.isLookedAt(move)).slice(0, MOST);
    while (this.paths.childElementCount > seen.length) this.paths.lastChild.remove();
    while (this.paths.childElementCount < seen.length) this.paths.append(svg("path", {class: "arrow", "marker-end": `url(#${this.head})`}));
    seen.forEach((move, index) => set(this.paths.children[index], "d", this.path(move)));
    set(this.element, "data-count", seen.length);
  }

  isLookedAt({key, from, to}) {
    const names = [this.map.grid.pointed, this.map.grid.hasFocus ? this.map.grid.cursor : "", this.map.panel.shown?.key];
    return names.includes(from) || names.includes(to) || names.includes(key);
  }

  path({from, to}) {
    const [a, b] = [this.middle(from), this.middle(to)];
    // Bent to one side, so that two that cross each other's way are told apart.
    const [x, y] = [(a.x + b.x) / 2 - (b.y - a.y) / 6, (a.y + b.y) / 2 + (b.x - a.x) / 6];
    return `M${a.x} ${a.y}Q${x} ${y} ${b.x} ${b.y}`;
  }

  middle(name) {
    const {grid, level} = this.map;
    const {lane, top, height} = grid.layout.placeOf.get(name);
    const width = level === "cells" ? 20 : grid.columnWidth + 8;
    return {x: lane * width + width / 2, y: top + height / 2};
  }
}
