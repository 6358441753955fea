// One tooltip for the whole page: text beside what the pointer is over, or what has the focus. It repeats what a label or
// a panel says as well, so that nothing is told to the pointer alone.
//
//   showTooltip(element, ["kept back", "for shop/db-0"]);      // lines of text, each a paragraph
//   hideTooltip();

import {el, replace} from "./dom.js";

let tip = null;

/** Show these lines beside an element, or beside a point of it ({x, y} on the screen). */
export function showTooltip(beside, lines, point = null) {
  if (tip === null) {
    tip = el("div", {class: "tooltip", role: "tooltip", id: "tooltip", popover: "manual"});
    document.addEventListener("keydown", event => event.key === "Escape" && hideTooltip());
    document.addEventListener("scroll", hideTooltip, {capture: true, passive: true});
  }
  if (!tip.isConnected) document.body.append(tip);
  replace(tip, lines.filter(Boolean).map(line => el("p", {}, el("bdi", {}, line))));
  if (!tip.matches(":popover-open")) tip.showPopover();
  const box = beside.getBoundingClientRect();
  const [x, below, above] = point ? [point.x + 12, point.y + 16, point.y - 8] : [box.left, box.bottom + 6, box.top - 6];
  const {width, height} = tip.getBoundingClientRect();
  const left = Math.max(4, Math.min(x, innerWidth - width - 4));
  const top = below + height > innerHeight - 4 && above - height > 4 ? above - height : below;
  tip.style.setProperty("left", `${left}px`);
  tip.style.setProperty("top", `${top}px`);
}

/** Take it away again. */
export function hideTooltip() {
  if (tip?.isConnected && tip.matches(":popover-open")) tip.hidePopover();
}
