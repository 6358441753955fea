// The address: a view, what it is about, and how it is shown. Whoever is sent it sees the same.
//
//   #/map/node/node-9?search=web&trouble=yes      →  {parts: ["map", "node", "node-9"], query: URLSearchParams}

/** The parts of a fragment. Raises URIError for one that breaks off within an escape. */
export function parsed(fragment) {
  const [path, query = ""] = cut(fragment.replace(/^#\/?/, ""), "?");
  return {parts: path.split("/").map(decodeURIComponent), query: new URLSearchParams(query)};
}

/** The fragment of a view, what it is about, and choices by name; those that are empty are left out. */
export function addressOf(view, rest = [], choices = {}) {
  const query = new URLSearchParams(Object.entries(choices).filter(([, value]) => value)).toString();
  return `#/${[view, ...rest].map(encodeURIComponent).join("/")}${query ? `?${query}` : ""}`;
}

function cut(text, sign) {
  const at = text.indexOf(sign);
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + 1)];
}
