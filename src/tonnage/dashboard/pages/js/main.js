// The page put together: login, the stream of changes into the state, and one view at a time, chosen by the fragment.
//
//   #/map   #/pending   #/flow   #/pod/NAMESPACE/NAME   #/what-if   #/replay   #/faults
//
// A view is a module in views/ with `title` and `open(main, context, ...rest)`, which shows it in `main` and gives back a
// function that closes it. `context` is {state, about, go}.

import {ask, follow, login, loginWith, Refusal} from "./api.js";
import {el, keyed, replace} from "./dom.js";
import {State} from "./state.js";
import * as explain from "./views/explain.js";
import * as faults from "./views/faults.js";
import * as flow from "./views/flow.js";
import * as map from "./views/map.js";
import * as pending from "./views/pending.js";
import * as pod from "./views/pod.js";
import * as whatIf from "./views/what_if.js";

const VIEWS = {
  map,
  pending,
  flow,
  explain,
  pod,
  "what-if": whatIf,
  faults,
};
const state = new State();
const main = document.getElementById("main");
let about = {};
let isIn = false; // logged in: a view is shown
let close = () => {};

function go(where) {
  location.hash = `#/${where}`;
}

function show() {
  const [name = "map", ...rest] = location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  const view = VIEWS[name] ?? VIEWS.map;
  close();
  replace(main);
  document.title = `${view.title} · Tonnage`;
  close = view.open(main, {state, about, go}, ...rest) ?? (() => {});
  showNavigation(VIEWS[name] ? name : "map");
}

function showNavigation(current) {
  const items = Object.entries(VIEWS).filter(([, view]) => view.isListed?.(about) ?? true);
  const list = el("ul", {});
  for (const [name, view] of items) {
    list.append(el("li", {}, el("a", {href: `#/${name}`, "aria-current": name === current ? "page" : null}, view.title)));
  }
  replace(document.getElementById("nav"), list);
}

function showStatus(status) {
  const element = document.getElementById("status");
  const words = {live: "live", away: "the dashboard's server is away; trying again", refused: "the token is not valid any more"};
  replace(element, words[status] ?? status);
  element.dataset.status = status;
}

function showNotices() {
  const element = document.getElementById("notices");
  const items = [...state.notices.entries()].map(([key, row]) => ({key, ...row}));
  keyed(
    element,
    items,
    item => item.key,
    () => el("p", {class: "notice"}),
    (child, item) => {
      child.dataset.severity = item.severity ?? "warning";
      replace(child, el("b", {}, item.key), ": ", item.text, item.hint ? ` (${item.hint})` : "");
    },
  );
}

/** Ask for the token, until it is right. */
function askForToken() {
  return new Promise(resolve => {
    const field = el("input", {type: "password", id: "token", autocomplete: "off", required: true});
    const told = el("p", {class: "error", role: "alert"});
    const form = el(
      "form",
      {
        class: "login",
        onsubmit: async event => {
          event.preventDefault();
          try {
            if (await loginWith(field.value.trim())) resolve();
            else replace(told, "This is not the token of this dashboard.");
          } catch (error) {
            replace(told, error instanceof Refusal ? error.message : "The dashboard's server does not answer.");
          }
        },
      },
      el("h2", {}, "Token"),
      el("p", {}, "Open the address that was printed when the dashboard started, or paste its token here."),
      el("label", {for: "token"}, "Token"),
      field,
      el("button", {type: "submit"}, "Log in"),
      told,
    );
    replace(main, form);
    field.focus();
  });
}

/** Log in, find out what this dashboard is of, and follow it; when its token changes, all of it again. */
async function begin() {
  if (!(await login())) await askForToken();
  about = await ask("/api/v1/about");
  isIn = true;
  show();
  const leave = follow(message => state.apply(message), status => {
    showStatus(status);
    if (status !== "refused") return;
    leave();
    isIn = false;
    close();
    close = () => {};
    start();
  });
}

/** Begin, until somebody answers. */
async function start() {
  try {
    await begin();
  } catch (error) {
    showStatus(error instanceof Refusal ? error.message : "away");
    setTimeout(start, 2000);
  }
}

state.onChange(changed => changed.notices && showNotices());
window.addEventListener("hashchange", () => isIn && show());
start();
