// The player: buttons, a scrubber with the names of steps, speed, and keys; what happened in words, and on the map.
//
//   space plays and pauses, ← → step, Home and End jump

import {el, replace, set, svg} from "../dom.js";
import {count, tellTimeBy} from "../format.js";
import {drawMap} from "../map/capacity_map.js";
import {Film} from "./film.js";
import {stepWords} from "./words.js";

const FRAME_MS = {replay: 2500, simulate: 600}; // a decision is read, a sample is watched
const SPEEDS = [0.5, 1, 2, 4, 8];
const ICONS = {first: "M5 5v14M19 5L8 12l11 7z", back: "M17 5L6 12l11 7z", play: "M7 4l13 8-13 8z", pause: "M7 5v14M17 5v14", forward: "M7 5l11 7-11 7z", last: "M19 5v14M5 5l11 7-11 7z"};
const TYPING = "input:not([type=range]), textarea, select, [contenteditable], dialog, .grid, .panel";

function iconOf(name) {
  return svg("svg", {class: "icon", viewBox: "0 0 24 24", "aria-hidden": "true", focusable: "false"}, svg("path", {d: ICONS[name]}));
}

export class Player {
  /** `played` is the answer of /api/v1/replay; `title` is what it is called. */
  constructor(played, title) {
    this.played = played;
    this.title = title;
    this.film = new Film(played.frames);
    this.timer = null;
    this.speed = 1;
    this.controller = new AbortController();
    this.element = this.made();
    document.addEventListener("keydown", event => this.onKey(event), {signal: this.controller.signal});
  }

  /** Draw the map: once the element is on the page, for maps measure their place. */
  open() {
    tellTimeBy(() => Date.parse(this.film.frame.at));
    this.map = drawMap(this.place, this.film.state, {storageKey: "replay", label: `Map of ${this.title}`, isLive: false});
    this.show();
  }

  made() {
    const button = (label, icon, act) => el("button", {type: "button", "aria-label": label, title: label, onclick: act}, iconOf(icon));
    this.playButton = button("Play", "play", () => this.toggle());
    this.playButton.classList.add("play");
    this.scrubber = el("input", {type: "range", min: 0, max: this.film.last, value: 0, "aria-label": "Step", oninput: () => this.jump(this.scrubber.valueAsNumber)});
    this.told = el("p", {class: "quiet step-count"});
    this.words = el("div", {class: "step-words", "aria-live": "polite", "aria-atomic": "true"});
    this.steps = el("ol", {class: "steps", start: 0, "aria-label": "Steps"}, this.film.frames.map((frame, number) => el("li", {}, el("button", {type: "button", onclick: () => this.jump(number)}, el("bdi", {}, frame.title)))));
    this.place = el("div", {class: "map-place"});
    const speed = el("select", {id: "speed", onchange: () => this.changeSpeed(Number(speed.value))}, SPEEDS.map(each => el("option", {value: each, selected: each === 1}, `${each}×`)));
    const {notes, cut} = this.played;
    return el(
      "div",
      {class: "player"},
      el(
        "div",
        {class: "player-side"},
        el("div", {class: "player-bar", role: "group", "aria-label": "Player"}, button("First step", "first", () => this.jump(0)), button("Step back", "back", () => this.step(-1)), this.playButton, button("Step forward", "forward", () => this.step(1)), button("Last step", "last", () => this.jump(this.film.last)), el("label", {for: "speed", class: "unseen"}, "Speed"), speed),
        this.scrubber,
        this.told,
        this.words,
        el("details", {class: "step-list", open: true}, el("summary", {}, count(this.film.last, "step")), this.steps),
        cut ? el("p", {class: "warning"}, cut) : null,
        notes.length ? el("ul", {class: "notes quiet"}, notes.map(each => el("li", {}, el("bdi", {}, each)))) : null,
      ),
      this.place,
    );
  }

  get isPlaying() {
    return this.timer !== null;
  }

  toggle() {
    if (this.isPlaying) return this.pause();
    if (this.film.at === this.film.last) this.film.goTo(0);
    this.play();
  }

  play() {
    const wait_ms = (FRAME_MS[this.played.kind] ?? 1000) / this.speed;
    this.timer = setInterval(() => {
      if (this.film.at < this.film.last) this.film.goTo(this.film.at + 1);
      if (this.film.at === this.film.last) this.pause();
      this.show();
    }, wait_ms);
    this.show();
  }

  pause() {
    clearInterval(this.timer);
    this.timer = null;
    this.show();
  }

  changeSpeed(speed) {
    this.speed = speed;
    if (!this.isPlaying) return;
    this.pause();
    this.play();
  }

  step(difference) {
    this.jump(this.film.at + difference);
  }

  /** Go to a step, and stop there. */
  jump(number) {
    if (this.isPlaying) this.pause();
    this.film.goTo(number);
    this.show();
  }

  show() {
    const {film} = this;
    const {frame} = film;
    this.map?.mark(film.marks());
    this.scrubber.value = film.at;
    set(this.scrubber, "aria-valuetext", `${film.at} of ${film.last}: ${frame.title}`);
    replace(this.told, `Step ${film.at} of ${film.last} · ${frame.at.replace("T", " ").replace("Z", " UTC")}`);
    replace(this.playButton, iconOf(this.isPlaying ? "pause" : "play"));
    set(this.playButton, "aria-label", this.isPlaying ? "Pause" : "Play");
    set(this.playButton, "title", this.isPlaying ? "Pause" : "Play");
    replace(this.words, stepWords(frame));
    this.current?.removeAttribute("aria-current");
    this.current = this.steps.children[film.at].firstChild;
    set(this.current, "aria-current", "step");
    // Only the list scrolls: the page stays where it is.
    const {offsetTop, offsetHeight} = this.current.parentElement;
    const {scrollTop, clientHeight} = this.steps;
    if (offsetTop < scrollTop || offsetTop + offsetHeight > scrollTop + clientHeight) this.steps.scrollTop = offsetTop - clientHeight / 3;
  }

  onKey(event) {
    if (event.altKey || event.ctrlKey || event.metaKey || event.target.closest(TYPING)) return;
    const isRange = event.target === this.scrubber;
    const acts = {ArrowLeft: () => this.step(-1), ArrowRight: () => this.step(1), Home: () => this.jump(0), End: () => this.jump(this.film.last)};
    if (event.key === " ") {
      if (event.target.closest("button, a, summary")) return; // that is what space presses
      event.preventDefault();
      this.toggle();
    } else if (acts[event.key] && !isRange) {
      event.preventDefault();
      acts[event.key]();
    }
  }

  close() {
    clearInterval(this.timer);
    this.controller.abort();
    this.map?.close();
    tellTimeBy();
  }
}
