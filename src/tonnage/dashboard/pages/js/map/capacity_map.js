// The capacity map: nodes by zone, their pools as bars, claims as blocks in them. For the live cluster, and for whoever
// shows another State: a replay, or a cluster after a plan.
//
//   const map = drawMap(container, state, {
//     storageKey: "map",      under which the reader's choices are remembered; maps with one key share them
//     label: "Capacity map",  what screen readers call it
//     hasControls: true,      search, zoom, filters, legend; without them the map follows `choices`
//     choices: {…},           {colourBy, group, sort, level, isTroubleOnly, isCordonedOnly, storageClass, search}: what it begins with
//     isLive: true,           whether its nodes and pods are those of the cluster that is shown: details lead to their pages
//     onNode: name => …,      instead of opening details: what a click or Enter on a node does, its claims included
//     marks: {…},             what is to be seen in a plan or a step of a replay, see `mark`
//     beside: otherState,     a State on another map that this one is compared with: both have the scales of both
//     onChoose: choices => …, onOpen: shown => …    what the reader chose, or opened: {kind, key}, null when it was closed
//   });
//   map.show(otherState)      another State in the same place: choices, collapsed groups and scroll position stay
//   map.mark({claims: Map(key → word), nodes: Map(name → word), moves: [{key, from, to}]})   outlined blocks and nodes with
//                             a word, and arrows; null takes them away
//   map.moveTo(name)          scroll to a node and put the cursor on it; false when it is not shown
//   map.openNode(name)        its details; map.openClaim(key) likewise
//   map.choose({level: "cells" | "tiles" | "detail" | "", …})    "" is by the number of nodes
//   map.close()               ends it; the container is empty then
//
// The map follows the State by itself (State.onChange), and draws at most once a frame, only what changed and is seen.
// Rows are drawn as far as the window shows them: the container must not be clipped by an ancestor of fixed height.

import {el, replace} from "../dom.js";
import {arranged, searched} from "./arrangement.js";
import {Arrows} from "./arrows.js";
import {chosen, remember} from "./choices.js";
import {Colours} from "./colours.js";
import {Controls} from "./controls.js";
import {Facts} from "./facts.js";
import {Grid} from "./grid.js";
import {sharedHeight} from "./group_rows.js";
import {columnsOf, layOut} from "./layout.js";
import {LEVELS, LEVEL_ORDER, levelFor} from "./levels.js";
import {Loose} from "./loose.js";
import {coloursNow} from "./paint.js";
import {Panel} from "./panel.js";
import {Rulers} from "./rulers.js";
import {POOLS, scaleKey, scalesOf} from "./scale.js";
import {heightOf} from "./tile.js";

const MOST_CHANGES = 2000; // from here on all is worked out anew
const NO_SCALE = {full: 1, step: 1, classes: []};
const SORT_AGAIN_MS = 1000; // nodes that trade places while one looks at them are not calm

/** Draw a map into a container; see above. */
export function drawMap(container, state, options = {}) {
  return new CapacityMap(container, state, options);
}

class CapacityMap {
  constructor(container, state, options = {}) {
    this.options = {storageKey: "map", label: "Capacity map", hasControls: true, isLive: true, ...options};
    this.container = container;
    const asks = (this.asks = new AbortController()); // ends every listener on the document and the window
    this.choices = {...chosen(this.options.storageKey), ...options.choices};
    this.marks = options.marks ?? null;
    this.collapsed = new Set(this.choices.collapsed ?? []);
    this.colours = new Colours();
    this.pending = {}; // what changed since the last frame, as State tells it; null for everything
    this.groups = [];
    this.found = null;
    this.sortedAt = 0;
    this.arrows = new Arrows(this);
    this.grid = new Grid(this);
    this.loose = new Loose(this);
    this.panel = new Panel(this);
    this.rulers = new Rulers(); // among the controls, or above a map without them
    this.controls = this.options.hasControls ? new Controls(this) : null;
    this.stage = el("div", {class: "stage"}, this.grid.element, this.arrows.element);
    const main = el("div", {class: "map-main"}, this.controls?.element ?? this.rulers.element, this.loose.element, this.stage);
    this.element = el("div", {class: "map"}, main, this.panel.element);
    replace(container, this.element);
    document.addEventListener("scroll", () => this.schedule(), {capture: true, passive: true, signal: asks.signal});
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.look(true) && this.lay(), {signal: asks.signal});
    this.sizes = new ResizeObserver(() => this.relay());
    this.sizes.observe(this.stage);
    window.addEventListener("resize", () => this.schedule(), {signal: asks.signal});
    this.show(state);
  }

  /** Show this State from now on. */
  show(state) {
    this.unfollow?.();
    this.state = state;
    this.facts = new Facts(state);
    this.learnt = "";
    this.scales = new Map();
    this.pending = {};
    this.unfollow = state.onChange(changed => this.note(changed));
    this.arrange();
    this.panel.refresh();
  }

  /** Mark what a plan or a step changes. */
  mark(marks) {
    this.marks = marks;
    this.isLaid = false;
    this.schedule();
  }

  /** Keep what changed until the next frame. */
  note(changed) {
    for (const [name, keys] of this.pending ? Object.entries(changed) : []) {
      const known = (this.pending[name] ??= new Set());
      for (const key of keys) known.add(key);
    }
    // In a window that nobody sees no frame is drawn, perhaps for days.
    const size = Object.values(this.pending ?? {}).reduce((sum, keys) => sum + keys.size, 0);
    if (size > MOST_CHANGES) this.pending = null;
    this.isChanged = true;
    this.schedule();
  }

  schedule() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.drawFrame();
    });
  }

  drawFrame() {
    if (!this.isChanged) return this.isLaid ? this.grid.draw() : this.lay();
    const changed = this.pending;
    this.pending = {};
    this.isChanged = false;
    const touched = this.facts.update(changed);
    if (touched.isAll) this.learnt = "";
    if (touched.isAll) this.panel.refresh();
    else this.panel.refresh(touched, changed);
    if (touched.isArranged || this.isResorted(touched) || this.isRescaled()) this.arrange();
    else if (touched.isLoose && this.arrangeLoose()) this.lay();
    else if (!this.isLaid || this.isHeightChanged(touched.nodes)) this.lay();
    else this.grid.draw(touched);
    this.controls?.refresh();
  }

  /** Whether nodes may have changed their place by their figures, or many volumes are on no node; looked at once in a
   * while. */
  isResorted(touched) {
    const {sort, isTroubleOnly, isCordonedOnly, storageClass, group, search} = this.choices;
    const byFigures = sort !== "name" || isTroubleOnly || isCordonedOnly || storageClass || group === "class" || search;
    const isManyLoose = touched.isLoose && this.facts.waiting.size + this.facts.nowhere.size > MOST_CHANGES;
    if (isManyLoose) touched.isLoose = false;
    if (!isManyLoose && !(byFigures && touched.nodes.size)) return false;
    const wait_ms = this.sortedAt + SORT_AGAIN_MS - performance.now();
    if (wait_ms <= 0) return true;
    this.later ??= setTimeout(() => {
      this.later = null;
      this.arrange();
    }, wait_ms);
    return false;
  }

  /** Whether bars may have other scales; looked at once in a while. */
  isRescaled() {
    if (this.level === "cells") return false;
    if (performance.now() - this.scaledAt >= SORT_AGAIN_MS) return this.rescale();
    this.scaling ??= setTimeout(() => {
      this.scaling = null;
      if (this.rescale()) this.arrange();
    }, SORT_AGAIN_MS);
    return false;
  }

  /** Work out the scales anew; whether one is another now. */
  rescale() {
    const before = JSON.stringify([...this.scales]);
    const states = [this.state, ...(this.options.beside ? [this.options.beside] : [])];
    this.scales = scalesOf(states, [...this.loose.byGroup.values()].flat(), this.scales);
    this.scaledAt = performance.now();
    return JSON.stringify([...this.scales]) !== before;
  }

  /** By which scale a bar is drawn. */
  scaleOf(bar) {
    return this.scales.get(bar.of === POOLS ? POOLS : scaleKey(this.state, bar.of)) ?? NO_SCALE;
  }

  /** Arrange what is on no one node; whether the rows of shared capacity have other heights now. */
  arrangeLoose() {
    const before = this.groups.map(group => group.sharedHeight).join();
    this.loose.arrange();
    for (const group of this.groups) group.sharedHeight = sharedHeight(this.sharedOf(group.key), this.state.volumes);
    return this.groups.map(group => group.sharedHeight).join() !== before;
  }

  isHeightChanged(names) {
    for (const name of names) {
      const fact = this.facts.of(name);
      const place = this.grid.layout.placeOf.get(name);
      if (!fact || !place || this.level === "cells") continue;
      if (place.height !== heightOf(fact, this.level)) return true;
    }
    return false;
  }

  /** Group, sort, filter and search anew, then lay out. */
  arrange() {
    this.sortedAt = performance.now();
    this.level = this.choices.level || levelFor(this.state.nodes.size);
    this.found = searched(this.facts, this.choices.search ?? "");
    this.groups = arranged(this.facts, this.choices);
    this.arrangeLoose();
    if (this.level !== "cells") this.rescale();
    this.groupOfNode = new Map();
    for (const group of this.groups) {
      for (const name of group.names) this.groupOfNode.set(name, group.key);
      group.title = this.choices.group === "zone" && group.key ? `Zone ${group.key}` : group.label;
      group.isCollapsed = this.collapsed.has(`${this.choices.group}/${group.key}`);
    }
    this.lay();
    this.controls?.refresh();
  }

  /** Lay out for the width that there is, and draw. */
  lay() {
    const width = this.stage.clientWidth;
    const {least, gap, header} = LEVELS[this.level];
    const most = this.level === "cells" ? Infinity : Math.max(1, ...this.groups.map(group => (group.isCollapsed ? 0 : group.names.length)));
    const columns = columnsOf(width, Math.min(least, width), gap, most);
    const heightFor = name => heightOf(this.facts.of(name), this.level);
    const sizes = {perRow: columns.perRow, heightOf: this.level === "cells" ? () => least : heightFor, headerHeight: header, gap};
    const layout = layOut(this.groups, sizes);
    this.laidWidth = width;
    this.isLaid = true;
    this.element.dataset.level = this.level;
    this.grid.lay(layout, columns.width);
    this.rulers.show(this.level === "cells" ? [] : this.scales.values(), columns.width);
    this.element.style.setProperty("--controls", `${this.stickyHeight()}px`);
  }

  relay() {
    if (this.stage.clientWidth === this.laidWidth) return;
    this.isLaid = false;
    this.schedule();
  }

  groupOf(key) {
    return this.groups.find(group => group.key === key);
  }

  /** Shared capacity of a group, with the claims that lie in it: [{key, row, claims}]. */
  sharedOf(key) {
    return this.loose.sharedOf(key);
  }

  /** How things are shown now. */
  look(isAnew = false) {
    if (isAnew || !this.palette) this.palette = coloursNow(this.element);
    const {volumes} = this.state;
    return {
      colours: this.palette,
      colourOf: key => {
        this.learnColours();
        return this.colours.of(key, volumes.get(key) ?? {});
      },
      scaleOf: bar => this.scaleOf(bar),
      found: this.found,
      marks: this.marks,
      volumes,
    };
  }

  /** Names get their colours in order, all before the first is drawn; the overview often needs none. */
  learnColours() {
    this.colours.by = this.choices.colourBy;
    if (this.learnt === this.colours.by) return;
    this.learnt = this.colours.by;
    this.colours.learn(this.state);
  }

  /** Change choices and remember them. */
  choose(choices) {
    Object.assign(this.choices, choices);
    if (this.controls && this.controls.search.value !== this.choices.search) this.controls.search.value = this.choices.search;
    remember(this.options.storageKey, this.choices);
    this.arrange();
    this.panel.refresh();
    this.options.onChoose?.(this.choices);
  }

  /** Zoom in (1) or out (-1). The cursor's node stays in sight. */
  zoom(step) {
    const level = LEVEL_ORDER[Math.min(LEVEL_ORDER.length - 1, Math.max(0, LEVEL_ORDER.indexOf(this.level) + step))];
    if (level === this.level) return;
    const hadFocus = this.grid.hasFocus;
    this.choose({level});
    this.grid.moveTo(this.grid.cursor, {isFocused: hadFocus});
  }

  toggleGroup(key) {
    const id = `${this.choices.group}/${key}`;
    if (!this.collapsed.delete(id)) this.collapsed.add(id);
    this.choose({collapsed: [...this.collapsed]});
  }

  moveTo(name, options) {
    const group = this.groups.find(each => each.isCollapsed && each.names.includes(name));
    if (group) this.toggleGroup(group.key);
    return this.grid.moveTo(name, options);
  }

  openNode(name) {
    if (this.options.onNode) return this.options.onNode(name);
    this.panel.open("node", name);
  }

  openClaim(key) {
    const node = this.state.volumes.get(key)?.node;
    if (this.options.onNode) return node && this.options.onNode(node);
    this.panel.open("claim", key);
  }

  /** How much of the window's top is covered by what stays there. */
  stickyHeight() {
    return this.controls?.element.offsetHeight ?? 0;
  }

  close() {
    this.unfollow?.();
    this.asks.abort();
    this.sizes.disconnect();
    cancelAnimationFrame(this.frame);
    clearTimeout(this.later);
    clearTimeout(this.scaling);
    this.panel.close({isTold: false});
    this.grid.close();
    replace(this.container);
  }
}
