// Replays: files of `tonnage replay` and `tonnage simulate`, dropped on the page or from the examples, played on the map.
//
//   #/replay      #/replay/EXAMPLE

import {ask} from "../api.js";
import {el, keyed, replace} from "../dom.js";
import {isAborted, problem} from "../problem.js";
import {droppedFiles, isTooLarge, readFiles} from "../replay/given_files.js";
import {Player} from "../replay/player.js";
import {name} from "../table.js";

export const title = "Replay";

/** Show it in `main`; the function that is given back closes it. */
export function open(main, context, ...example) {
  const view = new ReplayView(main, context);
  if (example.join("/")) view.playExample(example.join("/"));
  return () => view.close();
}

class ReplayView {
  constructor(main, {go}) {
    this.main = main;
    this.go = go;
    this.files = [];
    this.player = null;
    this.controller = new AbortController();
    this.head = el("div", {class: "view-head"});
    this.told = el("div", {class: "told"});
    this.place = el("div", {});
    main.append(this.head, this.told, this.place);
    const {signal} = this.controller;
    main.addEventListener("dragover", event => event.preventDefault(), {signal});
    main.addEventListener("drop", event => this.onDrop(event), {signal});
    this.showChoice();
  }

  showHead(words, ...more) {
    replace(this.head, el("h2", {}, words), more);
  }

  /** What there is to play. */
  showChoice() {
    this.showHead("Replay", el("p", {class: "quiet"}, "Decisions played step by step on the map, forwards and backwards, from files. The cluster that runs is not touched."));
    this.list = el("ul", {class: "chips", "aria-label": "Files to play"});
    this.playButton = el("button", {type: "button", class: "main", onclick: () => this.playFiles()}, "Play these files");
    const chooser = el("input", {type: "file", id: "replay-files", multiple: true, accept: ".yaml,.yml,.json", onchange: () => this.take(readFiles([...chooser.files]))});
    const taught = el("ul", {class: "cards", "aria-label": "The three parts of KEP-5925"});
    const others = el("ul", {class: "example-list", "aria-label": "Other examples"});
    replace(
      this.place,
      el("section", {}, el("h3", {}, "The three parts of KEP-5925"), taught),
      el("div", {class: "asked"}, el("section", {class: "question dropzone"}, el("h3", {}, "Your own files"), el("p", {}, "Drop files or a folder anywhere on this page: the cluster's manifests, and a file of steps (", el("code", {}, "tonnage replay"), ") or a scenario (", el("code", {}, "tonnage simulate"), "); a scheduler's configuration too, if it matters."), el("label", {for: "replay-files"}, "Or choose them"), chooser, this.list, el("p", {class: "actions"}, this.playButton)), el("section", {}, el("h3", {}, "Other examples"), others)),
    );
    this.showFiles();
    this.listExamples(taught, others);
  }

  async listExamples(taught, others) {
    try {
      const {examples} = await ask("/api/v1/examples", {signal: this.controller.signal});
      const address = each => `#/replay/${encodeURIComponent(each.name)}`;
      replace(taught, examples.filter(each => each.part).map(each => el("li", {class: "card"}, el("a", {href: address(each)}, each.part), el("p", {}, each.about), el("p", {class: "quiet"}, each.name))));
      replace(others, examples.filter(each => !each.part).map(each => el("li", {}, el("a", {href: address(each)}, each.title), el("span", {class: "quiet"}, ` ${each.about}`))));
      if (!examples.length) replace(others, el("li", {class: "quiet"}, "This installation has no examples."));
    } catch (error) {
      if (!isAborted(error)) replace(this.told, problem(error));
    }
  }

  showFiles() {
    if (!this.list) return;
    keyed(
      this.list,
      this.files,
      file => file.name,
      file => el("li", {class: "chip"}, name(file.name), el("button", {type: "button", "aria-label": `Leave out ${file.name}`, onclick: () => this.leaveOut(file)}, "×")),
    );
    this.playButton.disabled = !this.files.length;
  }

  leaveOut(file) {
    this.files = this.files.filter(each => each !== file);
    this.showFiles();
    this.playButton.focus();
  }

  async onDrop(event) {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    const found = droppedFiles(event.dataTransfer); // before anything is waited for: the transfer ends with the event
    if (this.player) this.back();
    if (await this.take(found)) this.playFiles();
  }

  /** Files that were given, instead of those of the same names. */
  async take(reading) {
    replace(this.told);
    try {
      const given = await reading;
      const names = new Set(given.map(each => each.name));
      this.files = [...this.files.filter(each => !names.has(each.name)), ...given];
      this.showFiles();
      return true;
    } catch (error) {
      replace(this.told, problem(error));
      return false;
    }
  }

  playFiles() {
    if (isTooLarge(this.files)) {
      replace(this.told, problem(new Error("These files are larger than 16 MiB together.")));
      return;
    }
    this.play({files: this.files}, "your files");
  }

  playExample(example) {
    this.play({example}, example);
  }

  async play(body, words) {
    this.asking?.abort();
    const asking = new AbortController();
    this.asking = asking;
    replace(this.told, el("p", {class: "busy", role: "status"}, "Playing the files … ", el("button", {type: "button", onclick: () => asking.abort()}, "Stop")));
    try {
      const played = await ask("/api/v1/replay", {method: "POST", body, signal: asking.signal});
      if (asking !== this.asking) return;
      replace(this.told);
      this.showPlayer(played, words);
    } catch (error) {
      if (asking !== this.asking) return;
      replace(this.told, isAborted(error) ? null : problem(error));
    }
  }

  showPlayer(played, words) {
    this.player?.close();
    this.list = null;
    this.player = new Player(played, words);
    this.showHead("Replay", el("p", {}, name(words)), el("button", {type: "button", onclick: () => this.back(true)}, "Play something else"));
    replace(this.place, this.player.element);
    this.player.open();
    this.player.playButton.focus({preventScroll: true});
  }

  back(isLeft = false) {
    this.player?.close();
    this.player = null;
    if (isLeft && location.hash !== "#/replay") return this.go("replay");
    this.showChoice();
  }

  close() {
    this.controller.abort();
    this.asking?.abort();
    this.player?.close();
  }
}
