// What is wrong with a node, or unusual: a word, a letter for small drawings, and why. Never a colour alone.

import {bytes, count} from "../format.js";

/** From which share on a node counts as nearly full. */
const NEARLY_FULL = 0.95;

/** What may be told of a node, worst first; `short` is for tiles. `isTrouble` is false for what somebody chose, or what passes by itself. */
export const SIGNS = {
  gone: {word: "gone", short: "gone", mark: "✕", isTrouble: true},
  notReady: {word: "not ready", short: "not ready", mark: "!", isTrouble: true},
  attachError: {word: "attach error", short: "attach", mark: "⚠", isTrouble: true},
  makeError: {word: "volume cannot be made", short: "volume", mark: "⚠", isTrouble: true},
  stale: {word: "stale figures", short: "stale", mark: "?", isTrouble: true},
  slotsFull: {word: "no attach slot", short: "no slot", mark: "▮", isTrouble: true},
  nearlyFull: {word: "nearly full", short: "full", mark: "▲", isTrouble: true},
  cordoned: {word: "cordoned", short: "cordoned", mark: "‖", isTrouble: false},
  moving: {word: "volumes on their way", short: "moving", mark: "→", isTrouble: false},
  kept: {word: "room kept back", short: "kept", mark: "◇", isTrouble: false},
};
const ORDER = Object.keys(SIGNS);

/** Signs of a node, worst first: [{kind, word, mark, isTrouble, why}]. */
export function signsOf(fact, volumes) {
  const found = [];
  const say = (kind, why = "") => found.push({kind, why, ...SIGNS[kind]});
  const {row} = fact;
  if (row.gone) say("gone", "volumes name it, and there is no such node any more");
  if (row.ready === false && !row.gone) say("notReady", row.reason ?? "");
  const broken = fact.claims.map(key => volumes.get(key)).find(each => each.attachError);
  if (broken) say("attachError", broken.attachError);
  const unmade = fact.claims.map(key => volumes.get(key)).find(each => each.error);
  if (unmade) say("makeError", unmade.error);
  const stale = fact.told.map(([, each]) => each.stale).find(Boolean);
  if (stale) say("stale", stale);
  for (const each of row.slots ?? []) {
    if (isFull(each)) say("slotsFull", `${each.driver}: ${each.used ?? 0} of ${each.limit ?? 0} are used`);
  }
  if (fact.fullness !== null && fact.fullness >= NEARLY_FULL) say("nearlyFull", `${bytes(fact.free)} are free`);
  if (row.cordoned) say("cordoned", "it takes no new pods");
  if (fact.leaving.length || fact.coming.length) {
    const parts = [];
    if (fact.leaving.length) parts.push(`${count(fact.leaving.length, "volume")} to other nodes`);
    if (fact.coming.length) parts.push(`${count(fact.coming.length, "volume")} to this node`);
    say("moving", parts.join(", "));
  }
  if (fact.kept) say("kept", `${bytes(fact.kept)} are kept back`);
  return found.sort((a, b) => ORDER.indexOf(a.kind) - ORDER.indexOf(b.kind));
}

/** Whether no further volume can be attached. */
export function isFull(slots) {
  return slots.limit !== undefined && slots.limit !== null && (slots.used ?? 0) >= slots.limit;
}

/** How bad the worst sign is: larger is worse, 0 is none. */
export function badness(fact) {
  if (!fact.signs.length) return 0;
  const worst = ORDER.length - ORDER.indexOf(fact.signs[0].kind);
  return fact.signs[0].isTrouble ? 100 + worst : worst;
}

/** Whether something is wrong with it. */
export function isTroubled(fact) {
  return fact.signs.some(sign => sign.isTrouble);
}
