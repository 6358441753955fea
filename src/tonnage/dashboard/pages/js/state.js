// The state of the cluster in the browser: collections of rows, kept up to date by messages (docs/reference/dashboard.md).
//
//   const state = new State();
//   state.apply({state: true, set: {nodes: {…}}, gone: {}});
//   state.onChange(changed => changed.nodes?.has("node-1"));      // sets of keys by collection
//
// `apply` gives back the message that undoes it: a replay goes backwards with that.

export const COLLECTIONS = ["nodes", "capacities", "volumes", "pods", "classes", "lanes", "faults", "notices"];

export class State {
  constructor() {
    this.revision = 0;
    for (const name of COLLECTIONS) this[name] = new Map();
    this.listeners = new Set();
  }

  /** Take a message in, tell who listens what changed, and give back the message that undoes it. */
  apply(message) {
    const undo = {revision: this.revision, set: {}, gone: {}};
    const changed = {};
    const note = (name, key) => {
      (changed[name] ??= new Set()).add(key);
      const before = this[name].get(key);
      if (before === undefined) (undo.gone[name] ??= []).push(key);
      else (undo.set[name] ??= Object.create(null))[key] = before;
    };
    if (message.state) {
      for (const name of COLLECTIONS) {
        const told = message.set[name] ?? {};
        for (const key of [...this[name].keys()]) {
          if (Object.hasOwn(told, key)) continue;
          note(name, key);
          this[name].delete(key);
        }
      }
    }
    for (const [name, rows] of Object.entries(message.set ?? {})) {
      if (!COLLECTIONS.includes(name)) continue; // of a later version
      for (const [key, row] of Object.entries(rows)) {
        note(name, key);
        this[name].set(key, row);
      }
    }
    for (const [name, keys] of Object.entries(message.gone ?? {})) {
      if (!COLLECTIONS.includes(name)) continue;
      for (const key of keys) {
        note(name, key);
        this[name].delete(key);
      }
    }
    this.revision = message.revision ?? this.revision;
    for (const listener of [...this.listeners]) listener(changed);
    return undo;
  }

  /** Call this on every change; the function that is given back ends it. */
  onChange(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
}
