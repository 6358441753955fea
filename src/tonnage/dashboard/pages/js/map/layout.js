// Where things are on the map, by arithmetic alone: nothing is measured, so that rows which are not drawn have a place too.
//
//   const layout = layOut(groups, {perRow: 6, heightOf: fact => 64, …});
//   const [first, end] = seen(layout, top, bottom);      // of layout.rows, by binary search
//   layout.placeOf.get("node-1")                         // {row, column, lane, top, height, more?}
//
// A row is {kind: "header" | "shared" | "nodes", group, names, top, height, reach, index}. Each node of a group goes below the
// lane (the column on the screen) that ends first, so that nothing stays empty beside a high one; nodes of one height come
// to lie in rows. A row of nodes is what is made and taken away together: `perRow` nodes that follow each other, from
// `top` on. No row up to it ends below `reach`. A group that is collapsed has its header alone.

/** How many columns of at least `least` pixels fit, and how wide they are then: no more columns than `most` nodes fill. */
export function columnsOf(width, least, gap, most = Infinity) {
  const perRow = Math.max(1, Math.min(most, Math.floor((width + gap) / (least + gap))));
  return {perRow, width: Math.max(1, (width - gap * (perRow - 1)) / perRow)};
}

/** Lay groups out: [{key, names, isCollapsed, sharedHeight}]. */
export function layOut(groups, {perRow, heightOf, headerHeight, gap}) {
  const rows = [];
  const placeOf = new Map();
  let top = 0;
  let reach = 0;
  const add = (kind, group, names, start, end) => {
    reach = Math.max(reach, end);
    rows.push({kind, group: group.key, names, top: start, height: end - start, reach, index: rows.length, id: `${kind} ${group.key} ${names[0] ?? ""}`});
  };
  const addWhole = (kind, group, height) => {
    add(kind, group, [], top, top + height);
    top += height + gap;
  };
  for (const group of groups) {
    if (headerHeight && !group.isBare) addWhole("header", group, headerHeight);
    if (group.isCollapsed) continue;
    if (group.sharedHeight) addWhole("shared", group, group.sharedHeight);
    const ends = Array(perRow).fill(top); // where each lane goes on
    for (let start = 0; start < group.names.length; start += perRow) {
      const names = group.names.slice(start, start + perRow);
      const places = names.map((name, column) => {
        const lane = ends.indexOf(Math.min(...ends));
        const place = {row: rows.length, column, lane, top: ends[lane], height: heightOf(name)};
        ends[lane] += place.height + gap;
        placeOf.set(name, place);
        return place;
      });
      add("nodes", group, names, places[0].top, Math.max(...places.map(place => place.top + place.height)));
    }
    top = Math.max(...ends);
    stretch(placeOf, group.names, top - gap);
  }
  return {rows, placeOf, height: reach, perRow};
}

const LITTLE_PX = 60;

/** Let the last nodes of a group's lanes end together where a little is missing (`place.more`). */
function stretch(placeOf, names, bottom) {
  const ended = new Set();
  for (let at = names.length - 1; at >= 0 && at >= names.length - 40; at -= 1) {
    const place = placeOf.get(names[at]);
    const missing = bottom - place.top - place.height;
    if (!ended.has(place.lane) && missing <= LITTLE_PX) place.more = missing;
    ended.add(place.lane);
  }
}

/** Which rows are between two heights: [first, end), `end` not among them. */
export function seen(layout, top, bottom) {
  const {rows} = layout;
  const first = search(rows.length, index => rows[index].reach > top);
  const end = search(rows.length, index => rows[index].top >= bottom);
  return [first, Math.max(first, end)];
}

/** The first index below `length` of which `isSo` holds, which must hold for all after it. */
function search(length, isSo) {
  let low = 0;
  let high = length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (isSo(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** The node that an arrow key goes to from a node: its name, or undefined at the edge. */
export function neighbour(layout, name, key) {
  const place = layout.placeOf.get(name);
  const nodeRows = layout.rows.filter(row => row.kind === "nodes");
  if (!nodeRows.length) return undefined;
  if (place === undefined || key === "Home") return nodeRows[0].names[0];
  if (key === "End") return nodeRows.at(-1).names.at(-1);
  const at = nodeRows.findIndex(row => row.index === place.row);
  if (key === "ArrowRight") return nodeRows[at].names[place.column + 1] ?? nodeRows[at + 1]?.names[0];
  if (key === "ArrowLeft") return nodeRows[at].names[place.column - 1] ?? nodeRows[at - 1]?.names.at(-1);
  const steps = {ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10}[key] ?? 0;
  let found = name;
  for (let step = 0; step < Math.abs(steps); step += 1) found = beside(layout, nodeRows, found, Math.sign(steps)) ?? found;
  return found;
}

/** The node below (1) or above (-1) another: the next in its lane, or else the nearest lane that goes on. */
function beside(layout, nodeRows, name, step) {
  const from = layout.placeOf.get(name);
  const start = nodeRows.findIndex(row => row.index === from.row);
  let best;
  // The next in a lane is at most some rows away: a lane with high nodes has fewer of them.
  for (let at = start; at >= 0 && at < nodeRows.length && Math.abs(at - start) <= 6; at += step) {
    for (const each of nodeRows[at].names) {
      const place = layout.placeOf.get(each);
      const away = step > 0 ? place.top - (from.top + from.height) : from.top - (place.top + place.height);
      if (away < 0) continue;
      const worth = Math.abs(place.lane - from.lane) * 1e4 + away;
      if (best === undefined || worth < best.worth) best = {worth, name: each};
    }
    if (best !== undefined && best.worth < 1e4) break;
  }
  return best?.name;
}
