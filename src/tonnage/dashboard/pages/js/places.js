// Going from view to view: a new one begins at its top, and back and forward lead to where one was.
//
// A place is how far the page is scrolled, and the list in it. Entries of the browser's history are numbered, so that the
// same view can be in it twice with a place each. Views fill themselves over some frames: a place is looked for until the
// page is long enough, or somebody scrolls.

const LOOK_MS = 2000;

const places = new Map();
let current = 0; // the entry of the history that is shown
let listOfMain = () => null;

/** Call `show` when the address is another, and keep the places of views that are shown in `main`. */
export function keepPlaces(main, show) {
  let stop = () => {};
  listOfMain = () => listOf(main);
  current = numbered();
  history.scrollRestoration = "manual";
  window.addEventListener("hashchange", () => {
    stop();
    keepPlace();
    const isBack = typeof history.state?.place === "number";
    current = numbered();
    const isSame = show();
    if (isSame && !isBack) return; // it is the view that is shown already: it knows where to scroll
    stop = lookFor(main, (isBack && places.get(current)) || {page: 0, list: 0});
  });
}

/** Let the address say what is shown: in a new entry of the history, or instead of the one that there is. */
export function writeAddress(fragment, {isNew}) {
  if (fragment === location.hash) return;
  if (isNew) {
    keepPlace();
    history.pushState(null, "", fragment);
    current = numbered();
  } else {
    history.replaceState(history.state, "", fragment);
  }
}

function keepPlace() {
  places.set(current, {page: scrollY, list: listOfMain()?.scrollTop ?? 0});
}

/** The number of the history's entry that is shown; a new entry gets one. */
function numbered() {
  if (typeof history.state?.place !== "number") history.replaceState({place: Date.now() + Math.random()}, "");
  return history.state.place;
}

function listOf(main) {
  return main.querySelector(".windowed");
}

function lookFor(main, {page, list}) {
  const until = performance.now() + LOOK_MS;
  const asks = new AbortController();
  for (const kind of ["wheel", "touchstart", "keydown", "pointerdown"]) addEventListener(kind, () => asks.abort(), {signal: asks.signal, passive: true});
  const look = () => {
    if (asks.signal.aborted) return;
    scrollTo(0, page);
    const inner = listOf(main);
    if (inner && list) inner.scrollTop = list;
    const isThere = Math.abs(scrollY - page) < 2 && (!list || Math.abs((inner?.scrollTop ?? 0) - list) < 2);
    if (isThere || performance.now() > until) asks.abort();
    else requestAnimationFrame(look);
  };
  look();
  return () => asks.abort();
}
