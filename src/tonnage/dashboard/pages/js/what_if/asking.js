// One question to the server at a time, with what the page shows meanwhile and afterwards. A question that is asked again,
// or whose view is left, is given up: the server hears of it and stops.

import {ask} from "../api.js";
import {el, replace} from "../dom.js";
import {clockTime} from "../format.js";
import {isAborted, problem} from "../problem.js";

const WATCHED = ["nodes", "capacities", "volumes", "pods"];

export class Question {
  /** `place` is where the answer goes; `again` asks once more. */
  constructor(state, place, again) {
    this.state = state;
    this.place = place;
    this.again = again;
    this.controller = null;
    this.unfollow = () => {};
  }

  /** Ask, and show what `shown(answer)` makes of the answer; undefined when it was given up or refused. */
  async ask(path, body, words, shown) {
    this.close();
    const controller = new AbortController();
    this.controller = controller;
    replace(this.place, el("p", {class: "busy", role: "status"}, `${words} … `, el("button", {type: "button", onclick: () => this.giveUp()}, "Stop")));
    try {
      const answer = await ask(path, {method: "POST", body, signal: controller.signal});
      this.controller = null;
      replace(this.place, this.asOf(), shown(answer));
      return answer;
    } catch (error) {
      if (controller !== this.controller || isAborted(error)) return undefined;
      this.controller = null;
      replace(this.place, problem(error));
      return undefined;
    }
  }

  /** When the answer was true, and whether the cluster is another by now. */
  asOf() {
    const told = el("p", {class: "as-of quiet", role: "status"}, `As of ${clockTime(new Date().toISOString())}. `);
    this.unfollow = this.state.onChange(changed => {
      if (!WATCHED.some(name => changed[name])) return;
      this.unfollow();
      told.append("The cluster has changed since. ", el("button", {type: "button", onclick: this.again}, "Ask again"));
    });
    return told;
  }

  giveUp() {
    this.close();
    replace(this.place, el("p", {class: "quiet", role: "status"}, "Stopped."));
  }

  close() {
    this.controller?.abort();
    this.controller = null;
    this.unfollow();
    this.unfollow = () => {};
  }
}
