// The page put together: login, the stream of changes into the state, and one view at a time, chosen by the fragment.
//
//   #/now   #/map   #/pending   #/flow   #/pod/NAMESPACE/NAME   #/tables   #/what-if   #/replay   #/faults
//
// A view is a module in views/ with `title` and `open(main, context, ...rest)`, which shows it in `main` and gives back a
// function that closes it, or {close, goTo}: `goTo(query, ...rest)` shows another address of the same view. `context` is
// {state, about, go, query, tell}: `query` is what stands behind `?` in the address, and `tell(rest, choices, {isNew})` lets
// the address say what is shown now. `titleOf(...rest)` is what a window is called that shows one thing, such as a pod.

import {addressOf, parsed} from "./address.js";
import {ask, follow, givenToken, login, loginWith, Refusal} from "./api.js";
import {el, keyed, replace, set} from "./dom.js";
import {clockTime} from "./format.js";
import {keepPlaces, writeAddress} from "./places.js";
import {ageOf, keepAges} from "./since.js";
import {State} from "./state.js";

const views = import("./views.js"); // while they come, the state is on its way
const state = new State();
const main = document.getElementById("main");
let VIEWS = {};
let about = {};
let isIn = false; // logged in: a view is shown
let stream = "away"; // what the stream of changes says of itself
let lostAt = ""; // when the server was last heard of, while it is away
let close = () => {};
let current = {name: ""}; // the view that is shown: {name, goTo}

function go(where) {
  location.hash = `#/${where}`;
}

/** The view that the address names, and what it is about; the landing page for an address that names none. */
function whereTo() {
  try {
    const {parts: [name, ...rest], query} = parsed(location.hash);
    // A browser would take "." and ".." out of the paths that are asked for: nothing has such a name.
    if (Object.hasOwn(VIEWS, name) && !rest.some(each => each === "." || each === "..")) return [name, rest, query];
  } catch (error) {
    if (!(error instanceof URIError)) throw error; // somebody's address, broken off within an escape
  }
  return ["now", [], new URLSearchParams()];
}

/** Show what the address names; true when it is the view that is shown already. */
function show() {
  const [name, rest, query] = whereTo();
  const view = VIEWS[name];
  if (current.name === name && current.goTo) {
    current.goTo(query, ...rest);
    return true;
  }
  const hadFocus = main.contains(document.activeElement);
  close();
  replace(main);
  document.title = `${(rest.length && view.titleOf?.(...rest)) || view.title} · Tonnage`;
  const tell = (about, choices, {isNew = true} = {}) => writeAddress(addressOf(name, about, choices), {isNew});
  const opened = view.open(main, {state, about, go, query, tell}, ...rest) ?? (() => {});
  close = opened.close ?? opened;
  current = {name, goTo: opened.goTo};
  showNavigation(name);
  // What had the focus is gone with its view: the keyboard goes on in the new one, not at the top of the page.
  if (hadFocus && document.activeElement === document.body) main.focus({preventScroll: true});
  return false;
}

const links = el("ul", {});
document.getElementById("nav").append(links);

function showNavigation(current) {
  keyed(
    links,
    Object.entries(VIEWS).filter(([, view]) => view.isListed?.(about) ?? true),
    ([name]) => name,
    ([name, view]) => el("li", {}, el("a", {href: `#/${name}`}, view.title)),
    (child, [name]) => set(child.firstChild, "aria-current", name === current ? "page" : null),
  );
}

// A link to #main would be taken for the name of a view.
document.querySelector(".skip").addEventListener("click", event => {
  event.preventDefault();
  main.focus();
});

function showStatus(status, heardAt = 0) {
  stream = status;
  lostAt = status === "live" || status === "refused" || !heardAt ? "" : new Date(heardAt).toISOString();
  showAge();
}

const STATUS_WORDS = {
  live: "live",
  away: "the dashboard's server is away; trying again",
  behind: "the API server is away; trying again",
  refused: "the token is not valid any more",
};

/** While nobody tells what is new, what is shown is dimmed, and dated by whoever went first. */
function showAge() {
  const silentSince = state.notices.get("server")?.since;
  const status = stream === "live" && silentSince ? "behind" : stream;
  const badge = document.getElementById("status");
  replace(badge, STATUS_WORDS[status] ?? status);
  badge.dataset.status = status;
  const asOf = [lostAt, silentSince].filter(Boolean).sort()[0] ?? "";
  const element = document.getElementById("not-live");
  main.classList.toggle("is-old", Boolean(asOf));
  element.hidden = !asOf;
  if (element.dataset.at === asOf) return;
  element.dataset.at = asOf;
  replace(element, asOf ? ["Not live: what is shown is of ", el("b", {}, clockTime(asOf)), ", ", ageOf(asOf), " ago. It goes on by itself."] : null);
}

function showNotices() {
  const element = document.getElementById("notices");
  const rank = row => ["error", "warning", "info"].indexOf(row.severity ?? "warning"); // what is wrong comes first
  const items = [...state.notices.entries()].map(([key, row]) => ({key, ...row})).sort((a, b) => rank(a) - rank(b));
  keyed(
    element,
    items,
    item => item.key,
    () => el("p", {class: "notice"}),
    (child, item) => {
      child.dataset.severity = item.severity ?? "warning";
      replace(child, el("b", {}, el("bdi", {}, item.key)), ": ", el("bdi", {}, item.text), item.hint ? [" (", el("bdi", {}, item.hint), ")"] : "");
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
async function start() {
  let told = null;
  let hasLeft = false;
  try {
    if (!(await login())) await askForToken();
    told = ask("/api/v1/about");
    told.catch(() => {}); // it is waited for below
  } catch (error) {
    return startLater(error);
  }
  const leave = follow(takeIn, (status, heardAt) => {
    showStatus(status, heardAt);
    if (status !== "refused") return;
    leave();
    hasLeft = true;
    isIn = false;
    close();
    close = () => {};
    current = {name: ""};
    start();
  });
  try {
    about = await told;
  } catch (error) {
    leave();
    return hasLeft || startLater(error);
  }
  try {
    ({VIEWS} = await views);
  } catch {
    showStatus("away"); // it went while they came: a page cannot load a module again that it could not load
    leave();
    setTimeout(() => location.reload(), 2000);
    return;
  }
  if (hasLeft) return;
  isIn = true;
  show();
}

function startLater(error) {
  showStatus(error instanceof Refusal ? error.message : "away");
  setTimeout(start, 2000);
}

/** A message of the stream. The whole state again: perhaps it is another server, with other views. */
async function takeIn(message) {
  state.apply(message);
  if (!message.state || !isIn) return;
  about = await ask("/api/v1/about").catch(() => about);
  if (isIn) showNavigation(whereTo()[0]);
}

state.onChange(changed => {
  if (!changed.notices) return;
  showNotices();
  showAge();
});
keepAges(document.getElementById("not-live"));
keepPlaces(main, () => {
  // The printed address, pasted where a page of ours is open already: it is taken as if it had been opened anew.
  if (givenToken() !== null) location.reload();
  else if (isIn) return show();
  return false;
});
start();
