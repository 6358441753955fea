// Text that is copied by a button: commands, YAML.

import {el} from "./dom.js";

const TOLD_MS = 2000;

/** A button that copies what `text()` gives. Where the browser lets no page copy (plain HTTP), the text is marked instead. */
export function copyButton(text, element, label = "Copy") {
  const button = el("button", {type: "button", class: "copy", onclick: copy, "aria-label": label}, "Copy");
  async function copy() {
    try {
      await navigator.clipboard.writeText(text());
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(element);
      button.textContent = "Press Ctrl-C";
    }
    setTimeout(() => (button.textContent = "Copy"), TOLD_MS);
  }
  return button;
}

/** A command that breaks between words, and its button. */
export function copyableCommand(command) {
  const words = command.split(" ").flatMap((word, place) => [place ? " " : "", el("span", {}, word)]);
  const code = el("code", {}, el("bdi", {}, words));
  return [code, copyButton(() => command, code, `Copy: ${command}`)];
}
