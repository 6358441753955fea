// Talking to the dashboard's server: login, JSON endpoints, and the stream of changes.

const TOKEN = "tonnage-token"; // kept for this tab, so that a server that was started again knows it

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
  const told = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refusal(answer.status, told);
  return told;
}

/** The token in the address's fragment; null when there is none. */
export function givenToken() {
  return new URLSearchParams(location.hash.slice(1)).get("token");
}

/** Log in with the token of the address's fragment, or the one of this tab; false when there is none that is right. */
export async function login() {
  const given = givenToken();
  if (given !== null) history.replaceState(history.state, "", location.pathname + location.search);
  for (const token of [given, sessionStorage.getItem(TOKEN)]) {
    if (!token) continue;
    if (await loginWith(token)) return true;
    if (token !== given) sessionStorage.removeItem(TOKEN);
  }
  return isKnown();
}

/** Log in with this token. */
export async function loginWith(token) {
  try {
    await ask("/login", {method: "POST", body: {token}});
  } catch (error) {
    if (error instanceof Refusal && error.status === 401) return false;
    throw error;
  }
  sessionStorage.setItem(TOKEN, token);
  return true;
}

async function isKnown() {
  try {
    await ask("/api/v1/about");
    return true;
  } catch (error) {
    if (error instanceof Refusal && error.status === 401) return false;
    throw error;
  }
}

/**
 * Follow the cluster's changes. `onMessage` is given each message, `onStatus` "live", "away" or "refused". A connection
 * that is lost is opened again, with pauses that grow to ten seconds; a server that was started again is logged in to.
 */
export function follow(onMessage, onStatus) {
  let source = null;
  let pause_s = 0.5;
  let isClosed = false;
  const open = () => {
    if (isClosed) return;
    source = new EventSource("/api/v1/changes");
    source.addEventListener("open", () => {
      pause_s = 0.5;
      onStatus("live");
    });
    source.addEventListener("change", event => onMessage(JSON.parse(event.data)));
    source.addEventListener("error", async () => {
      source.close();
      onStatus("away");
      const known = await login().catch(() => null);
      if (known === false) onStatus("refused");
      setTimeout(open, pause_s * 1000 * (0.75 + Math.random() / 2));
      pause_s = Math.min(pause_s * 2, 10);
    });
  };
  open();
  return () => {
    isClosed = true;
    source?.close();
  };
}
