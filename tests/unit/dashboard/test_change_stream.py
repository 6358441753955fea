"""The stream of changes over HTTP: the state first, or what changed since a message that was read before."""

from __future__ import annotations

import msgspec

from support.dashboard_requests import dashboard_of
from support.filled_cluster import FilledCluster
from tonnage.clock import SystemClock
from tonnage.testing.builders import node


async def first_events(dashboard, count, query="", **headers):
    """The first events of a stream, as (event, data)."""
    found: list[tuple[str, object]] = []
    async with dashboard.session.get(f"/api/v1/changes{query}", headers=headers) as answer:
        while len(found) < count:
            event = (await answer.content.readuntil(b"\n\n")).decode().splitlines()
            fields = dict(line.split(": ", 1) for line in event if line)
            found.append((fields["event"], msgspec.json.decode(fields["data"])))
    return found


async def test_the_state_is_read_once_and_then_what_changed_since():
    cluster = FilledCluster(clock=SystemClock())
    cluster.put(node("node-1"))
    async with dashboard_of(cluster) as dashboard:
        _, state = await dashboard.ask("GET", "/api/v1/state")
        cluster.put(node("node-2"))
        [(event, told)] = await first_events(dashboard, 1)
        assert event == "change" and told["state"] and set(told["set"]["nodes"]) == {"node-1", "node-2"}
        (alive, _), (event, told) = await first_events(dashboard, 2, f"?since={state['at']}")
        assert (alive, event) == ("alive", "change")
        assert "state" not in told and set(told["set"]["nodes"]) == {"node-2"}
        [(event, again)] = await first_events(dashboard, 1, **{"Last-Event-ID": state["at"]})
        assert (event, again) == ("change", told)


async def test_what_cannot_be_gone_on_from_is_read_anew():
    async with dashboard_of() as dashboard:
        for since in ("", "x", "00000000-0", "%00", "%F0%9F%98%80-1"):
            [(event, _)] = await first_events(dashboard, 1, f"?since={since}")
            assert event == "anew"
        [(event, told)] = await first_events(dashboard, 1, **{"Last-Event-ID": "00000000-3"})
        assert event == "change" and told["state"]
