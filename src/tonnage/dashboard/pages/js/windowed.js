// A list of very many rows of the same height, of which only those that are seen exist as elements.
//
//   const list = windowed({label: "Nodes", rowHeight: 36, keyOf: node => node.name, make, update});
//   parent.append(list.element);
//   list.show(nodes);
//
// Rows are found again by their keys, so that focus stays on a row that moves. The list scrolls by itself and takes up as
// many rows as there are, to `most` of them. ArrowUp, ArrowDown, Home and End go from row to row: the first thing in a
// row that can have the focus gets it.

import {el} from "./dom.js";

const BEYOND = 6; // rows above and below those that are seen

/** Make such a list. `make(item)` gives a row's element, `update(element, item)` brings it up to date. */
export function windowed({label, rowHeight, most = 14, keyOf, make, update = () => {}, role = "list", rowRole = "listitem"}) {
  const inner = el("div", {class: "windowed-rows", role: "presentation"});
  const element = el("div", {class: "windowed", role, "aria-label": label, tabindex: "0"}, inner);
  const rows = new Map();
  let items = [];
  let isAsked = false;

  function draw() {
    isAsked = false;
    const first = Math.max(0, Math.floor(element.scrollTop / rowHeight) - BEYOND);
    const last = Math.min(items.length, Math.ceil((element.scrollTop + element.clientHeight) / rowHeight) + BEYOND);
    const kept = new Set();
    for (let position = first; position < last; position += 1) kept.add(place(items[position], position));
    for (const [key, row] of rows) {
      if (kept.has(key)) continue;
      if (row.contains(document.activeElement)) continue; // taken away, it would lose the focus
      row.remove();
      rows.delete(key);
    }
  }

  function place(item, position) {
    const key = keyOf(item);
    let row = rows.get(key);
    if (row === undefined) {
      row = make(item);
      row.classList.add("windowed-row");
      row.setAttribute("role", rowRole);
      rows.set(key, row);
      inner.append(row);
    }
    update(row, item);
    if (rowRole === "row") {
      row.setAttribute("aria-rowindex", position + 2); // behind the row of heads
    } else {
      row.setAttribute("aria-posinset", position + 1);
      row.setAttribute("aria-setsize", items.length);
    }
    row.style.setProperty("transform", `translateY(${position * rowHeight}px)`);
    row.style.setProperty("height", `${rowHeight}px`);
    row.dataset.position = position;
    return key;
  }

  function drawSoon() {
    if (isAsked) return;
    isAsked = true;
    requestAnimationFrame(draw);
  }

  function onKey(event) {
    const step = {ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity}[event.key];
    if (step === undefined || event.target.closest("input, select")) return;
    const row = event.target.closest(".windowed-row");
    const from = row ? Number(row.dataset.position) : -1;
    const position = Math.max(0, Math.min(items.length - 1, from + step));
    if (!items.length) return;
    event.preventDefault();
    const top = position * rowHeight;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + rowHeight > element.scrollTop + element.clientHeight) element.scrollTop = top + rowHeight - element.clientHeight;
    draw();
    const target = rows.get(keyOf(items[position]));
    (target?.querySelector("a, button, [tabindex]") ?? target)?.focus({preventScroll: true});
  }

  element.addEventListener("scroll", drawSoon, {passive: true});
  element.addEventListener("keydown", onKey);
  const observer = new ResizeObserver(drawSoon);
  observer.observe(element);

  return {
    element,
    /** Show these items, and forget what was shown before. */
    show(next) {
      items = next;
      inner.style.setProperty("height", `${items.length * rowHeight}px`);
      element.style.setProperty("height", `min(${Math.min(items.length, most) * rowHeight + 2}px, 75vh)`);
      draw();
    },
    /** Bring the rows that are seen up to date. */
    refresh: drawSoon,
    /** Scroll to an item by its position. */
    reveal(position) {
      element.scrollTop = Math.max(0, position * rowHeight - element.clientHeight / 2);
      drawSoon();
    },
    close: () => observer.disconnect(),
  };
}
