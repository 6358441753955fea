// What went wrong, as the command line says it: a sentence, and a hint where there is one.

import {el} from "./dom.js";

/** An element that tells of an error, of ours or of a server that is away. */
export function problem(error) {
  const isAway = error instanceof TypeError;
  const text = isAway ? "The dashboard's server does not answer." : error.message;
  return el(
    "div",
    {class: "problem", role: "alert"},
    el("p", {}, el("b", {}, "error: "), el("bdi", {}, text)),
    error.hint ? el("p", {}, el("b", {}, "hint: "), el("bdi", {}, error.hint)) : null,
  );
}

/** Whether an error only says that nobody wanted the answer any more. */
export function isAborted(error) {
  return error?.name === "AbortError";
}
