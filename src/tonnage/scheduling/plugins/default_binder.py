"""DefaultBinder: one POST to pods/binding."""

from __future__ import annotations

from tonnage.scheduling.framework import SUCCESS, Api, BindPlugin, Cycle, Status


class DefaultBinder(BindPlugin):
    name = "DefaultBinder"

    async def bind(self, cycle: Cycle, node_name: str, api: Api) -> Status:
        await api.bind(cycle.pod, node_name)
        return SUCCESS
