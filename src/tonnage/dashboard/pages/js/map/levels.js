// The three levels of zoom: each node a cell, a tile, or in detail; how wide a node is at least, in pixels.

export const LEVELS = {
  cells: {least: 18, gap: 2, header: 34},
  tiles: {least: 172, gap: 8, header: 36},
  detail: {least: 330, gap: 8, header: 36},
};
export const LEVEL_ORDER = Object.keys(LEVELS);
export const LEVEL_WORDS = {cells: "Overview", tiles: "Tiles", detail: "Detail"};

/** The level that shows so many nodes at first. */
export function levelFor(nodes) {
  return nodes <= 12 ? "detail" : nodes <= 250 ? "tiles" : "cells";
}
