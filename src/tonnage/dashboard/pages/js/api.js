// Talking to the dashboard's server: login, JSON endpoints, and the stream of changes.

const TOKEN = "tonnage-token"; // kept for this tab, so that a server that was started again knows it
const ANSWER_MS = 10000; // a request that was swallowed on its way is not waited for
let given = null; // the address's token, until somebody answered whether it is right

/** A request that was refused: what the server says, and its hint. */
export class Refusal extends Error {
  constructor(status, told) {
    super(told.error ?? `the server answered ${status}`);
    this.status = status;
    this.hint = told.hint ?? "";
  }
}

/** Ask for JSON. Raises Refusal, or TypeError when nobody answers. */
export async function ask(path, {method = "GET", body, signal} = {}) {
  const options = {method, signal, headers: {}, cache: "no-store"};
  if (method !== "GET") options.headers["X-Tonnage-Dashboard"] = "1";
  if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers["Content-Type"] = "application/json";
  }
  const answer = await fetch(path, options);
  const told = await answer.json().catch(error => {
    if (answer.ok) throw error; // it broke off
    return {};
  });
  if (!answer.ok) throw new Refusal(answer.status, told);
  return told;
}

/** The token in the address's fragment; null when there is none. */
export function givenToken() {
  return new URLSearchParams(location.hash.slice(1)).get("token");
}

/** Log in with the token of the address's fragment, or the one of this tab; false when there is none that is right. */
export async function login() {
  const shown = givenToken();
  if (shown !== null) {
    history.replaceState(history.state, "", location.pathname + location.search);
    given = shown;
  }
  if (given) {
    if (await loginWith(given)) return true;
    given = null;
  }
  const kept = sessionStorage.getItem(TOKEN);
  if (kept) {
    if (await loginWith(kept)) return true;
    sessionStorage.removeItem(TOKEN);
  }
  return isKnown();
}

/** Log in with this token. */
export async function loginWith(token) {
  try {
    await ask("/login", {method: "POST", body: {token}, signal: AbortSignal.timeout(ANSWER_MS)});
  } catch (error) {
    if (error instanceof Refusal && error.status === 401) return false;
    throw error;
  }
  sessionStorage.setItem(TOKEN, token);
  return true;
}

async function isKnown() {
  try {
    await ask("/api/v1/about", {signal: AbortSignal.timeout(ANSWER_MS)});
    return true;
  } catch (error) {
    if (error instanceof Refusal && error.status === 401) return false;
    throw error;
  }
}

const SILENT_MS = 30000; // the server says something every five seconds
const STATE_MS = 120000; // a large state over a slow line

/**
 * Follow the cluster: its state, then its changes. `onMessage` is given each message, `onStatus` "live", "away",
 * "refused" or what the server says, and when the server was last heard of, in milliseconds; 0 for never. A connection that is lost, or silent for too long (the machine slept, a proxy lost
 * the other side), is opened again, with pauses that grow to ten seconds: where it broke off, or with the state anew. A
 * server that was started again is logged in to.
 */
export function follow(onMessage, onStatus) {
  let source = null;
  let at = null; // up to where all is known
  let pause_s = 0.5;
  let heardAt = 0; // or when a connection was begun: silence counts from there
  let trueAt = 0; // until when what is shown is known to be true
  let timer = 0;
  const controller = new AbortController();

  const take = message => {
    at = message.at;
    trueAt = Date.now();
    onMessage(message);
  };

  async function open() {
    try {
      if (at === null) {
        const signal = AbortSignal.any([controller.signal, AbortSignal.timeout(STATE_MS)]);
        take(await ask("/api/v1/state", {signal}));
      }
      if (!controller.signal.aborted) listen();
    } catch (error) {
      lose(error);
    }
  }

  function listen() {
    const opened = (source = new EventSource(`/api/v1/changes?since=${encodeURIComponent(at)}`));
    const on = (name, listener) =>
      opened.addEventListener(name, event => {
        if (opened !== source) return; // closed: what is still on its way is of no interest
        if (name !== "error") heardAt = trueAt = Date.now();
        listener(event);
      });
    heardAt = Date.now();
    on("open", () => {
      pause_s = 0.5;
      onStatus("live");
    });
    on("alive", () => {});
    on("change", event => take(JSON.parse(event.data)));
    on("anew", () => {
      at = null;
      drop();
      open();
    });
    on("error", lose);
  }

  function drop() {
    source?.close();
    source = null;
  }

  async function lose(error) {
    drop();
    if (controller.signal.aborted) return;
    onStatus(error instanceof Refusal && error.status !== 401 ? error.message : "away", trueAt);
    const known = await login().catch(() => null);
    if (controller.signal.aborted) return;
    if (known === false) return onStatus("refused");
    timer = setTimeout(open, pause_s * 1000 * (0.75 + Math.random() / 2));
    pause_s = Math.min(pause_s * 2, 10);
  }

  // A clock that goes on while the machine sleeps: what was silent then is noticed as soon as it wakes.
  const look = () => {
    if (source === null || Math.abs(Date.now() - heardAt) < SILENT_MS) return; // it may be set back, too
    at = null; // a message that takes so long comes whole, without a stream's limits
    lose();
  };
  const looking = setInterval(look, 5000);
  document.addEventListener("visibilitychange", look, {signal: controller.signal});
  window.addEventListener("online", look, {signal: controller.signal});
  open();
  return () => {
    controller.abort();
    clearInterval(looking);
    clearTimeout(timer);
    drop();
  };
}
