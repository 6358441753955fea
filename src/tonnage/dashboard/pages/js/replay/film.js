// Frames of a cluster, played forwards and backwards on one State. Pure but for the State that it keeps.
//
//   const film = new Film(frames);      // of /api/v1/replay: the first message is a state, the others differences
//   film.goTo(3); film.goTo(1);         // back by the undo messages that State.apply gives
//   film.marks()                        // what this frame changed, for the map

import {own} from "../own.js";
import {State} from "../state.js";

export class Film {
  constructor(frames) {
    this.frames = frames;
    this.state = new State();
    this.state.apply(frames[0].message);
    this.undos = [];
    this.at = 0;
    this.changed = {moves: [], claims: new Map()};
  }

  get frame() {
    return this.frames[this.at];
  }

  get last() {
    return this.frames.length - 1;
  }

  /** Go to a frame, over all those between. */
  goTo(number) {
    const wanted = Math.min(this.last, Math.max(0, number));
    while (this.at > wanted) {
      this.state.apply(this.undos.pop());
      this.at -= 1;
    }
    while (this.at < wanted) {
      this.at += 1;
      this.undos.push(this.state.apply(this.frames[this.at].message));
    }
  }

  /** {nodes, claims, moves} as the map takes them: where the pod of this step goes, and the claims that it changed. */
  marks() {
    const {message, answer} = this.frame;
    const marks = {nodes: new Map(), claims: new Map(), moves: []};
    if (this.at === 0) return marks;
    const before = this.undos.at(-1).set.volumes ?? {};
    for (const [key, row] of Object.entries(message.set?.volumes ?? {})) {
      const was = own(before, key);
      if (was && was.node === row.node && was.state === row.state && was.target === row.target) continue;
      marks.claims.set(key, was ? "changed in this step" : "new in this step");
      if (was?.node && row.node && was.node !== row.node) marks.moves.push({key, from: was.node, to: row.node});
    }
    if (answer?.node) marks.nodes.set(answer.node, "goes here");
    return marks;
  }
}
