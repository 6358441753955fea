// The views by the name that the address has for them, in the order of the navigation.

import * as explain from "./views/explain.js";
import * as faults from "./views/faults.js";
import * as flow from "./views/flow.js";
import * as map from "./views/map.js";
import * as now from "./views/now.js";
import * as pending from "./views/pending.js";
import * as pod from "./views/pod.js";
import * as replayView from "./views/replay.js";
import * as tables from "./views/tables.js";
import * as whatIf from "./views/what_if.js";

export const VIEWS = {
  now,
  map,
  pending,
  flow,
  explain,
  pod,
  tables,
  "what-if": whatIf,
  replay: replayView,
  faults,
};
