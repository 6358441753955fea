// One small chart: a line or bars over time, drawn as SVG, with what it shows in words.

import {el, replace, say, svg} from "../dom.js";
import {clockTime} from "../format.js";

const WIDTH = 300;
const HEIGHT = 64;
const MOST_POINTS = 150; // a point for every second pixel

/** A chart to be drawn: {element, draw(series, samples, {begin, end, at})}. */
export function makeChart(series) {
  const now = el("span", {class: "chart-now"});
  const picture = svg("svg", {class: "chart-picture", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img"});
  const most = el("span", {class: "chart-most"});
  const start = el("span", {});
  const end = el("span", {}, "now");
  const element = el(
    "figure",
    {class: "chart"},
    el("figcaption", {}, el("bdi", {class: "chart-title"}, series.title), now),
    el("div", {class: "chart-body"}, picture, most),
    el("div", {class: "chart-axis quiet", "aria-hidden": "true"}, start, end),
  );

  function draw(series, samples, span) {
    const points = reduced(samples, series);
    const values = points.map(each => each.value);
    const top = Math.max(series.top, ...values, series.isBars ? 3 : 1);
    const x = at => ((at - span.begin) / (span.end - span.begin)) * WIDTH;
    const y = value => HEIGHT - 1 - (value / top) * (HEIGHT - 4);
    const parts = series.isBars ? bars(points, x, y) : line(points, x, y);
    const cursor = x(Date.parse(span.at.at));
    replace(picture, ...parts, svg("line", {class: "chart-cursor", x1: cursor, x2: cursor, y1: 0, y2: HEIGHT, "vector-effect": "non-scaling-stroke"}));
    const value = series.read(span.at);
    say(now, value === null ? "unknown" : series.text(value, span.at));
    now.classList.toggle("is-bad", !series.isWorseLow && value > 0);
    say(most, values.some(Boolean) ? series.brief(top) : ""); // above nothing, a number would be taken for a value
    say(start, clockTime(new Date(span.begin).toISOString()));
    picture.setAttribute("aria-label", wordsOf(series, points, samples));
  }

  return {element, draw};
}

/** The worst sample of every stretch, so that a short peak is not lost between two pixels. */
function reduced(samples, series) {
  const points = samples.map(each => ({at: Date.parse(each.at), value: series.read(each)})).filter(each => each.value !== null);
  if (series.isBars || points.length <= MOST_POINTS) return points;
  const size = Math.ceil(points.length / MOST_POINTS);
  const found = [];
  for (let begin = 0; begin < points.length; begin += size) {
    const worst = (one, other) => ((series.isWorseLow ? other.value < one.value : other.value > one.value) ? other : one);
    found.push(points.slice(begin, begin + size).reduce(worst));
  }
  if (found.at(-1) !== points.at(-1)) found.push(points.at(-1));
  return found;
}

function line(points, x, y) {
  if (!points.length) return [];
  const steps = points.map(({at, value}) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`);
  const [first, last] = [x(points[0].at).toFixed(1), x(points.at(-1).at).toFixed(1)];
  return [
    svg("polygon", {class: "chart-area", points: `${first},${HEIGHT} ${steps.join(" ")} ${last},${HEIGHT}`}),
    svg("polyline", {class: "chart-line", points: steps.join(" "), "vector-effect": "non-scaling-stroke"}),
  ];
}

function bars(points, x, y) {
  return points
    .filter(each => each.value)
    .map(({at, value}) => svg("line", {class: "chart-bar", x1: x(at), x2: x(at), y1: HEIGHT, y2: y(value), "vector-effect": "non-scaling-stroke"}));
}

function wordsOf(series, points, samples) {
  if (!points.length) return `${series.title}: nothing is known`;
  const by = points.toSorted((one, other) => one.value - other.value);
  const told = point => `${series.brief(point.value)} at ${clockTime(new Date(point.at).toISOString())}`;
  if (series.isBars) return `${series.title}: ${points.reduce((sum, each) => sum + each.value, 0)} since ${clockTime(samples[0].at)}`;
  return `${series.title}, ${series.what}: lowest ${told(by[0])}, highest ${told(by.at(-1))}, last ${series.brief(points.at(-1).value)}`;
}
