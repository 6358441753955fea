// An order that does not change under somebody's hands: while the pointer or the focus is in a list, its items stay where
// they are, new ones come at the end, and those that are gone stay until it is left, marked as gone.
//
//   const calm = calmOrder(list, draw);               // draw() is called when the list is left, to sort it
//   for (const {key, item, isGone} of calm.order(items, item => item.key)) …

/** Watch an element; `onLeave` is called when neither pointer nor focus is in it any more. */
export function calmOrder(element, onLeave) {
  let isPointed = false;
  let known = []; // [key, item] as they were last ordered
  const isHeld = () => isPointed || (element.contains(document.activeElement) && document.activeElement !== element);
  const leave = () => !isHeld() && onLeave();
  element.addEventListener("pointerenter", () => (isPointed = true));
  element.addEventListener("pointerleave", () => {
    isPointed = false;
    leave();
  });
  element.addEventListener("focusout", () => setTimeout(leave));

  return {
    /** The items in an order that may be shown now. */
    order(items, keyOf) {
      const next = new Map(items.map(item => [keyOf(item), item]));
      if (!isHeld()) {
        known = [...next];
        return known.map(([key, item]) => ({key, item, isGone: false}));
      }
      const seen = new Set(known.map(([key]) => key));
      known = [
        ...known.map(([key, item]) => [key, next.get(key) ?? item]),
        ...[...next].filter(([key]) => !seen.has(key)),
      ];
      return known.map(([key, item]) => ({key, item, isGone: !next.has(key)}));
    },
  };
}
