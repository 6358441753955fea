// Tables of answers: a caption, heads, rows of texts or elements, as many as anybody reads.

import {el} from "./dom.js";

const MOST_ROWS = 200;

/** A name from the cluster: text that cannot reorder what stands beside it, broken where it is too long for its place. */
export function name(text) {
  return el("bdi", {class: "name"}, text);
}

/**
 * A table. Rows are lists of cells; a cell is text, a number (right-aligned), an element, or a list of them. Of very many
 * rows the first are shown, and it is said how many there are; `rest` says where the others are found.
 */
export function table(caption, heads, rows, {rest = "the command has them all, with -o json"} = {}) {
  const isNumber = column => typeof rows[0]?.[column] === "number";
  const body = rows.slice(0, MOST_ROWS).map(row => el("tr", {}, row.map(cell => el("td", {class: typeof cell === "number" ? "number" : null}, typeof cell === "number" ? cell.toLocaleString("en") : cell))));
  const more = rows.length - MOST_ROWS;
  return el(
    "div",
    {class: "table", role: "region", "aria-label": caption, tabindex: 0},
    el(
      "table",
      {},
      el("caption", {}, caption),
      el("thead", {}, el("tr", {}, heads.map((head, column) => el("th", {scope: "col", class: isNumber(column) ? "number" : null}, head)))),
      el("tbody", {}, body),
    ),
    more > 0 ? el("p", {class: "quiet"}, `… and ${more.toLocaleString("en")} more (${rest})`) : null,
  );
}
