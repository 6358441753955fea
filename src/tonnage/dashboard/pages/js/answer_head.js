// What stands above every answer: of which moment it is, whether it is whole, and what is to be said about it.

import {el, keyed, replace} from "./dom.js";
import {clockTime} from "./format.js";

/** What is noted about an answer, one line each. */
export function notesList() {
  const element = el("ul", {class: "answer-notes", "aria-label": "Notes"});
  return {
    element,
    show(notes) {
      element.hidden = !notes.length;
      keyed(element, notes, note => note, note => el("li", {}, el("bdi", {}, note)));
    },
  };
}

/** An error as the command line tells it: message and hint. */
export function errorBox() {
  const element = el("div", {class: "error-box", role: "alert", hidden: true});
  return {
    element,
    show(error) {
      element.hidden = !error;
      if (!error) return replace(element);
      replace(
        element,
        el("p", {class: "error"}, "error: ", el("bdi", {}, error.message)),
        error.hint ? el("p", {class: "hint"}, "hint: ", el("bdi", {}, error.hint)) : null,
      );
    },
  };
}

/** "as of 12:03:04" */
export function asOf(answer) {
  return `as of ${clockTime(answer.at)}`;
}
