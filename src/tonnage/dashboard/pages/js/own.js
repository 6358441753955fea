// Looking a name up in an object that came as JSON, or in a table of words: a node may be called "constructor".

/** What an object itself has under a name; undefined for what every object inherits. */
export function own(object, name) {
  return Object.hasOwn(object, name) ? object[name] : undefined;
}
