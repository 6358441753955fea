// The scales of a map as rulers: each is as long as its bytes are on the map.

import {el, replace} from "../dom.js";
import {bytes} from "../format.js";
import {barWidth} from "./tile.js";
import {scaleName} from "./words.js";

const MOST = 6;

export class Rulers {
  constructor() {
    this.element = el("ul", {class: "legend scales", "aria-label": "Scale"});
  }

  /** Show these scales, for nodes that are so many pixels wide. */
  show(scales, columnWidth) {
    const all = [...scales].sort((a, b) => (scaleName(a) < scaleName(b) ? -1 : 1));
    const across = barWidth(columnWidth);
    const id = `${across} ${all.map(scale => [scaleName(scale), scale.full, scale.step]).join("\n")}`;
    if (id === this.shown) return;
    this.shown = id;
    this.element.hidden = !all.length;
    replace(
      this.element,
      el("li", {}, "Scale"),
      all.slice(0, MOST).map(scale => {
        const ruler = el("span", {class: "ruler", "aria-hidden": "true", style: {width: `${(across * scale.step) / scale.full}px`}});
        const of = all.length > 1 ? [el("span", {}, " of "), el("bdi", {}, scaleName(scale))] : null;
        return el("li", {}, ruler, el("span", {}, bytes(scale.step)), of, el("span", {class: "unseen"}, `; a full line is ${bytes(scale.full)}`));
      }),
      all.length > MOST && el("li", {}, `and ${all.length - MOST} more scales`),
    );
  }
}
