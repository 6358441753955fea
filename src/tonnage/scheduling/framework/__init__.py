"""The contract between a decision and its plugins, on one page.

A plugin is a class with a name and some of the methods below; the profile decides which of them run, in which order and
with what weight. All of upstream's extension points are here, in its order:

    PreEnqueue  QueueSort │ PreFilter  Filter  PostFilter │ PreScore  Score │ Reserve  Permit
    PreBindPreFlight  PreBind  Bind  PostBind

Filter and Score judge *all nodes at once*: they get rows (a slice or an array of row numbers) and answer for exactly
these. `per_node.py` has the form that judges nodes one by one.

`row_local = True` promises that a row's answer depends only on that row's columns and `PodInfo.signature`: equal pods
share it, and only changed rows are asked again. A row-local plugin that reads more of the pod says so in PreFilter
(`Cycle.tell_apart`, `Cycle.is_unlike_others`). `node_only = True` promises more: only the node itself and
`PodInfo.node_constraints` matter. A SKIP from PreFilter or PreScore must depend on the same. A plugin that reads other
rows says False and runs every time.

Nothing here does I/O. PreBind and Bind get an `Api` from the program that runs the binding.
"""

from __future__ import annotations

from tonnage.scheduling.cluster.columns import Ints, Mask, Rows
from tonnage.scheduling.framework.extension_points import (
    Api,
    BindPlugin,
    FilterPlugin,
    PermitPlugin,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    QueueSortPlugin,
    ReservePlugin,
    ScorePlugin,
)
from tonnage.scheduling.framework.plugin import (
    MAX_SCORE,
    SKIP,
    SUCCESS,
    Bits,
    Code,
    Cycle,
    EventHint,
    EventToRecord,
    Handle,
    Judgement,
    Narrowing,
    Plugin,
    PluginCounter,
    PluginTimes,
    PostFilterResult,
    RowAccount,
    Status,
    refuse,
    scaled_to_max,
    unresolvable,
    unschedulable,
)

__all__ = [
    "MAX_SCORE",
    "SKIP",
    "SUCCESS",
    "Api",
    "BindPlugin",
    "Bits",
    "Code",
    "Cycle",
    "EventHint",
    "EventToRecord",
    "FilterPlugin",
    "Handle",
    "Ints",
    "Judgement",
    "Mask",
    "Narrowing",
    "PermitPlugin",
    "Plugin",
    "PluginCounter",
    "PluginTimes",
    "PostBindPlugin",
    "PostFilterPlugin",
    "PostFilterResult",
    "PreBindPlugin",
    "PreEnqueuePlugin",
    "PreFilterPlugin",
    "PreScorePlugin",
    "QueueSortPlugin",
    "ReservePlugin",
    "RowAccount",
    "Rows",
    "ScorePlugin",
    "Status",
    "refuse",
    "scaled_to_max",
    "unresolvable",
    "unschedulable",
]
