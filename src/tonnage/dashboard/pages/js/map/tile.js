// A node of the map as elements: a tile (name, signs, bars on a canvas) and a detailed one, in which every block is an
// element with its name. Both are made once and updated in place.

import {el, keyed, replace, say, set} from "../dom.js";
import {bytes, count, percent} from "../format.js";
import {cutBars, withoutSlivers} from "./bars.js";
import {barsHeight, paintBars, sized} from "./paint.js";
import {isFull} from "./signs.js";
import {barWords, moreWords, nameOn, nodeLabel, segmentLines} from "./words.js";

const NAME_HEIGHT = 22;
const PADDING = 14;
const MORE_HEIGHT = 20;
const [NAME_PX, LETTER_PX, SIGN_PX] = [90, 6.8, 22]; // the least of a name, a letter of a sign, and what stands around it

/** How high a node is drawn at a level. Rows that are not drawn are laid out by this. */
export function heightOf(fact, level) {
  if (level === "tiles") return NAME_HEIGHT + barsHeight(fact) + PADDING;
  const {drawn, more} = cutBars(fact.bars);
  return 2 * NAME_HEIGHT + Math.max(1, drawn.length) * (isCompact(drawn) ? 28 : 42) + (more.length ? MORE_HEIGHT : 0) + (fact.row.slots?.length ?? 0) * 22 + PADDING;
}

/** Many bars are drawn lower, so that a node with ten pools is not ten times as high as its neighbours. */
function isCompact(drawn) {
  return drawn.length > 3;
}

/** How long a full bar is in a cell of this width. */
export function barWidth(columnWidth) {
  return Math.max(20, Math.floor(columnWidth - PADDING));
}

/** A cell for one node, empty yet. */
export function makeCell(level) {
  const cell = el("div", {class: `cell ${level}`, role: "gridcell", tabindex: -1});
  if (level === "cells") return cell;
  cell.append(el("span", {class: "cell-words unseen"}));
  cell.append(el("div", {class: "cell-head", "aria-hidden": "true"}, el("bdi", {class: "cell-name"}), el("span", {class: "cell-signs"})));
  if (level === "tiles") cell.append(el("canvas", {class: "bars", "aria-hidden": "true"}));
  else cell.append(el("div", {"aria-hidden": "true"}, el("div", {class: "cell-sums"}), el("div", {class: "detail-bars"}), el("div", {class: "slots"})));
  return cell;
}

/** Show a node in its cell. `look` is how the map shows things now: {colours, colourOf, scaleOf, found, marks, width, volumes}. */
export function updateCell(cell, fact, level, look) {
  const mark = look.marks?.nodes?.get(fact.name) ?? "";
  cell.dataset.node = fact.name;
  cell.classList.toggle("is-gone", Boolean(fact.row.gone));
  cell.classList.toggle("is-not-ready", fact.row.ready === false);
  cell.classList.toggle("is-cordoned", Boolean(fact.row.cordoned));
  cell.classList.toggle("is-dimmed", Boolean(look.found) && !look.found.nodes.has(fact.name));
  cell.classList.toggle("is-found", Boolean(look.found?.nodes.has(fact.name)));
  cell.classList.toggle("is-marked", Boolean(mark));
  const words = nodeLabel(fact, mark);
  if (level === "cells") return set(cell, "aria-label", words);
  say(cell.firstChild, words);
  say(cell.querySelector(".cell-name"), fact.name);
  showSigns(cell.querySelector(".cell-signs"), fact, level, mark, look.width);
  if (level === "tiles") {
    const canvas = cell.querySelector("canvas");
    const width = barWidth(look.width);
    cell.areas = paintBars(sized(canvas, width, barsHeight(fact)), fact, {
      width,
      colours: look.colours,
      colourOf: look.colourOf,
      scaleOf: look.scaleOf,
      isFound: key => Boolean(look.found?.claims.has(key)),
      isMarked: key => Boolean(look.marks?.claims?.has(key)),
    });
  } else {
    showDetail(cell, fact, look);
  }
}

/** Words where there is room for them, marks where there is not; the label has all in words. */
function showSigns(element, fact, level, mark, width) {
  const shown = fact.signs.filter(sign => sign.kind !== "kept");
  const most = level === "tiles" ? 1 : wordsThatFit(shown, width);
  replace(
    element,
    mark && el("span", {class: "sign marked"}, el("bdi", {}, mark)),
    shown.slice(0, most).map(sign => {
      const words = `${sign.mark} ${level === "tiles" ? sign.short : sign.word}`;
      return el("span", {class: sign.isTrouble ? "sign trouble" : "sign", "data-sign": sign.kind}, words);
    }),
    shown.length > most && el("span", {class: "sign"}, shown.slice(most).map(sign => sign.mark).join(" ")),
  );
}

/** How many signs have room for their words beside a name, which is cut before them: at least one. */
function wordsThatFit(signs, width) {
  let left = width - NAME_PX;
  const full = signs.findIndex(sign => (left -= sign.word.length * LETTER_PX + SIGN_PX) < 0);
  return full < 0 ? signs.length : Math.max(1, full);
}

function showDetail(cell, fact, look) {
  const sums = [
    fact.fullness === null ? "fullness not known" : `${percent(fact.fullness)} full`,
    fact.free === null ? "" : `${bytes(fact.free)} free`,
    fact.kept ? `${bytes(fact.kept)} kept back` : "",
    count(fact.row.pods ?? 0, "pod"),
  ];
  replace(cell.querySelector(".cell-sums"), sums.filter(Boolean).join(" · "));
  const {drawn, more} = cutBars(fact.bars);
  const bars = cell.querySelector(".detail-bars");
  bars.classList.toggle("is-compact", isCompact(drawn));
  showBars(bars, drawn, look);
  replace(cell.querySelector(".slots"), more.length ? el("div", {class: "more-bars"}, moreWords(more)) : null, (fact.row.slots ?? []).map(slotsElement));
}

/** Bars with a block an element, each by the scale of its class. Also in the panel, and for capacity that nodes share. */
export function showBars(parent, bars, look) {
  const items = bars.map((bar, index) => ({...withoutSlivers(bar, look.scaleOf(bar).full / 160), key: `${index} ${bar.kind}`}));
  keyed(
    parent,
    items,
    bar => bar.key,
    () => el("div", {class: "detail-bar"}, el("div", {class: "bar-label"}), el("div", {class: "bar", role: "presentation"})),
    (element, bar) => {
      const [label, track] = element.children;
      replace(label, el("bdi", {}, barWords(bar)), bar.stale && el("b", {class: "stale-word"}, " stale"));
      track.dataset.kind = bar.kind;
      track.classList.toggle("is-stale", Boolean(bar.stale));
      const {full, step} = look.scaleOf(bar);
      element.style.setProperty("--step", `${(100 * step) / full}%`);
      track.style.setProperty("width", `${Math.min(100, (100 * bar.size) / full)}%`);
      track.bar = bar;
      showSegments(track, bar, look);
    },
  );
}

function showSegments(track, bar, look) {
  keyed(
    track,
    bar.segments,
    segment => segmentId(segment),
    () => el("span", {class: "block"}, el("span", {class: "block-name", "aria-hidden": "true"})),
    (block, segment) => {
      block.segment = segment;
      block.dataset.kind = segment.kind;
      set(block, "data-claim", segment.key);
      set(block, "data-kept", segment.entry !== undefined);
      const given = segment.key === undefined ? null : look.colourOf(segment.key);
      block.dataset.colour = given?.colour ?? "";
      block.dataset.pattern = given?.pattern ?? "";
      block.style.setProperty("left", `${(100 * segment.from) / bar.size}%`);
      block.style.setProperty("width", `${(100 * segment.bytes) / bar.size}%`);
      block.classList.toggle("is-found", Boolean(look.found?.claims.has(segment.key)));
      block.classList.toggle("is-marked", Boolean(look.marks?.claims?.has(segment.key)));
      say(block.firstChild, nameOn(segment));
    },
  );
}

function segmentId(segment) {
  if (segment.key !== undefined) return `${segment.kind} ${segment.key}`;
  if (segment.kind === "kept") return `kept ${segment.entry.capacity ?? ""} ${segment.entry.pod} ${(segment.entry.claims ?? []).join()}`;
  return `${segment.kind} ${segment.keys?.[0] ?? ""}`;
}

/** Attach slots of one driver: as many ticks as there are slots, and the figures. */
export function slotsElement(each) {
  const [used, limit] = [each.used ?? 0, each.limit];
  const isTold = limit !== undefined && limit !== null;
  const tick = (_, index) => el("i", {class: index < used ? "tick used" : "tick"});
  const ticks = isTold && limit <= 64 && el("span", {class: "ticks", "aria-hidden": "true"}, Array.from({length: limit}, tick));
  return el(
    "div",
    {class: isFull(each) ? "slot-line is-full" : "slot-line"},
    el("span", {class: "slot-words"}, el("bdi", {}, each.driver), ` ${used}${isTold ? ` of ${limit}` : ""} attached${isFull(each) ? ", full" : ""}`),
    ticks,
  );
}

/** What lies under a point of a cell, in words; null where there is nothing of its own. */
export function linesAt(target, cell, event, volumes) {
  const block = target.closest(".block");
  if (block?.segment) return {lines: segmentLines(block.segment, volumes), segment: block.segment};
  if (!cell?.areas || target.tagName !== "CANVAS") return null;
  const box = target.getBoundingClientRect();
  const [x, y] = [event.clientX - box.left, event.clientY - box.top];
  const isIn = area => x >= area.x && x < area.x + area.width && y >= area.y && y < area.y + area.height;
  const area = cell.areas.findLast(isIn);
  if (area === undefined) return null;
  return area.segment ? {lines: segmentLines(area.segment, volumes), segment: area.segment} : {bar: area.bar};
}
