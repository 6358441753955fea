// Faults of an embedded cluster: what goes wrong now, and what can be made to. The one view that writes, and it asks first.

import {ask} from "../api.js";
import {confirmed} from "../dialog.js";
import {el, keyed, replace} from "../dom.js";
import {problem} from "../problem.js";
import {name, table} from "../table.js";
import {NodePicker} from "../what_if/node_picker.js";

export const title = "Faults";

/** Real clusters have none. */
export function isListed(about) {
  return Boolean(about.embedded);
}

/** Show what goes wrong in `main`; the function that is given back closes it. */
export function open(main, {state, about}) {
  main.append(el("div", {class: "view-head"}, el("h2", {}, "Faults")));
  if (!about.embedded) {
    main.append(el("p", {}, "Faults are for clusters of ", el("code", {}, "tonnage up"), " alone, and this dashboard shows another."));
    return () => {};
  }
  const view = new FaultsView(state, main);
  return state.onChange(changed => changed.faults && view.drawHeld());
}

class FaultsView {
  constructor(state, main) {
    this.state = state;
    this.kinds = {};
    this.picker = new NodePicker(state, [], () => this.drawForm());
    this.held = el("ul", {class: "held", "aria-label": "Faults that are set"});
    this.none = el("p", {class: "quiet"}, "No fault is set.");
    this.told = el("div", {});
    this.list = el("div", {class: "fault-kinds"});
    this.kind = el("select", {id: "fault-kind", onchange: () => this.drawForm()});
    this.meaning = el("p", {class: "meaning", id: "fault-meaning"});
    this.value = el("input", {id: "fault-value", type: "number", min: 0, step: "any"});
    this.valueLabel = el("label", {for: "fault-value"});
    this.where = el("p", {class: "quiet"});
    this.clearAll = el("button", {type: "button", onclick: () => this.clear()}, "End all of them");
    const form = el(
      "form",
      {
        class: "question",
        onsubmit: event => {
          event.preventDefault();
          this.set();
        },
      },
      el("h3", {}, "Make something go wrong"),
      el("label", {for: "fault-kind"}, "What"),
      this.kind,
      this.meaning,
      this.valueLabel,
      this.value,
      this.picker.element,
      this.where,
      el("p", {class: "actions"}, el("button", {type: "submit", class: "main"}, "Set the fault …")),
    );
    main.append(this.told, el("div", {class: "faults"}, el("section", {}, el("h3", {}, "Faults that are set"), this.none, this.held, this.clearAll, this.list), form));
    this.drawHeld();
    this.load();
  }

  async load() {
    try {
      this.kinds = (await ask("/api/v1/faults")).kinds;
    } catch (error) {
      replace(this.told, problem(error));
      return;
    }
    replace(this.kind, Object.keys(this.kinds).map(each => el("option", {value: each}, each)));
    const choose = each => el("button", {type: "button", class: "link", onclick: () => this.choose(each)}, each);
    replace(this.list, table("Faults that can be set", ["Kind", "What it does", "Asks for", "Played by"], Object.entries(this.kinds).map(([each, kind]) => [choose(each), kind.meaning, kind.value || "-", kind.playedBy])));
    this.drawForm();
    this.drawHeld();
  }

  choose(kind) {
    this.kind.value = kind;
    this.drawForm();
    (this.value.hidden ? this.picker.field : this.value).focus();
  }

  drawForm() {
    const kind = this.kinds[this.kind.value];
    if (kind === undefined) return;
    replace(this.meaning, `${kind.meaning} (played by the ${kind.playedBy})`);
    const takesValue = Boolean(kind.value);
    this.value.hidden = this.valueLabel.hidden = !takesValue;
    this.value.required = takesValue;
    replace(this.valueLabel, `How many ${kind.value}`);
    const chosen = [...this.picker.chosen];
    replace(this.where, chosen.length ? "It is for the chosen nodes." : "No node is chosen: it is for every node.");
  }

  drawHeld() {
    const rows = [...this.state.faults.entries()].map(([key, row]) => ({key, ...row}));
    this.none.hidden = rows.length > 0;
    this.clearAll.hidden = rows.length < 2;
    keyed(
      this.held,
      rows,
      row => row.key,
      row => el("li", {}, el("p", {}), el("button", {type: "button", onclick: () => this.clear(row)}, "End it")),
      (child, row) => {
        const kind = this.kinds[row.kind];
        const value = row.value ? ` ${row.value} ${kind?.value ?? ""}` : "";
        replace(child.firstChild, el("b", {}, row.kind, value), " on ", row.node ? name(row.node) : "every node", kind ? el("span", {class: "quiet"}, `: ${kind.meaning}`) : null);
        child.lastChild.setAttribute("aria-label", `End it: ${row.kind} on ${row.node || "every node"}`);
      },
    );
  }

  /** Say exactly what will happen, and do it when the answer is yes. */
  async set() {
    const kind = this.kinds[this.kind.value];
    const nodes = [...this.picker.chosen];
    const body = {kind: this.kind.value, nodes};
    if (kind.value) body.value = this.value.valueAsNumber;
    const where = nodes.length ? [nodes.length === 1 ? "the node " : "the nodes ", nodes.flatMap((each, index) => [index ? ", " : "", name(each)])] : [el("b", {}, "every node"), ` of this cluster (${this.state.nodes.size})`];
    const isYes = await confirmed({
      title: `Set the fault ${body.kind}?`,
      says: [
        el("p", {}, "From now on, on ", where, `: ${kind.meaning}`, kind.value ? ` (${body.value} ${kind.value})` : "", "."),
        el("p", {}, "Pods that run there are affected. It stays until it is cleared, also when the cluster is started again. The same on the command line: ", el("code", {}, command(body)), "."),
      ],
      action: "Set the fault",
    });
    if (isYes) await this.send("POST", "/api/v1/faults", body);
  }

  async clear(row) {
    const query = row ? `?kind=${encodeURIComponent(row.kind)}&node=${encodeURIComponent(row.node ?? "")}` : "";
    const what = row ? [el("b", {}, row.kind), " on ", row.node ? name(row.node) : "every node"] : `all ${this.state.faults.size} faults`;
    const isYes = await confirmed({title: row ? "End this fault?" : "End all faults?", says: [el("p", {}, "This ends ", what, ". What it has broken is repaired by the cluster itself, as far as it can.")], action: row ? "End it" : "End all of them"});
    if (isYes) await this.send("DELETE", `/api/v1/faults${query}`);
  }

  async send(method, path, body) {
    replace(this.told);
    try {
      await ask(path, {method, body});
    } catch (error) {
      replace(this.told, problem(error));
    }
  }
}

/** What one would type for it. */
function command({kind, nodes, value}) {
  return ["tonnage fault --data-dir DIR set", kind, ...nodes.map(each => `--node ${each}`), ...(value === undefined ? [] : [`--value ${value}`])].join(" ");
}
