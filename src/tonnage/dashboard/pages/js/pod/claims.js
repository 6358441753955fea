// A pod's claims on its page: the volume of each, where it is or is going to, attachments, and what is kept back for it.

import {el} from "../dom.js";
import {bytes, clockTime} from "../format.js";
import {link, named} from "../links.js";
import {ageOf} from "../since.js";

const STATES = {
  waiting: "○ waits for its pod to be placed",
  making: "◔ is being made",
  bound: "▣ bound",
  moving: "↻ on its way",
  released: "▢ released",
  lost: "✖ its volume is lost",
};

/** One claim as a card; `capacities` are the state's rows. */
export function claimCard(claim, capacities) {
  if (claim.missing) {
    return el("article", {class: "claim-card"}, el("h4", {}, named(claim.claim)), el("p", {class: "is-bad"}, "✖ there is no such claim"));
  }
  const row = claim.row ?? {};
  const facts = [];
  const fact = (word, ...said) => facts.push(el("div", {}, el("dt", {}, word), el("dd", {}, said)));
  fact("state", STATES[row.state ?? "waiting"] ?? row.state, claim.phase && claim.phase.toLowerCase() !== row.state ? el("span", {class: "badge"}, claim.phase) : null);
  fact("size", bytes(row.bytes ?? claim.requested), claim.requested && row.bytes && row.bytes !== claim.requested ? `, ${bytes(claim.requested)} asked for` : "");
  if (row.storageClass) fact("class", named(row.storageClass), row.driver ? [" of ", named(row.driver)] : "");
  if (row.volume) fact("volume", named(row.volume));
  if (claim.promisedVolume && claim.promisedVolume !== row.volume) fact("promised", named(claim.promisedVolume), " by the scheduler");
  if (row.node) fact(row.state === "making" ? "made on" : "on", link("node", row.node), row.pool >= 0 ? `, pool ${row.pool}` : "");
  if (row.target) fact("on its way to", link("node", row.target));
  if (claim.selectedNode && ![row.node, row.target].includes(claim.selectedNode)) fact("chosen node", link("node", claim.selectedNode));
  for (const each of claim.attachments) fact("attachment", attachment(each));
  for (const each of claim.held) fact("kept back", heldWords(each, capacities));
  for (const each of claim.conditions) fact(each.type, `${each.status} `, el("bdi", {}, each.message || each.reason));
  if (claim.modes?.length) fact("access", claim.modes.join(", "));
  return el("article", {class: "claim-card"}, el("h4", {}, link("claim", claim.claim)), el("dl", {class: "fact-list"}, facts));
}

function attachment(each) {
  const word = each.detaching ? "is being detached from" : each.attached ? "⇥ attached to" : "⇢ is being attached to";
  return [`${word} `, link("node", each.node), each.since ? [" for ", ageOf(each.since)] : "", each.error ? el("span", {class: "is-bad"}, ": ✖ ", el("bdi", {}, each.error)) : ""];
}

/** What is kept back, of what, since when and why. */
export function heldWords(each, capacities) {
  const row = capacities.get(each.capacity);
  const what = row?.nodeCount === 1 ? [named(row.storageClass), " on ", link("node", row.nodes[0])] : named(each.capacity);
  return [
    each.bytes ? `${bytes(each.bytes)} of ` : "all of ",
    what,
    ` (mode ${each.mode}) for `,
    ageOf(each.since),
    `, since ${clockTime(each.since)}`,
    each.why ? [": ", el("bdi", {}, each.why)] : "",
  ];
}
