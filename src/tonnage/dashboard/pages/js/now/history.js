// The past of a cluster: a chart for each class, for pods that wait, and for refusals, and a slider that looks back.
//
//   const history = drawHistory();
//   await history.update(since => ask(…), startedAt);      // asks only for what is newer than what it has

import {el, replace, say, set} from "../dom.js";
import {bytes, clockTime, count, percent} from "../format.js";
import {makeChart} from "./chart.js";

const SPANS = {"1 hour": 3600, "6 hours": 21600, "24 hours": 86400};
const MOST_CLASSES = 6;
const MOST_SAMPLES = 1100; // as many as the server keeps
const ROWS = 12; // of the table

/** An element with the history, to be updated. */
export function drawHistory() {
  let samples = [];
  let span_s = 3600;
  let chosen = null; // the instant that is looked at, in milliseconds; null is now
  const charts = new Map();
  const place = el("div", {class: "charts"});
  const told = el("p", {class: "look-back-told"});
  const slider = el("input", {type: "range", id: "look-back", min: 0, max: 1000, value: 1000, step: 1});
  const buttons = Object.entries(SPANS).map(([words, seconds]) =>
    el(
      "button",
      {
        type: "button",
        "aria-pressed": String(seconds === span_s),
        onclick: event => {
          span_s = seconds;
          for (const each of buttons) set(each, "aria-pressed", String(each === event.target));
          draw();
        },
      },
      words,
    ),
  );
  const figures = el("details", {class: "history-figures"}, el("summary", {}, "The same as a table"), el("div", {}));
  const since = el("p", {class: "quiet history-since"});
  const element = el(
    "section",
    {class: "history", hidden: true, "aria-label": "History"},
    el("div", {class: "history-head"}, el("h3", {}, "Before"), el("div", {class: "history-spans", role: "group", "aria-label": "How far back"}, buttons), since),
    el("div", {class: "look-back"}, el("label", {for: "look-back"}, "Look back"), slider, told),
    place,
    figures,
  );

  const range = () => {
    const end = samples.length ? Date.parse(samples.at(-1).at) : Date.now();
    return [end - span_s * 1000, end];
  };

  function draw() {
    if (!samples.length) return;
    element.hidden = false;
    const [begin, end] = range();
    const shown = samples.filter(each => Date.parse(each.at) >= begin);
    const at = chosen === null ? shown.at(-1) : nearest(shown, Math.max(chosen, begin));
    const wanted = seriesOf(samples.at(-1), shown);
    for (const key of charts.keys()) if (!wanted.some(each => each.key === key)) charts.get(key).element.remove(), charts.delete(key);
    for (const series of wanted) {
      if (!charts.has(series.key)) charts.set(series.key, makeChart(series));
      const chart = charts.get(series.key);
      chart.draw(series, shown, {begin, end, at});
      place.append(chart.element);
    }
    const when = chosen === null ? "now" : clockTime(at.at);
    const words = `${when}: ${textOf(at)}`;
    say(told, words);
    set(slider, "aria-valuetext", words);
    if (figures.open) replace(figures.lastChild, tableOf(shown, wanted));
  }

  slider.addEventListener("input", () => {
    const [begin, end] = range();
    chosen = Number(slider.value) === 1000 ? null : begin + ((end - begin) * Number(slider.value)) / 1000;
    draw();
  });
  figures.addEventListener("toggle", draw);

  return {
    element,
    async update(askSince, startedAt) {
      const answer = await askSince(samples.at(-1)?.at);
      const from = samples.length ? startedAt : null;
      if (from && answer.samples.length && Date.parse(samples.at(-1).at) < Date.parse(startedAt)) samples = []; // the dashboard was started again
      samples = [...samples, ...answer.samples].slice(-MOST_SAMPLES);
      replace(since, `Watched since ${clockTime(startedAt)}`);
      draw();
    },
    close() {},
  };
}

/** What is charted: a key, a title, how a sample is read, and how a number is written. */
function seriesOf(latest, shown) {
  const classes = Object.keys(latest.classes ?? {}).slice(0, MOST_CLASSES);
  return [
    ...classes.map(name => ({
      key: `class ${name}`,
      title: name,
      what: "free",
      read: sample => roomOf(sample, name)?.free ?? (roomOf(sample, name) ? 0 : null),
      top: Math.max(...shown.map(sample => roomOf(sample, name)?.total ?? 0), 1),
      text: (value, sample) => `${bytes(value)} of ${bytes(roomOf(sample, name)?.total ?? 0)} free`,
      brief: bytes,
      isWorseLow: true,
    })),
    {key: "pending", title: "Pending pods", what: "pending", read: sample => sample.pending ?? 0, top: 0, text: value => count(value, "pod"), brief: String},
    {key: "refused", title: "Refused volumes", what: "refused", read: sample => sample.refused ?? 0, top: 0, text: value => count(value, "refusal"), brief: String, isBars: true},
    {key: "troubles", title: "Troubles", what: "wrong", read: sample => sample.troubles ?? 0, top: 0, text: value => count(value, "trouble"), brief: String},
  ];
}

function roomOf(sample, name) {
  return Object.hasOwn(sample.classes ?? {}, name) ? sample.classes[name] : undefined;
}

function nearest(samples, at) {
  return samples.reduce((best, each) => (Math.abs(Date.parse(each.at) - at) < Math.abs(Date.parse(best.at) - at) ? each : best), samples[0]);
}

function textOf(sample) {
  const classes = Object.entries(sample.classes ?? {}).slice(0, MOST_CLASSES);
  const full = classes.filter(([, room]) => room.total).map(([name, room]) => `${name} ${percent(1 - (room.free ?? 0) / room.total)} full`);
  const nodes = sample.nodesNotReady ? [count(sample.nodesNotReady, "node not ready", "nodes not ready")] : [];
  return [...nodes, ...full, `${count(sample.pending ?? 0, "pod")} pending`, count(sample.refused ?? 0, "refusal"), count(sample.troubles ?? 0, "trouble")].join(", ");
}

function tableOf(samples, series) {
  const step = Math.max(1, Math.floor(samples.length / ROWS));
  const rows = samples.filter((each, number) => (samples.length - 1 - number) % step === 0).reverse();
  return el(
    "div",
    {class: "table", role: "region", "aria-label": "Figures of the past", tabindex: 0},
    el(
      "table",
      {},
      el("thead", {}, el("tr", {}, ["Time", ...series.map(each => each.title)].map(each => el("th", {scope: "col"}, el("bdi", {}, each))))),
      el(
        "tbody",
        {},
        rows.map(sample =>
          el("tr", {}, el("th", {scope: "row"}, clockTime(sample.at)), series.map(each => el("td", {class: "number"}, each.read(sample) === null ? "–" : each.text(each.read(sample), sample)))),
        ),
      ),
    ),
  );
}
