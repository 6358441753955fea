// The list of troubles: what is wrong, for how long, what it means, and the next command with a button that copies it.

import {copyableCommand} from "../copyable.js";
import {el, keyed, replace} from "../dom.js";
import {hrefs} from "../links.js";
import {ageOf, setAge} from "../since.js";

const WORDS = {error: "Error", warning: "Warning", info: "Note"};
const SIGNS = {error: "✗", warning: "▲", info: "i"};

/** Let a list show these troubles; those that stay are not made anew. */
export function showTroubles(list, troubles) {
  keyed(list, troubles, each => `${each.kind} ${each.object}`, make, update);
  list.hidden = !troubles.length;
}

function make(trouble) {
  return el(
    "li",
    {class: "trouble"},
    el(
      "div",
      {class: "trouble-head"},
      el("span", {class: "trouble-severity"}, el("span", {"aria-hidden": "true"}, SIGNS[trouble.severity]), ` ${WORDS[trouble.severity]}`),
      el("h3", {}, headlineOf(trouble)),
      el("span", {class: "trouble-age"}, el("span", {class: "trouble-older"}), ageOf(trouble.since)),
    ),
    el("p", {class: "trouble-meaning"}),
    el("div", {class: "command"}),
    el("p", {class: "trouble-more quiet", hidden: true}),
  );
}

function headlineOf(trouble) {
  const [kind, key] = trouble.object.split(/ (.*)/s);
  const hrefOf = {Node: hrefs.node, Pod: hrefs.pod, PersistentVolumeClaim: hrefs.claim}[kind];
  return hrefOf ? el("a", {class: "trouble-link", href: hrefOf(key)}) : el("bdi", {});
}

function update(item, trouble) {
  item.dataset.severity = trouble.severity;
  say(item.querySelector("h3").firstChild, trouble.headline);
  say(item.querySelector(".trouble-older"), trouble.older ? "at least " : "for ");
  setAge(item.querySelector("time"), trouble.since);
  say(item.querySelector(".trouble-meaning"), trouble.meaning);
  const next = item.querySelector(".command");
  if (next.firstChild?.textContent !== trouble.command) replace(next, copyableCommand(trouble.command));
  const more = item.querySelector(".trouble-more");
  more.hidden = !trouble.more;
  say(more, `… and ${trouble.more.toLocaleString("en")} more of this kind: tonnage status -o json lists them`);
}

function say(element, text) {
  if (element.textContent !== text) replace(element, el("bdi", {}, text));
}
