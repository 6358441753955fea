// The nodes of the map as a grid of which only the rows that are seen exist, with one node that the keyboard is at (the
// cursor). Where rows are is arithmetic (layout.js); a row is made when it comes into sight and goes when it leaves it.

import {el, keyed, replace, set} from "../dom.js";
import {hideTooltip, showTooltip} from "../tooltip.js";
import {GroupRows} from "./group_rows.js";
import {layOut, neighbour, seen} from "./layout.js";
import {LEVELS} from "./levels.js";
import {paintCell, sized} from "./paint.js";
import {linesAt, makeCell, updateCell} from "./tile.js";
import {barLines, nodeLabel, rowLabel} from "./words.js";

const {least: CELL_PX, gap: CELL_GAP_PX} = LEVELS.cells;
const BEYOND_PX = 240; // drawn above and below of what is seen, so that scrolling finds rows there

export class Grid {
  /** `map` has `facts`, `level`, `look()`, `openNode(name)`, `openClaim(key)`, `toggleGroup(key)`. */
  constructor(map) {
    this.map = map;
    this.groupRows = new GroupRows(map);
    this.rows = new Map();
    this.layout = layOut([], {perRow: 1});
    this.cursor = "";
    this.element = el("div", {
      class: "grid",
      role: "grid",
      "aria-label": map.options.label,
      onkeydown: event => this.onKey(event),
      onclick: event => this.onClick(event),
      onpointermove: event => this.onPointer(event),
      onpointerleave: hideTooltip,
      onfocusin: event => this.onFocus(event),
      onfocusout: hideTooltip,
    });
  }

  /** Take a new layout over, and draw what is seen of it. */
  lay(layout, columnWidth) {
    this.layout = layout;
    this.columnWidth = columnWidth;
    this.element.style.setProperty("height", `${layout.height}px`);
    set(this.element, "aria-rowcount", layout.rows.length);
    set(this.element, "aria-colcount", layout.perRow);
    const hadFocus = this.hasFocus;
    if (!layout.placeOf.has(this.cursor)) this.cursor = neighbour(layout, "", "Home") ?? "";
    this.draw({isAll: true});
    // An element that changed its place among others has lost the focus.
    if (hadFocus && !this.hasFocus) this.cellOf(this.cursor)?.focus({preventScroll: true});
  }

  /** Draw the rows that are seen: those that came into sight, and those with one of these nodes in them. */
  draw({isAll = false, nodes = new Set(), isLoose = false} = {}) {
    const box = this.element.getBoundingClientRect();
    const [first, end] = seen(this.layout, -box.top - BEYOND_PX, innerHeight - box.top + BEYOND_PX);
    const wanted = new Map();
    for (let index = first; index < end; index += 1) wanted.set(this.layout.rows[index].id, this.layout.rows[index]);
    const focused = this.layout.placeOf.get(this.cursor);
    if (focused && this.hasFocus) wanted.set(this.layout.rows[focused.row].id, this.layout.rows[focused.row]);
    for (const [id, element] of this.rows) {
      if (wanted.has(id)) continue;
      element.remove();
      this.rows.delete(id);
    }
    const look = this.map.look();
    const groups = new Set([...nodes].map(name => this.map.groupOfNode?.get(name)));
    for (const [id, row] of wanted) {
      let element = this.rows.get(id);
      const isNew = element === undefined || element.dataset.level !== this.map.level;
      if (isNew) {
        element?.remove();
        element = el("div", {class: `row ${row.kind}`, role: "row", "data-level": this.map.level});
        this.rows.set(id, element);
      }
      if (isNew || isAll || element.rowIndex !== row.index) this.place(element, row);
      if (isNew || isAll || this.isTouched(row, nodes, groups, isLoose)) this.fill(element, row, look);
      if (!element.isConnected) this.insert(element, row);
    }
    this.range = {top: -box.top, bottom: innerHeight - box.top, first, end};
    this.map.arrows?.draw();
  }

  isTouched(row, nodes, groups, isLoose) {
    if (!groups.has(row.group)) return isLoose && row.kind === "shared";
    return row.kind !== "nodes" || row.names.some(name => nodes.has(name));
  }

  place(element, row) {
    element.rowIndex = row.index;
    set(element, "aria-rowindex", row.index + 1);
    element.style.setProperty("transform", `translateY(${row.top}px)`);
    element.style.setProperty("height", `${row.height}px`);
  }

  /** In the order of rows, so that the keyboard and screen readers go through them as one sees them. */
  insert(element, row) {
    let before = null;
    for (const other of this.element.children) {
      if (other.rowIndex > row.index) {
        before = other;
        break;
      }
    }
    this.element.insertBefore(element, before);
  }

  fill(element, row, look) {
    if (row.kind === "header") this.groupRows.fillHeader(element, row);
    else if (row.kind === "shared") this.groupRows.fillShared(element, row, look);
    else if (this.map.level === "cells") this.fillCells(element, row, look);
    else this.fillTiles(element, row, look);
  }

  fillTiles(element, row, look) {
    const columnLook = {...look, width: this.columnWidth};
    keyed(
      element,
      row.names,
      name => name,
      () => makeCell(this.map.level),
      (cell, name) => {
        const fact = this.map.facts.of(name);
        if (fact) updateCell(cell, fact, this.map.level, columnLook);
        const {lane, column, top, height, more = 0} = this.layout.placeOf.get(name);
        cell.style.setProperty("transform", `translate(${lane * (this.columnWidth + LEVELS[this.map.level].gap)}px, ${top - row.top}px)`);
        cell.style.setProperty("width", `${this.columnWidth}px`);
        cell.style.setProperty("height", `${height + more}px`);
        set(cell, "aria-colindex", column + 1);
        set(cell, "tabindex", name === this.cursor ? 0 : -1);
      },
    );
  }

  /** Cells on a canvas. The row that the keyboard is in has an element a node too; others say in one sentence what they show. */
  fillCells(element, row, look) {
    let canvas = element.querySelector("canvas");
    if (canvas === null) {
      canvas = el("canvas", {class: "cells", "aria-hidden": "true"});
      element.append(canvas, el("div", {class: "over", role: "presentation"}));
    }
    const step = CELL_PX + CELL_GAP_PX;
    const context = sized(canvas, row.names.length * step, CELL_PX);
    row.names.forEach((name, column) => {
      const fact = this.map.facts.of(name);
      if (!fact) return;
      const isFound = Boolean(look.found?.nodes.has(name) || look.marks?.nodes?.has(name));
      paintCell(context, fact, {x: column * step, y: 0, size: CELL_PX, colours: look.colours, isFound, isDimmed: Boolean(look.found) && !isFound});
    });
    const over = element.lastChild;
    const names = row.names.includes(this.cursor) ? row.names : [];
    const items = names.length ? names : [null];
    keyed(
      over,
      items,
      name => name ?? " row",
      name => (name === null ? el("div", {class: "row-words", role: "gridcell"}) : makeCell("cells")),
      (cell, name) => {
        if (name === null) return set(cell, "aria-label", rowLabel(row.names, this.map.facts));
        updateCell(cell, this.map.facts.of(name), "cells", look);
        cell.style.setProperty("left", `${row.names.indexOf(name) * step}px`);
        set(cell, "aria-colindex", row.names.indexOf(name) + 1);
        set(cell, "tabindex", name === this.cursor ? 0 : -1);
      },
    );
  }

  get hasFocus() {
    return this.element.contains(document.activeElement);
  }

  /** The element of a node, if it is drawn. */
  cellOf(name) {
    const place = this.layout.placeOf.get(name);
    const row = place && this.rows.get(this.layout.rows[place.row].id);
    return row ? [...row.querySelectorAll(".cell")].find(cell => cell.dataset.node === name) : undefined;
  }

  /** Put the cursor on a node, bring it into sight, and give it the focus unless that is to stay where it is. */
  moveTo(name, {isFocused = true} = {}) {
    const place = this.layout.placeOf.get(name);
    if (place === undefined) return false;
    const touched = new Set([this.cursor, name]);
    this.cursor = name;
    const row = this.layout.rows[place.row];
    const top = this.element.getBoundingClientRect().top + place.top;
    const [least, most] = [this.map.stickyHeight() + 8, innerHeight - place.height - 8];
    if (top < least || top > most) window.scrollBy({top: top - (innerHeight - place.height) / 3});
    this.draw({nodes: touched});
    if (isFocused) {
      // The row is drawn at once: what has the cursor must be there to take the focus.
      if (!this.cellOf(name)) this.drawRow(row);
      this.cellOf(name)?.focus({preventScroll: true});
    }
    return true;
  }

  drawRow(row) {
    const element = el("div", {class: `row ${row.kind}`, role: "row", "data-level": this.map.level});
    this.rows.set(row.id, element);
    this.place(element, row);
    this.fill(element, row, this.map.look());
    this.insert(element, row);
  }

  /** Which node an event is about: {name, cell}. */
  nodeAt(event) {
    const cell = event.target.closest(".cell");
    if (cell) return {name: cell.dataset.node, cell};
    const canvas = event.target.closest("canvas.cells, .over");
    const element = event.target.closest(".row");
    const row = element && this.layout.rows[element.rowIndex];
    if (!canvas || row?.kind !== "nodes") return {};
    const column = Math.floor((event.clientX - element.getBoundingClientRect().left) / (CELL_PX + CELL_GAP_PX));
    return {name: row.names[column]};
  }

  onFocus(event) {
    const name = event.target.closest(".cell")?.dataset.node;
    if (!name || name === this.cursor) return;
    const before = this.cellOf(this.cursor);
    if (before) set(before, "tabindex", -1);
    this.cursor = name;
    set(event.target.closest(".cell"), "tabindex", 0);
  }

  onKey(event) {
    const cell = event.target.closest(".cell");
    if (!cell || event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.map.openNode(cell.dataset.node);
      return;
    }
    if (!/^(Arrow|Page|Home|End)/.test(event.key)) return;
    event.preventDefault();
    const name = neighbour(this.layout, this.cursor, event.key);
    if (name !== undefined) this.moveTo(name);
  }

  onClick(event) {
    if (event.target.closest("button")) return;
    const {name, cell} = this.nodeAt(event);
    const at = linesAt(event.target, cell, event, this.map.state.volumes);
    if (name) this.moveTo(name);
    if (at?.segment?.key !== undefined) this.map.openClaim(at.segment.key);
    else if (name) this.map.openNode(name);
  }

  onPointer(event) {
    const {name, cell} = this.nodeAt(event);
    if (this.pointed !== name) {
      this.pointed = name;
      this.map.arrows.draw();
    }
    const point = {x: event.clientX, y: event.clientY};
    const at = linesAt(event.target, cell, event, this.map.state.volumes);
    if (at) return showTooltip(event.target, at.lines ?? barLines(at.bar), point);
    const fact = name && this.map.level !== "detail" && this.map.facts.of(name);
    if (fact) showTooltip(event.target, nodeLabel(fact, this.map.marks?.nodes?.get(name)).split("; "), point);
    else hideTooltip();
  }

  /** Take everything away. */
  close() {
    hideTooltip();
    this.rows.clear();
    replace(this.element);
  }
}
