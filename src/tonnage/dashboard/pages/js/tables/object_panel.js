// One object of a table: commands that look at it, and its YAML as the API server has it now.

import {ask, Refusal} from "../api.js";
import {copyableCommand, copyButton} from "../copyable.js";
import {el, replace} from "../dom.js";
import {clockTime} from "../format.js";
import {hrefs} from "../links.js";
import {shellWords} from "./kinds.js";

const LINKS = {
  nodes: key => [["On the map", hrefs.node(key)], ["Preview a drain", hrefs.drain(key)]],
  claims: key => [["On the map", hrefs.claim(key)]],
  volumes: (key, row) => (row ? [["On the map", hrefs.claim(row.claim || key)]] : []),
  pods: key => [["Its story", hrefs.pod(key)], ["Why this node, or none", hrefs.explanation(key)]],
};

/** A panel over the table; `onClose` is called when it is closed by the reader. */
export function objectPanel(about, onClose) {
  const title = el("h3", {tabindex: -1});
  const body = el("div", {});
  const end = el("button", {type: "button", class: "panel-close", "aria-label": "Close details", onclick: () => onClose()}, "×");
  const element = el("aside", {class: "panel object-panel", "aria-label": "Details", hidden: true}, el("header", {}, title, end), body);
  let asked = new AbortController();
  let before = null;

  async function load(resource, key, place) {
    asked.abort();
    asked = new AbortController();
    const {signal} = asked;
    place.setAttribute("aria-busy", "true");
    try {
      const told = await ask(`/api/v1/objects/${resource}/${key.split("/").map(encodeURIComponent).join("/")}`, {signal});
      const pre = el("pre", {class: "yaml", tabindex: "0", role: "region", "aria-label": `YAML of ${key}`}, told.yaml);
      const again = el("button", {type: "button", class: "copy", onclick: () => load(resource, key, place)}, "Read again");
      const head = el("p", {class: "quiet yaml-head"}, `As of ${clockTime(told.at)}, without managedFields.`, " ", copyButton(() => told.yaml, pre, "Copy the YAML"), again);
      replace(place, head, told.note ? el("p", {class: "quiet"}, told.note) : null, pre);
    } catch (error) {
      if (signal.aborted) return;
      const says = error instanceof Refusal ? [error.message, error.hint].filter(Boolean).join("; ") : "the dashboard's server does not answer";
      replace(place, el("p", {class: "error"}, "Its YAML cannot be read: ", el("bdi", {}, says)));
    } finally {
      if (!signal.aborted) place.removeAttribute("aria-busy");
    }
  }

  return {
    element,
    /** Show an object; the focus goes to its name. */
    open(kind, table, key, row) {
      if (element.hidden) before = document.activeElement;
      element.hidden = false;
      replace(title, el("bdi", {}, key));
      const yaml = el("div", {class: "yaml-place"}, el("p", {class: "quiet"}, "Reading…"));
      const flags = about.commandFlags ? ` ${about.commandFlags}` : "";
      const commands = table.commands(key, row, {isEmbedded: about.embedded}).map(words => el("li", {class: "command"}, copyableCommand(`${shellWords(words)}${flags}`)));
      const links = LINKS[kind](key, row).map(([words, href]) => el("li", {}, el("a", {href}, words)));
      replace(body, el("ul", {class: "object-links"}, links), el("h4", {}, "Commands"), el("ul", {class: "commands"}, commands), el("h4", {}, "YAML"), yaml);
      body.scrollTop = element.scrollTop = 0;
      title.focus({preventScroll: true});
      load(table.resource, key, yaml);
    },
    close() {
      asked.abort();
      if (element.hidden) return;
      element.hidden = true;
      if (before?.isConnected) before.focus({preventScroll: true});
    },
  };
}
