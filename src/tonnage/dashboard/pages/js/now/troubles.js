// The list of troubles: what is wrong, for how long, what it means, and the next command with a button that copies it.

import {addressOf} from "../address.js";
import {el, keyed, replace, set} from "../dom.js";
import {ageOf, setAge} from "../since.js";

const WORDS = {error: "Error", warning: "Warning", info: "Note"};
const SIGNS = {error: "✗", warning: "▲", info: "i"};

/** Let a list show these troubles; those that stay are not made anew. */
export function showTroubles(list, troubles) {
  keyed(list, troubles, each => `${each.kind} ${each.object}`, make, update);
  list.hidden = !troubles.length;
}

function make(trouble) {
  const command = el("code", {class: "trouble-command"});
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
    el("div", {class: "trouble-next"}, command, copyButton(command)),
    el("p", {class: "trouble-more quiet", hidden: true}),
  );
}

function headlineOf(trouble) {
  const [kind, key] = trouble.object.split(/ (.*)/s);
  const place = {Node: ["map", ["node", key]], Pod: ["pod", key.split("/")], PersistentVolumeClaim: ["map", ["claim", ...key.split("/")]]}[kind];
  return place ? el("a", {class: "trouble-link", href: addressOf(place[0], place[1], {})}) : el("bdi", {});
}

function update(item, trouble) {
  item.dataset.severity = trouble.severity;
  say(item.querySelector("h3").firstChild, trouble.headline);
  say(item.querySelector(".trouble-older"), trouble.older ? "at least " : "for ");
  setAge(item.querySelector("time"), trouble.since);
  say(item.querySelector(".trouble-meaning"), trouble.meaning);
  say(item.querySelector(".trouble-command"), trouble.command);
  set(item.querySelector(".copy"), "aria-label", `Copy ${trouble.command}`);
  const more = item.querySelector(".trouble-more");
  more.hidden = !trouble.more;
  say(more, `… and ${trouble.more.toLocaleString("en")} more of this kind: tonnage status -o json lists them`);
}

function say(element, text) {
  if (element.textContent !== text) replace(element, el("bdi", {}, text));
}

function copyButton(command) {
  const button = el("button", {type: "button", class: "copy"}, "Copy");
  let timer = 0;
  button.addEventListener("click", async () => {
    const isCopied = await navigator.clipboard?.writeText(command.textContent).then(() => true, () => false);
    if (!isCopied) getSelection().selectAllChildren(command); // without https there is no clipboard: Ctrl-C copies it
    replace(button, isCopied ? "Copied" : "Selected");
    clearTimeout(timer);
    timer = setTimeout(() => replace(button, "Copy"), 2000);
  });
  return button;
}
