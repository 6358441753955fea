// A question that must be answered before anything else is done: the browser's own modal dialog, which keeps the focus in
// it, ends at Escape, and gives the focus back to where it was.
//
//   if (await confirmed({title: "Stop node-1?", says: [el("p", {}, "…")], action: "Stop it"})) …

import {el} from "./dom.js";

/**
 * Ask, and say whether the answer is yes. `says` are elements that tell exactly what will happen; `action` names it on the
 * button. The focus is on the button that does nothing: whoever presses Enter by habit changes nothing.
 */
export function confirmed({title, says, action}) {
  return new Promise(resolve => {
    const no = el("button", {type: "button", onclick: () => dialog.close("no"), autofocus: true}, "Cancel");
    const yes = el("button", {type: "button", class: "grave", onclick: () => dialog.close("yes")}, action);
    const dialog = el(
      "dialog",
      {class: "ask", "aria-labelledby": "ask-title", "aria-describedby": "ask-says"},
      el("h2", {id: "ask-title"}, title),
      el("div", {id: "ask-says"}, says),
      el("p", {class: "actions"}, no, yes),
    );
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
