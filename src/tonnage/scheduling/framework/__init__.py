"""The contract between a decision and its plugins, on one page.

A plugin is a class with a name and some of the methods below; which of them run, in which order and with what weight is
the profile's affair. Upstream's extension points are all here, in its order:

    PreEnqueue  QueueSort │ PreFilter  Filter  PostFilter │ PreScore  Score │ Reserve  Permit
    PreBindPreFlight  PreBind  Bind  PostBind

Filter and Score judge *all nodes at once*: they get rows (a slice or an array of row numbers) and answer over exactly
those. The form that judges one node after another is in `per_node.py`.

`row_local = True` promises that the answer for a row depends on nothing but that row's columns and what
`PodInfo.signature` covers: equal pods share it, and only rows that changed are asked again. A row-local plugin that
reads more of the pod says so in PreFilter (`Cycle.tell_apart`, `Cycle.is_unlike_others`). `node_only = True` promises
more: nothing but what the row's node says of itself, and `PodInfo.node_constraints`. Whether PreFilter or PreScore of
such a plugin says SKIP is to depend on the same. A plugin that looks across rows says False and is asked every time.

Nothing here does I/O. What must (PreBind, Bind) is handed an `Api` by the program that runs the binding.
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
