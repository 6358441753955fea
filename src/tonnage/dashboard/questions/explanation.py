"""Why a pod goes where it goes, or nowhere: what `tonnage explain --pod … -o json` answers, asked from the page.

{"revision": 812, "at": "…", "source": "https://…", "notes": ["…"], "weights": {"NodeResourcesFit": 1, …},
 "answer": {"pod": "shop/db-0", "schedulable": false, "node": null, "message": "…", "nodes": […], "volumes": {…}}}

`answer` is the command's document. `weights` are what the scores in it were multiplied by; `refused` are its refused
nodes by who refused them and why, each group with its nearest miss in the words of the command's table.
"""

from __future__ import annotations

from typing import Final

import msgspec

from tonnage.clock import rfc3339
from tonnage.dashboard.questions.asking import AskedCluster, Asking
from tonnage.objects.meta import Key
from tonnage.whatif.explain import decided_on, find_pod, score_weights
from tonnage.whatif.explain_report import nearest_miss, nearest_node, refused_together
from tonnage.whatif.sources import ClusterState

KEPT_S: Final = 2.0
"""No row shows all that decisions read (a taint, a label): what is asked later is worked out again."""


class Explanations:
    """Explains pods of one cluster; the last answer is kept for a moment, for two windows that ask the same."""

    def __init__(self, cluster: AskedCluster, asking: Asking) -> None:
        self._cluster, self._asking = cluster, asking
        self._known: tuple[Key, int, float, bytes] | None = None

    async def of(self, key: Key) -> bytes:
        """The answer about a pod. Raises TonnageError when there is no such pod."""
        revision, now = self._cluster.collections.revision, self._cluster.clock.monotonic()
        if self._known is not None and self._known[:2] == (key, revision) and now - self._known[2] < KEPT_S:
            return self._known[3]
        state = await self._cluster.state()
        found = await self._asking.answer(lambda limit: self._worked_out(key, state, revision))
        self._known = (key, revision, now, found)
        return found

    def _worked_out(self, key: Key, state: ClusterState, revision: int) -> bytes:
        configuration = self._asking.configuration
        notes = [*configuration.notes, *state.warnings, *state.notes]
        explanation, profile = decided_on(
            find_pod(state, key),
            state,
            configuration,
            is_default=self._asking.takes_any_pod,
            foreign=self._asking.foreign,
            note=notes.append,
        )
        return msgspec.json.encode(
            {
                "revision": revision,
                "at": rfc3339(state.clock.now()),
                "source": state.source,
                "notes": notes,
                "weights": score_weights(profile),
                "refused": [
                    {
                        "rejectedBy": plugin,
                        "reasons": reasons,
                        "nodes": len(nodes),
                        "nearestMiss": nearest_miss(nodes),
                        "nearestNode": nearest_node(nodes),
                    }
                    for (plugin, reasons), nodes in refused_together(
                        each for each in explanation.nodes if not each.feasible
                    )
                ],
                "answer": explanation.document(),
            }
        )
