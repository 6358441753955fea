// An explanation in words: why this node won, and what plugins are called in little room.

import {own} from "../own.js";

const SHORT = {
  ImageLocality: "Images",
  InterPodAffinity: "Pod affinity",
  NodeAffinity: "Node affinity",
  NodeResourcesBalancedAllocation: "Balanced",
  NodeResourcesFit: "Fit",
  PodTopologySpread: "Spread",
  TaintToleration: "Taints",
  VolumeBinding: "Volumes",
};

/** A plugin's name for the head of a column. */
export function shortName(plugin) {
  return own(SHORT, plugin) ?? plugin;
}

/** Which plugins' scores differ from node to node, and which are alike everywhere and decided nothing. */
export function telling(nodes) {
  const plugins = Object.keys(nodes[0]?.scores ?? {});
  const differ = plugins.filter(name => nodes.some(node => node.scores[name] !== nodes[0].scores[name]));
  return {differ, alike: plugins.filter(name => !differ.includes(name))};
}

/** Why the chosen node is the one, in a sentence. `nodes` fit, the best first. */
export function whyChosen(chosen, nodes) {
  const scored = nodes.filter(node => !node.passedOver);
  const winner = scored.find(node => node.name === chosen);
  if (!winner) return "";
  if (scored.length === 1) return `${chosen} is the only node that fits; it is not scored.`;
  const best = Math.max(...scored.map(node => node.total));
  if (winner.total < best) return `${chosen} is the node that the pod is nominated to; others score more.`;
  const ties = scored.filter(node => node.total === best).length;
  if (ties > 1) return `${ties.toLocaleString("en")} nodes share the best total of ${best}; one is drawn at random, always the same one for the same input.`;
  const second = scored.filter(node => node !== winner).reduce((found, node) => (node.total > found.total ? node : found));
  const leads = Object.keys(winner.scores)
    .map(name => [name, winner.scores[name] - (second.scores[name] ?? 0)])
    .filter(([, lead]) => lead !== 0)
    .sort((one, other) => other[1] - one[1])
    .map(([name, lead]) => `${shortName(name)} ${lead > 0 ? "+" : "−"}${Math.abs(lead)}`);
  return `${chosen} leads ${second.name} by ${winner.total - second.total}: ${leads.join(", ")}.`;
}

/** What a grade of a fit means. */
export const GRADES = {
  guaranteed: "guaranteed: whichever pools the driver takes, in whatever order",
  possible: "possible: only if the driver picks the right pools",
  none: "none: the claims cannot all be put into these pools",
};
