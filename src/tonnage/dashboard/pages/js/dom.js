// Elements without markup: what comes from a cluster is only ever set as text or as an attribute, never as HTML.
//
//   el("li", {class: "node", "aria-label": node.name, onclick: () => open(node)}, el("b", {}, node.name), " ready")
//
// Attributes whose value is null, undefined or false are left out; `on…` are listeners; `style` is an object of CSS
// properties, set one by one (the Content-Security-Policy forbids style attributes).

const SVG = "http://www.w3.org/2000/svg";

/** Make an element. Children are elements, texts, numbers, or (nested) lists of them; null and false are left out. */
export function el(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** The same for SVG. */
export function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

function fill(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) set(element, key, value);
  append(element, children);
  return element;
}

/** Set one attribute, listener or style as `el` does. */
export function set(element, key, value) {
  if (key.startsWith("on")) {
    element.addEventListener(key.slice(2), value);
  } else if (key === "style") {
    for (const [property, worth] of Object.entries(value)) element.style.setProperty(property, worth);
  } else if (value === null || value === undefined || value === false) {
    element.removeAttribute(key);
  } else {
    element.setAttribute(key, value === true ? "" : String(value));
  }
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

/** Let an element say a text. A screen reader says it again only when it changed. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Put these children into an element, instead of what is in it. */
export function replace(element, ...children) {
  element.replaceChildren();
  append(element, children);
}

/**
 * Make a parent's children follow a list: one child an item, found again by its key, in the list's order. Elements that
 * stay are updated, not made anew, so that focus and scroll positions are kept.
 *
 *   keyed(list, pods, pod => pod.key, pod => el("li", {}, pod.key), (element, pod) => { … })
 */
export function keyed(parent, items, keyOf, make, update = () => {}) {
  const known = parent.keyedChildren ?? (parent.keyedChildren = new Map());
  const kept = new Set();
  let next = parent.firstChild;
  for (const item of items) {
    const key = keyOf(item);
    kept.add(key);
    let child = known.get(key);
    if (child === undefined) {
      child = make(item);
      known.set(key, child);
    }
    update(child, item);
    if (child === next) next = next.nextSibling;
    else parent.insertBefore(child, next);
  }
  for (const [key, child] of known) {
    if (kept.has(key)) continue;
    child.remove();
    known.delete(key);
  }
}
