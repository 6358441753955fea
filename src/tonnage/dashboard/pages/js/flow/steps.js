// Steps of a pod's lane: a sign and a word for each kind, repeated ones together, and the gaps between them.

import {span} from "../since.js";

/** Sign and word by kind; colour repeats what these say: bad for what went wrong, good for what is reached. */
export const KINDS = {
  created: {sign: "○", word: "created"},
  decided: {sign: "◆", word: "decided"},
  reserved: {sign: "▨", word: "reserved"},
  released: {sign: "▢", word: "released"},
  nominated: {sign: "◇", word: "nominated"},
  refused: {sign: "✕", word: "refused", tone: "bad"},
  provisioning: {sign: "◔", word: "provisioning"},
  provisioned: {sign: "●", word: "provisioned", tone: "good"},
  rebuilding: {sign: "↻", word: "rebuilding"},
  rebuilt: {sign: "◉", word: "rebuilt", tone: "good"},
  bound: {sign: "▣", word: "bound", tone: "good"},
  attaching: {sign: "⇢", word: "attaching"},
  attached: {sign: "⇥", word: "attached", tone: "good"},
  started: {sign: "▶", word: "started", tone: "good"},
  failed: {sign: "✖", word: "failed", tone: "bad"},
  "provision-failed": {sign: "✖", word: "provisioning failed", tone: "bad"},
  "attach-failed": {sign: "✖", word: "attaching failed", tone: "bad"},
  detached: {sign: "⇤", word: "detached"},
  succeeded: {sign: "✓", word: "succeeded", tone: "good"},
  terminating: {sign: "◌", word: "terminating"},
  deleted: {sign: "−", word: "deleted"},
  event: {sign: "·", word: "event"},
};

/** What a step is shown as; a kind of a later version is shown by its own name. */
export function kindOf(step) {
  return KINDS[step.kind] ?? {sign: "·", word: step.kind};
}

/** Steps with those that repeat the one before them counted: {step, last, times, gap_s, isCoarse}, the oldest first. */
export function marksOf(steps) {
  const marks = [];
  for (const step of steps) {
    const before = marks.at(-1);
    if (before && before.step.kind === step.kind && (before.step.node ?? "") === (step.node ?? "") && before.step.text === step.text) {
      before.times += 1;
      before.last = step;
      continue;
    }
    const isCoarse = before ? [step.at, before.last.at].some(at => !at.includes(".")) : false;
    const gap_s = before ? Math.max(0, (Date.parse(step.at) - Date.parse(before.last.at)) / 1000) : 0;
    marks.push({step, last: step, times: 1, gap_s, isCoarse});
  }
  return marks;
}

/** What lies between a mark and the one before it, in words; objects tell whole seconds, and less than that is unknown. */
export function gapWords({step, gap_s, isCoarse}) {
  return isCoarse && gap_s < 1 ? "<1 s" : span(gap_s);
}

/** How long a line between two marks is, in steps of ten: a hundred times as long is twice as far. */
export function lengthOf(gap_s) {
  return Math.max(0, Math.min(5, Math.round(1 + Math.log10(Math.max(gap_s, 0.1)))));
}

/** When a lane last had news, in milliseconds. */
export function newsOf(lane) {
  const last = lane.steps?.at(-1);
  return last ? Date.parse(last.at) : 0;
}
