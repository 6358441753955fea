// Tables of nodes, claims, volumes and pods: sorted by a column, filtered by words, with the YAML of each object and the
// commands that look at it. Only rows that are seen exist, so that tens of thousands stay fast.
//
//   #/tables/claims?search=TEXT&sort=-size&trouble=yes      #/tables/pods/NAMESPACE/NAME

import {el, keyed, replace, say, set} from "../dom.js";
import {count} from "../format.js";
import {Facts} from "../map/facts.js";
import {own} from "../own.js";
import {objectPanel} from "../tables/object_panel.js";
import {TABLES} from "../tables/kinds.js";
import {idOf, shownRows} from "../tables/rows.js";
import {addressOf} from "../address.js";
import {windowed} from "../windowed.js";

export const title = "Tables";

const DRAW_AGAIN_MS = 1000;

/** Show a table in `main`; gives back how it is closed, and how it shows another address. */
export function open(main, {state, about, query, tell}, ...rest) {
  const facts = new Facts(state);
  const tabs = el("ul", {class: "tabs"});
  const search = el("input", {type: "search", placeholder: "Words in any column", "aria-label": "Show rows with these words", "aria-keyshortcuts": "/"});
  const trouble = el("button", {type: "button", class: "toggle"}, "Trouble only");
  const told = el("p", {class: "quiet", role: "status"});
  const place = el("div", {class: "table-place"});
  const panel = objectPanel(about, () => show({...shown, key: ""}));
  const view = el(
    "div",
    {class: "tables"},
    el("div", {class: "view-head"}, el("h2", {}, "Tables"), el("nav", {"aria-label": "Tables"}, tabs)),
    el("div", {class: "table-tools"}, search, trouble, told),
    el("div", {class: "table-and-panel"}, place, panel.element),
  );
  main.append(view);
  let shown = asked(query, rest);
  let list = null;
  let texts = new WeakMap();
  let drawnAt = 0;
  let timer = 0;

  /** Show this, and let the address say so. */
  const show = (next, {isNew = true} = {}) => {
    const isOther = next.name !== shown.name;
    shown = next;
    tell([shown.name, ...(shown.key ? keyParts(shown) : [])], {search: shown.search, sort: shown.sort, trouble: shown.isTroubleOnly ? "yes" : ""}, {isNew});
    refresh(isOther);
  };

  function refresh(isOther) {
    const table = TABLES[shown.name];
    keyed(
      tabs,
      Object.entries(TABLES),
      ([name]) => name,
      ([name, each]) => el("li", {}, el("a", {href: addressOf("tables", [name])}, each.title)),
      (item, [name]) => set(item.firstChild, "aria-current", name === shown.name ? "true" : null),
    );
    if (search.value !== shown.search) search.value = shown.search;
    set(trouble, "aria-pressed", String(shown.isTroubleOnly));
    if (isOther || !list) build(table);
    showHead(table);
    draw();
    if (shown.key) openPanel(table);
    else panel.close();
  }

  function openPanel(table) {
    const row = table.rows(state).find(([key]) => key === shown.key)?.[1];
    panel.open(shown.name, table, shown.key, row);
  }

  function build(table) {
    list?.close();
    texts = new WeakMap();
    const rowHeight = matchMedia("(max-width: 40rem)").matches ? 52 : 36;
    list = windowed({label: table.title, rowHeight, most: 1000, keyOf: item => item.key, make: () => makeRow(table), update: (element, item) => updateRow(element, item, table), role: "rowgroup", rowRole: "row"});
    list.head = el("div", {class: "table-row table-head", role: "row"});
    list.table = el("div", {class: "object-table", role: "table", "aria-label": table.title}, el("div", {role: "rowgroup"}, list.head), list.element);
    replace(place, list.table);
  }

  function showHead(table) {
    const [sort, isDown] = [shown.sort.replace(/^-/, "") || idOf(table.columns[0]), shown.sort.startsWith("-")];
    keyed(
      list.head,
      table.columns,
      column => column.head,
      column => cellOf(column, "columnheader", el("button", {type: "button", class: "sort", onclick: () => sortBy(column)}, column.head)),
      (cell, column) => set(cell, "aria-sort", idOf(column) !== sort ? "none" : isDown ? "descending" : "ascending"),
    );
  }

  function sortBy(column) {
    const id = idOf(column);
    const current = shown.sort || idOf(TABLES[shown.name].columns[0]);
    show({...shown, sort: current === id ? `-${id}` : id});
  }

  function makeRow(table) {
    const cells = table.columns.map((column, number) => {
      const inner = number ? el("bdi", {}) : el("a", {class: "row-name"}, el("bdi", {}));
      return cellOf(column, number ? "cell" : "rowheader", inner);
    });
    return el("div", {class: "table-row"}, cells);
  }

  function updateRow(element, item, table) {
    const wrong = table.trouble(item.row, item.key, facts);
    table.columns.forEach((column, number) => {
      const cell = element.children[number];
      const text = String(column.of(item.row, item.key, facts));
      const bdi = cell.querySelector("bdi");
      if (bdi.textContent !== text) {
        bdi.textContent = text;
        cell.title = text;
      }
      if (number === 0) set(cell.firstChild, "href", addressOf("tables", [shown.name, ...keyParts({name: shown.name, key: item.key})], choices()));
      if (number === 1) cell.classList.toggle("trouble", Boolean(wrong));
    });
    element.classList.toggle("is-chosen", item.key === shown.key);
  }

  const choices = () => ({search: shown.search, sort: shown.sort, trouble: shown.isTroubleOnly ? "yes" : ""});

  function draw() {
    clearTimeout(timer);
    timer = 0;
    drawnAt = performance.now();
    const table = TABLES[shown.name];
    const rows = shownRows(table, state, facts, shown, texts);
    const all = table.rows(state).length;
    set(list.table, "aria-rowcount", rows.length + 1);
    list.show(rows);
    list.element.hidden = !rows.length;
    const words = rows.length === all ? count(all, table.title.toLowerCase().slice(0, -1)) : `${rows.length.toLocaleString("en")} of ${count(all, table.title.toLowerCase().slice(0, -1))}`;
    const rest = shown.name === "pods" ? othersWords(state) : "";
    const text = [rows.length || all ? words : `There are no ${table.title.toLowerCase()}.`, rest].filter(Boolean).join("; ");
    say(told, text);
  }

  const stopFollowing = state.onChange(changed => {
    facts.update(changed);
    if (shown.name === "nodes" && (changed.nodes || changed.volumes || changed.capacities)) texts = new WeakMap(); // a node's state comes of all of them
    else if (!TABLES[shown.name].from.some(name => changed[name])) return;
    timer ||= setTimeout(draw, Math.max(50, drawnAt + DRAW_AGAIN_MS - performance.now()));
  });
  const controller = new AbortController();
  search.addEventListener("input", () => show({...shown, search: search.value}, {isNew: false}));
  trouble.addEventListener("click", () => show({...shown, isTroubleOnly: !shown.isTroubleOnly}));
  document.addEventListener(
    "keydown",
    event => {
      if (event.key === "Escape" && shown.key && !event.defaultPrevented) show({...shown, key: ""});
      if (event.key !== "/" || event.target.matches?.("input, select, textarea")) return;
      event.preventDefault();
      search.focus();
    },
    {signal: controller.signal},
  );
  refresh(true);
  return {
    close: () => {
      stopFollowing();
      controller.abort();
      clearTimeout(timer);
      list.close();
      panel.close();
    },
    goTo: (next, ...about) => {
      const before = shown;
      shown = asked(next, about);
      refresh(shown.name !== before.name);
    },
  };
}

function asked(query, [name = "nodes", ...key]) {
  const known = own(TABLES, name) ? name : "nodes";
  return {name: known, key: key.join("/"), search: query.get("search") ?? "", sort: query.get("sort") ?? "", isTroubleOnly: query.get("trouble") === "yes"};
}

/** A key as parts of the address: a claim and a pod have a namespace. */
function keyParts({name, key}) {
  const at = name === "claims" || name === "pods" ? key.indexOf("/") : -1;
  return at < 0 ? [key] : [key.slice(0, at), key.slice(at + 1)];
}

function cellOf(column, role, inner) {
  const from = column.from ? ` from-${column.from}` : "";
  return el("div", {class: `table-cell${column.isNumber ? " number" : ""}${from}`, role, style: {"flex-grow": column.weight}}, inner);
}

/** Pods without claims are not followed one by one: nodes tell how many they have. */
function othersWords(state) {
  const living = [...state.nodes.values()].reduce((sum, row) => sum + (row.pods ?? 0), 0);
  const listed = [...state.pods.values()].filter(row => row.node && !["succeeded", "failed"].includes(row.state)).length;
  const others = living - listed;
  return others > 0 ? `${count(others, "more pod has", "more pods have")} no claim and ${others === 1 ? "does" : "do"} not wait` : "";
}
