// Drawing on canvases: cells of the overview, and the bars of a tile. The same numbers as everywhere (bars.js), and no
// element a block: thousands of them stay cheap.

import {cutBars, withoutSlivers} from "./bars.js";
import {isFull} from "./signs.js";
import {moreWords, nameOn} from "./words.js";

const TOKENS = [
  ...["ink", "paper", "raised", "line", "quiet", "accent", "bad", "free"],
  ...["fill-0", "fill-1", "fill-2", "fill-3", "fill-4"],
  ...["c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7"],
];

/** The colours of css/base.css and css/map.css as they are now, light or dark, for canvases. */
export function coloursNow(container) {
  const probe = document.createElement("i");
  probe.hidden = true;
  container.append(probe);
  const found = {};
  for (const token of TOKENS) {
    probe.style.setProperty("color", `var(--${token})`);
    found[token] = getComputedStyle(probe).color;
  }
  probe.remove();
  return found;
}

/** Make a canvas so many CSS pixels large, sharp on this screen, empty; its context. */
export function sized(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  const [across, down] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
  const context = canvas.getContext("2d");
  if (canvas.width !== across || canvas.height !== down) {
    canvas.width = across;
    canvas.height = down;
    canvas.style.setProperty("width", `${width}px`);
    canvas.style.setProperty("height", `${height}px`);
  } else {
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, across, down);
  }
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

/** Which of the five steps of fullness a share belongs to. */
function fillStep(fullness) {
  return Math.min(4, Math.floor(fullness * 5));
}

/** One node as a cell: filled from below by its fullness, with the mark of its worst sign. */
export function paintCell(context, fact, {x, y, size, colours, isDimmed, isFound}) {
  context.globalAlpha = isDimmed ? 0.25 : 1;
  const isAway = fact.row.gone || fact.row.ready === false;
  context.fillStyle = colours.free;
  context.fillRect(x, y, size, size);
  if (fact.fullness === null) {
    hatch(context, x, y, size, size, colours.line, 4);
  } else {
    const high = Math.max(fact.fullness > 0 ? 1 : 0, Math.round(size * fact.fullness));
    context.fillStyle = colours[`fill-${fillStep(fact.fullness)}`];
    context.fillRect(x, y + size - high, size, high);
  }
  const sign = fact.signs.find(each => each.kind !== "kept");
  context.strokeStyle = isFound ? colours.accent : isAway ? colours.bad : colours.line;
  context.lineWidth = isFound ? 2 : 1;
  context.setLineDash(isAway ? [2, 2] : []);
  context.strokeRect(x + 0.5, y + 0.5, size - 1, size - 1);
  context.setLineDash([]);
  if (sign) paintMark(context, sign, x, y, size, colours);
  context.globalAlpha = 1;
}

/** A mark with an edge of the paper's colour around it, so that it is read on every fill. */
function paintMark(context, sign, x, y, size, colours) {
  context.font = `700 ${Math.round(size * 0.72)}px system-ui, sans-serif`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.lineJoin = "round";
  context.lineWidth = 4;
  context.strokeStyle = colours.paper;
  context.strokeText(sign.mark, x + size / 2, y + size / 2 + 1, size - 2);
  context.fillStyle = sign.isTrouble ? colours.bad : colours.ink;
  context.fillText(sign.mark, x + size / 2, y + size / 2 + 1, size - 2);
}

/** Heights of `bars` bars in a tile: [height, distance]. */
function barHeights(bars) {
  return bars <= 2 ? [13, 16] : bars <= 4 ? [10, 12] : [6, 7];
}

const MORE_PX = 13; // for the words that tell how many are not drawn

/** How high a tile's bars are, with its attach slots. */
export function barsHeight(fact) {
  const {drawn, more} = cutBars(fact.bars);
  const bars = Math.max(1, drawn.length);
  return bars * barHeights(bars)[1] + (more.length ? MORE_PX : 0) + (fact.row.slots?.length ? 7 : 0);
}

/**
 * The bars of a tile and its attach slots. What lies where is given back, for tooltips: [{x, y, width, height, bar,
 * segment}].
 */
export function paintBars(context, fact, {width, colours, colourOf, scaleOf, isFound, isMarked}) {
  const {drawn, more} = cutBars(fact.bars);
  const [high, step] = barHeights(drawn.length);
  const areas = [];
  drawn.forEach((bar, index) => {
    const y = index * step;
    const scale = scaleOf(bar);
    const pxOf = amount => (amount / scale.full) * width;
    context.fillStyle = colours.line; // the marks of the scale, where the bar does not cover them
    for (let at = scale.step; at <= scale.full * 1.0001; at += scale.step) context.fillRect(Math.min(width - 1, Math.round(pxOf(at))), y + high - 3, 1, 3);
    const across = Math.min(width, Math.max(2, pxOf(bar.size)));
    context.fillStyle = bar.kind === "claims" || bar.kind === "kept" ? colours.paper : colours.free;
    context.fillRect(0, y, across, high);
    areas.push({x: 0, y, width: across, height: high, bar});
    for (const segment of withoutSlivers(bar, (2.5 * scale.full) / width).segments) {
      const [x, wide] = [pxOf(segment.from), Math.max(1, pxOf(segment.bytes))];
      paintSegment(context, segment, {x, y, wide, high, colours, colourOf, isFound: isFound(segment.key), isMarked: isMarked(segment.key)});
      areas.push({x, y, width: wide, height: high, bar, segment});
    }
    context.strokeStyle = colours.quiet;
    context.setLineDash(bar.stale ? [3, 2] : []);
    context.lineWidth = 1;
    context.strokeRect(0.5, y + 0.5, across - 1, high - 1);
    context.setLineDash([]);
  });
  let y = Math.max(1, drawn.length) * step;
  if (more.length) {
    context.fillStyle = colours.quiet;
    context.font = "10px system-ui, sans-serif";
    context.textAlign = "left";
    context.textBaseline = "middle";
    context.fillText(moreWords(more), 0, y + MORE_PX / 2 - 1, width);
    y += MORE_PX;
  }
  paintSlots(context, fact.row.slots ?? [], y, width, colours);
  return areas;
}

function paintSegment(context, segment, {x, y, wide, high, colours, colourOf, isFound, isMarked}) {
  const {kind} = segment;
  if (kind === "kept") return hatch(context, x, y, wide, high, colours.ink, 4);
  if (kind === "other" || kind === "small") {
    context.fillStyle = colours.quiet;
    context.fillRect(x, y, wide, high);
    return;
  }
  const given = colourOf(segment.key);
  const isGhost = kind === "making" || kind === "coming" || kind === "leaving";
  context.globalAlpha = isGhost ? 0.4 : 1;
  context.fillStyle = colours[`c${given.colour}`];
  context.fillRect(x, y, Math.max(1, wide - 1), high);
  context.globalAlpha = 1;
  if (given.pattern) hatch(context, x, y, wide - 1, high, colours.paper, given.pattern === 1 ? 6 : 3);
  if (segment.entry) hatch(context, x, y, wide - 1, high, colours.quiet, 4);
  if (isGhost || isFound || isMarked) {
    context.strokeStyle = isFound || isMarked ? colours.accent : colours.ink;
    context.lineWidth = isFound || isMarked ? 2 : 1;
    context.setLineDash(isGhost ? [3, 2] : []);
    context.strokeRect(x + 1, y + 1, Math.max(1, wide - 3), high - 2);
    context.setLineDash([]);
  }
  if (wide < 12 || high < 10) return;
  const arrow = {leaving: "→", coming: "←"}[kind] ?? "";
  const words = wide >= 26 ? nameOn(segment) : arrow;
  context.save();
  context.beginPath();
  context.rect(x, y, wide - 2, high);
  context.clip();
  context.fillStyle = isGhost ? colours.ink : given.colour === 0 ? "#fff" : "#000";
  context.font = "600 9px system-ui, sans-serif";
  context.textAlign = "left";
  context.textBaseline = "middle";
  context.fillText(words, x + 2, y + high / 2 + 0.5);
  context.restore();
}

function hatch(context, x, y, width, height, colour, step) {
  context.save();
  context.beginPath();
  context.rect(x, y, width, height);
  context.clip();
  context.strokeStyle = colour;
  context.lineWidth = 1;
  context.beginPath();
  for (let at = x - height; at < x + width; at += step) {
    context.moveTo(at, y + height);
    context.lineTo(at + height, y);
  }
  context.stroke();
  context.strokeRect(x + 0.5, y + 0.5, Math.max(0, width - 1), height - 1);
  context.restore();
}

/** Ticks side by side, a driver after the other: filled ones are used; more than sixty are drawn as one line. */
function paintSlots(context, slots, y, width, colours) {
  const share = width / Math.max(1, slots.length);
  slots.forEach((each, index) => {
    const used = each.used ?? 0;
    const limit = each.limit ?? used;
    if (!limit) return;
    const left = index * share;
    const step = Math.min(6, (share - 4) / limit);
    context.fillStyle = isFull(each) ? colours.bad : colours.quiet;
    if (step < 2) {
      context.fillRect(left, y, ((share - 4) * used) / limit, 3);
      context.strokeStyle = colours.line;
      context.strokeRect(left + 0.5, y + 0.5, share - 5, 3);
      return;
    }
    for (let tick = 0; tick < limit; tick += 1) {
      if (tick < used) context.fillRect(left + tick * step, y, step - 1, 4);
      else context.fillRect(left + tick * step, y + 3, step - 1, 1);
    }
    if (isFull(each)) context.fillRect(left, y + 5, limit * step - 1, 1);
  });
}
