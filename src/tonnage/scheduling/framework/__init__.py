"""The contract between a decision and its plugins, on one page.

A plugin is a class with a name and some of the methods below; which of them run, in which order and with what weight is
the profile's affair. Upstream's extension points are all here, in its order:

    PreEnqueue  QueueSort │ PreFilter  Filter  PostFilter │ PreScore  Score │ Reserve  Permit
    PreBindPreFlight  PreBind  Bind  PostBind

The difference is that Filter and Score judge *all nodes at once*. A filter gets rows (a slice or an array of row
numbers) and answers with a `Judgement` over exactly those rows; a score answers with integers over exactly those rows.
Who finds that too much writes the per-node form instead (`per_node.py`), and is asked about one node after another.

`row_local = True` promises that the answer for a row depends on nothing but that row's columns and what
`PodInfo.signature` covers. Then equal pods share it, and only rows that changed are asked again. A row-local plugin
that reads more than the pod (its claims, say) tells in PreFilter what else makes pods equal (`Cycle.tell_apart`), or
that this pod is like no other (`Cycle.is_unlike_others`): then it is asked every time, for this pod. `node_only = True`
promises more: nothing but what the row's node says of itself, and `PodInfo.node_constraints`; then the pods of a row
may come and go without it being asked again. Whether PreFilter or PreScore of such a plugin says SKIP is to depend on
the same. A plugin that looks across rows (spreading, pod affinity) says False and is asked every time; it should answer
None fast when it has nothing to say about a pod.

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
