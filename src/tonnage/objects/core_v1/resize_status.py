"""How far the expansion of a claim's volume is: the words of `status.allocatedResourceStatuses` and of its conditions.

The controller side (external-resizer's work) and the node both write them, each its own part.
"""

from __future__ import annotations

from typing import Final

CONTROLLER_IN_PROGRESS: Final = "ControllerResizeInProgress"
CONTROLLER_INFEASIBLE: Final = "ControllerResizeInfeasible"
NODE_PENDING: Final = "NodeResizePending"
NODE_IN_PROGRESS: Final = "NodeResizeInProgress"
NODE_INFEASIBLE: Final = "NodeResizeInfeasible"
RESIZE_STATUSES: Final = (
    CONTROLLER_IN_PROGRESS,
    CONTROLLER_INFEASIBLE,
    NODE_PENDING,
    NODE_IN_PROGRESS,
    NODE_INFEASIBLE,
)

FS_PENDING: Final = "FileSystemResizePending"
RESIZING: Final = "Resizing"
CONTROLLER_ERROR: Final = "ControllerResizeError"
NODE_ERROR: Final = "NodeResizeError"
RESIZE_CONDITIONS: Final = (FS_PENDING, RESIZING, CONTROLLER_ERROR, NODE_ERROR)
