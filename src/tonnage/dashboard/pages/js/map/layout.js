// Where things are on the map, by arithmetic alone: nothing is measured, so that rows which are not drawn have a place too.
//
//   const layout = layOut(groups, {perRow: 6, heightOf: fact => 64, …});
//   const [first, end] = seen(layout, top, bottom);      // of layout.rows, by binary search
//   layout.placeOf.get("node-1")                         // {row, column}
//
// A row is {kind: "header" | "shared" | "nodes", group, names, top, height, index}. Rows of nodes are as high as the highest node
// in them; a group's rows follow each other, and a group that is collapsed has its header alone.

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
  const add = (kind, group, names, height) => {
    rows.push({kind, group: group.key, names, top, height, index: rows.length, id: `${kind} ${group.key} ${names[0] ?? ""}`});
    top += height + gap;
  };
  for (const group of groups) {
    if (headerHeight && !group.isBare) add("header", group, [], headerHeight);
    if (group.isCollapsed) continue;
    if (group.sharedHeight) add("shared", group, [], group.sharedHeight);
    for (let start = 0; start < group.names.length; start += perRow) {
      const names = group.names.slice(start, start + perRow);
      let height = 0;
      for (const name of names) height = Math.max(height, heightOf(name));
      names.forEach((name, column) => placeOf.set(name, {row: rows.length, column}));
      add("nodes", group, names, height);
    }
  }
  return {rows, placeOf, height: Math.max(0, top - gap), perRow};
}

/** Which rows are between two heights: [first, end), `end` not among them. */
export function seen(layout, top, bottom) {
  const {rows} = layout;
  const first = search(rows.length, index => rows[index].top + rows[index].height > top);
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
  const row = nodeRows[Math.min(nodeRows.length - 1, Math.max(0, at + steps))];
  return row.names[Math.min(place.column, row.names.length - 1)];
}
