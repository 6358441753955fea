// Times that go on: elements that say how long ago something was, brought up to date together once a second.
//
//   const ages = keepAges(view);           // every element of ago() below `view`, while it is shown
//   view.append(ageOf("2026-11-15T02:00:00Z"));
//   ages.close();

import {el, say} from "./dom.js";
import {ago, clockTime} from "./format.js";

/** An element that says how long ago an instant was, with the instant itself as its title. */
export function ageOf(instant, attributes = {}) {
  return setAge(el("time", {class: "age", ...attributes}), instant);
}

/** Let such an element tell of another instant. */
export function setAge(element, instant) {
  if (element.dateTime !== (instant ?? "")) {
    element.setAttribute("datetime", instant ?? "");
    element.setAttribute("title", clockTime(instant));
  }
  say(element, ago(instant));
  return element;
}

/** Keep the ages below an element up to date, until the function that is given back is called. */
export function keepAges(root) {
  const tick = () => {
    for (const each of root.querySelectorAll("time.age")) setAge(each, each.getAttribute("datetime"));
  };
  const timer = setInterval(tick, 1000);
  return () => clearInterval(timer);
}

/** A span of seconds in the fewest words: "80 ms", "1.2 s", "3 min 20 s", "2 h 5 min". */
export function span(seconds) {
  if (seconds < 0.9995) return `${Math.max(0, Math.round(seconds * 1000))} ms`;
  if (seconds < 10) return `${Math.floor(seconds * 10) / 10} s`;
  if (seconds < 120) return `${Math.floor(seconds)} s`;
  if (seconds < 7200) return joined(Math.floor(seconds / 60), "min", Math.floor(seconds % 60), "s");
  if (seconds < 172800) return joined(Math.floor(seconds / 3600), "h", Math.floor((seconds % 3600) / 60), "min");
  return joined(Math.floor(seconds / 86400), "d", Math.floor((seconds % 86400) / 3600), "h");
}

function joined(large, of, small, part) {
  return small ? `${large} ${of} ${small} ${part}` : `${large} ${of}`;
}
