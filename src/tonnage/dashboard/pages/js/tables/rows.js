// Which rows of a table are shown, and in which order. Pure.

import {compareNames} from "../names.js";

/**
 * Items {key, row} of a table: those in which every word of `search` stands, with trouble alone if that is asked, by a
 * column. `sort` is a column's head in small letters, with "-" before it from the largest on. `texts` keeps what was
 * worked out of a row until it changes.
 */
export function shownRows(table, state, facts, {search, sort, isTroubleOnly}, texts) {
  const words = search.trim().toLowerCase().split(/\s+/).filter(Boolean);
  const textOf = (row, key) => {
    let text = texts.get(row);
    if (text === undefined) {
      text = `${table.columns.map(column => column.of(row, key, facts)).join("\n")}\n${table.trouble(row, key, facts)}`.toLowerCase();
      texts.set(row, text);
    }
    return text;
  };
  let found = table.rows(state).map(([key, row]) => ({key, row}));
  if (isTroubleOnly) found = found.filter(({key, row}) => table.trouble(row, key, facts));
  if (words.length) found = found.filter(({key, row}) => words.every(word => textOf(row, key).includes(word)));
  const isDown = sort.startsWith("-");
  const column = table.columns.find(each => idOf(each) === sort.replace(/^-/, "")) ?? table.columns[0];
  const read = column.sort ?? column.of;
  const keyed = found.map(item => [read(item.row, item.key, facts), item]);
  const compare = (a, b) => (typeof a[0] === "number" && typeof b[0] === "number" ? a[0] - b[0] : compareNames(String(a[0]), String(b[0])));
  keyed.sort((a, b) => (isDown ? compare(b, a) : compare(a, b)) || compareNames(a[1].key, b[1].key));
  return keyed.map(([, item]) => item);
}

/** How the address names a column. */
export function idOf(column) {
  return column.head.toLowerCase().replaceAll(" ", "-");
}
