// Tables of answers: heads, rows of texts or elements. On a telephone a row's cells stand one below the other, each after
// its head (`data-head`), so that nothing is cut.

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
  const shown = cell => (typeof cell === "number" ? cell.toLocaleString("en") : cell);
  const body = rows.slice(0, MOST_ROWS).map(row => el("tr", {}, row.map((cell, column) => el("td", {class: typeof cell === "number" ? "number" : null, "data-head": headOf(heads[column])}, shown(cell)))));
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

/** A table of a page's own facts. A row is {cells, class}, or a list of cells. */
export function factTable(label, heads, rows) {
  const body = rows.map(row => el("tr", {class: row.class ?? null}, (row.cells ?? row).map((cell, column) => el("td", {"data-head": headOf(heads[column])}, cell))));
  return wide(label, heads, body);
}

/** Heads and rows that are made already, in a region that scrolls where nothing else helps. */
export function wide(label, heads, rows) {
  const head = el("thead", {}, el("tr", {}, heads.map(each => el("th", {scope: "col"}, each))));
  return el("div", {class: "wide", tabindex: "0", role: "region", "aria-label": label}, el("table", {}, head, el("tbody", {}, rows)));
}

function headOf(head) {
  return typeof head === "string" ? head : "";
}
