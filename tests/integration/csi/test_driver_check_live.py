"""driver-check on real sockets: our own driver keeps every contract, and each kind of broken one is found by name."""

from __future__ import annotations

import asyncio
import random
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest
from google.protobuf.wrappers_pb2 import Int64Value

from support.driver_builders import controller, create, driver_at
from tonnage.clock import SystemClock
from tonnage.csi import csi_pb2 as csi
from tonnage.csi import csi_pb2_grpc as rpc
from tonnage.csi.errors import Code, CsiError, StatusError
from tonnage.csi.server import served
from tonnage.driver.controller_service import ControllerService
from tonnage.driver.driver import Driver, RebuildHooks
from tonnage.driver.node_pools import POLICIES
from tonnage.driver.node_service import NodeService
from tonnage.driver.serving import CallInterceptor, IdentityService
from tonnage.driver_check.checks import examine
from tonnage.driver_check.results import CATALOGUE, CheckOutcome, Results
from tonnage.driver_check.settings import CheckSettings

GI = 1 << 30
MI = 1 << 20
MOVING = RebuildHooks(may_leave=lambda node: node == "node-1", is_gone=lambda node: False)


@pytest.fixture
def folder() -> Iterator[Path]:
    """Near the root: a socket's path has 107 bytes at most."""
    with tempfile.TemporaryDirectory(prefix="t") as name:
        yield Path(name)


def our_driver(folder: Path, **options: Any) -> Driver:
    usual: dict[str, Any] = {"nodes": ("node-1", "node-2"), "max_volumes": {"node-1": 2, "node-2": 2}, "rebuild": True}
    return driver_at(folder / "state", "64Mi,32Mi", hooks=MOVING, clock=SystemClock(), **(usual | options))


@asynccontextmanager
async def serving(
    driver: Driver,
    folder: Path,
    *,
    identity: type[IdentityService] = IdentityService,
    controls: type[ControllerService] = ControllerService,
    node: type[NodeService] = NodeService,
) -> AsyncIterator[list[str]]:
    """The sockets of a driver with services that may be broken: the controller's, then one for each node."""
    addresses = [f"unix://{folder}/csi.sock", *(f"unix://{folder}/{name}.sock" for name in driver.nodes)]
    whole = controls(driver, driver.nodes)
    services = [
        partial(rpc.add_IdentityServicer_to_server, identity(driver)),
        partial(rpc.add_ControllerServicer_to_server, whole),
    ]
    async with AsyncExitStack() as opened:
        interceptors = [CallInterceptor(driver, "")]
        await opened.enter_async_context(served(addresses[0], services, interceptors=interceptors))
        for name, address in zip(driver.nodes, addresses[1:], strict=True):
            of_node = [partial(rpc.add_NodeServicer_to_server, node(driver, name))]
            interceptors = [CallInterceptor(driver, name)]
            await opened.enter_async_context(served(address, of_node, interceptors=interceptors))
        yield addresses


async def checked(addresses: list[str], folder: Path, results: Results | None = None, **settings: Any) -> Results:
    results = results or Results()
    work = folder / "work"
    work.mkdir(exist_ok=True)
    wanted: dict[str, Any] = {"size_bytes": MI, "settle_s": 0.0, "cordoned_node": "node-1"} | settings
    await examine(
        addresses[0],
        addresses[1:],
        CheckSettings(prefix="driver-check-0123", work_dir=work, **wanted),
        results,
        clock=SystemClock(),
        rng=random.Random(1),
        timeout_s=60.0,
    )
    return results


def told(results: Results, outcome: CheckOutcome) -> set[str]:
    return {name for name, verdict in results.verdicts.items() if verdict.outcome is outcome}


# -- our own ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("with_attach", [True, False], ids=["attach", "no attach"])
async def test_our_own_driver_keeps_every_contract(folder: Path, policy: Any, with_attach: bool) -> None:
    driver = our_driver(folder, policy=policy)
    kept = await controller(driver).CreateVolume(create("mine", "8Mi", node="node-2"), None)
    async with serving(driver, folder) as addresses:
        results = await checked(addresses, folder, with_attach=with_attach, fills=True)
    assert {name: results.verdicts[name] for name in told(results, CheckOutcome.FAILED)} == {}
    assert told(results, CheckOutcome.PASSED) == set(CATALOGUE), "nothing is left out"
    # What others have is as it was, and nothing of ours is left.
    assert [each.volume_id for each in driver.allocations.volumes.values()] == [kept.volume.volume_id]
    assert results.left_behind == [] and list((folder / "work").rglob("target")) == []


async def test_a_driver_that_tells_no_pools_and_rebuilds_nothing_is_told_honestly(folder: Path) -> None:
    driver = our_driver(folder, report_pools=False, rebuild=False, max_volumes={})
    async with serving(driver, folder) as addresses:
        results = await checked(addresses, folder, cordoned_node="")
    assert told(results, CheckOutcome.FAILED) == set()
    assert {"capacity-pools", "capacity-sum", "limit-enforced", "rebuild-moves"} <= told(results, CheckOutcome.SKIPPED)
    assert {"capacity-after-create", "create-too-large", "publish-elsewhere"} <= told(results, CheckOutcome.PASSED)


async def test_one_socket_is_enough_for_all_but_rebuilding(folder: Path) -> None:
    driver = our_driver(folder, nodes=("node-1",), max_volumes={"node-1": 2})
    async with serving(driver, folder) as addresses:
        results = await checked(addresses, folder)
        assert told(results, CheckOutcome.FAILED) == set()
        alone = await checked(addresses[:1], folder)
    assert "limit-enforced" in told(results, CheckOutcome.PASSED)
    assert alone.verdicts["limit-sane"].message == "no Node service is known: give --node-address"


# -- broken ones ------------------------------------------------------------------------------------------------------


class Figures(ControllerService):
    """Answers GetCapacity with figures that `spoil` has changed."""

    async def GetCapacity(self, request: csi.GetCapacityRequest, context: object) -> csi.GetCapacityResponse:
        answer = await super().GetCapacity(request, context)
        self.spoil(answer)
        return answer

    def spoil(self, answer: csi.GetCapacityResponse) -> None:
        """Each driver below does it in its own way; one that forgets to would pass for a good one."""
        raise NotImplementedError


class NegativePool(Figures):
    def spoil(self, answer: csi.GetCapacityResponse) -> None:
        answer.available_capacities.append(-5)
        answer.available_capacity -= 5


class WrongSum(Figures):
    def spoil(self, answer: csi.GetCapacityResponse) -> None:
        answer.available_capacity += bool(answer.available_capacities)


class WrongMaximum(Figures):
    def spoil(self, answer: csi.GetCapacityResponse) -> None:
        answer.maximum_volume_size.value += 1


class AnyOrder(Figures):
    asked = 0

    def spoil(self, answer: csi.GetCapacityResponse) -> None:
        type(self).asked += 1
        pools = list(answer.available_capacities)
        if self.asked % 2:
            pools.reverse()
        answer.available_capacities[:] = pools


class Thin(ControllerService):
    """Figures that follow no volume."""

    async def GetCapacity(self, request: csi.GetCapacityRequest, context: object) -> csi.GetCapacityResponse:
        free = (
            [64 * MI, 32 * MI]
            if request.accessible_topology.segments.get("topology.tonnage.dev/node", "node")
            in (
                "node",
                *self._nodes,
            )
            else []
        )
        return csi.GetCapacityResponse(
            available_capacity=sum(free),
            maximum_volume_size=Int64Value(value=max(free, default=0)),
            available_capacities=free,
        )


class OfEverywhere(ControllerService):
    async def GetCapacity(self, request: csi.GetCapacityRequest, context: object) -> csi.GetCapacityResponse:
        if "driver-check" in str(request.accessible_topology):
            request.ClearField("accessible_topology")
        return await super().GetCapacity(request, context)


class Leaks(Figures):
    deleted = 0

    async def DeleteVolume(self, request: csi.DeleteVolumeRequest, context: object) -> None:
        type(self).deleted += request.volume_id in self._driver.allocations.volumes
        await super().DeleteVolume(request, context)

    def spoil(self, answer: csi.GetCapacityResponse) -> None:
        if answer.available_capacities:
            answer.available_capacities[0] -= self.deleted * 4096
            answer.available_capacity -= self.deleted * 4096
            answer.maximum_volume_size.value = max(answer.available_capacities)


class Boasts(Figures):
    def spoil(self, answer: csi.GetCapacityResponse) -> None:
        if answer.available_capacities:
            answer.available_capacities[0] += MI
            answer.available_capacity += MI
            answer.maximum_volume_size.value = max(answer.available_capacities)


class ForgetsNames(ControllerService):
    made = 0

    async def CreateVolume(self, request: csi.CreateVolumeRequest, context: object) -> csi.CreateVolumeResponse:
        type(self).made += 1
        request.name += f"-{self.made}"
        return await super().CreateVolume(request, context)


class TakesAnySize(ControllerService):
    async def CreateVolume(self, request: csi.CreateVolumeRequest, context: object) -> csi.CreateVolumeResponse:
        for known in self._driver.allocations.volumes.values():
            if known.name == request.name:
                request.capacity_range.required_bytes = known.capacity_bytes
        return await super().CreateVolume(request, context)


class TellsHalf(ControllerService):
    async def CreateVolume(self, request: csi.CreateVolumeRequest, context: object) -> csi.CreateVolumeResponse:
        answer = await super().CreateVolume(request, context)
        answer.volume.capacity_bytes //= 2
        return answer


class TellsNoPlace(ControllerService):
    async def CreateVolume(self, request: csi.CreateVolumeRequest, context: object) -> csi.CreateVolumeResponse:
        answer = await super().CreateVolume(request, context)
        answer.volume.ClearField("accessible_topology")
        return answer


def refusing(method: str, seen: Code, told: Code) -> type[ControllerService]:
    """A controller that answers with another code than it should."""

    async def call(self: Any, request: Any, context: object) -> Any:
        try:
            return await getattr(ControllerService, method)(self, request, context)
        except StatusError as exc:
            raise (StatusError(told, exc.message) if exc.code is seen else exc) from exc

    return type(f"Refusing{method}", (ControllerService,), {method: call})


class DeletesOnce(ControllerService):
    async def DeleteVolume(self, request: csi.DeleteVolumeRequest, context: object) -> None:
        if request.volume_id not in self._driver.allocations.volumes:
            raise StatusError(Code.NOT_FOUND, "there is no such volume")
        await super().DeleteVolume(request, context)


class NeverDeletes(ControllerService):
    async def DeleteVolume(self, request: csi.DeleteVolumeRequest, context: object) -> None:
        raise StatusError(Code.INTERNAL, "not today")


class NegativeLimit(NodeService):
    async def NodeGetInfo(self, request: csi.NodeGetInfoRequest, context: object) -> csi.NodeGetInfoResponse:
        answer = await super().NodeGetInfo(request, context)
        answer.max_volumes_per_node = -1
        return answer


class NoPlace(NodeService):
    async def NodeGetInfo(self, request: csi.NodeGetInfoRequest, context: object) -> csi.NodeGetInfoResponse:
        answer = await super().NodeGetInfo(request, context)
        answer.ClearField("accessible_topology")
        return answer


class Wavers(NodeService):
    asked = 0

    async def NodeGetInfo(self, request: csi.NodeGetInfoRequest, context: object) -> csi.NodeGetInfoResponse:
        type(self).asked += 1
        answer = await super().NodeGetInfo(request, context)
        answer.max_volumes_per_node = 1000 + self.asked
        return answer


class TellsWhatIsLeft(NodeService):
    async def NodeGetInfo(self, request: csi.NodeGetInfoRequest, context: object) -> csi.NodeGetInfoResponse:
        answer = await super().NodeGetInfo(request, context)
        answer.max_volumes_per_node -= sum(
            self._node in each.users for each in self._driver.allocations.volumes.values()
        )
        return answer


class TellsLess(NodeService):
    """A limit that the controller does not keep to."""

    async def NodeGetInfo(self, request: csi.NodeGetInfoRequest, context: object) -> csi.NodeGetInfoResponse:
        answer = await super().NodeGetInfo(request, context)
        answer.max_volumes_per_node = 1
        return answer


class PublishesOnce(ControllerService):
    async def ControllerPublishVolume(self, request: csi.ControllerPublishVolumeRequest, context: object) -> None:
        known = self._driver.allocations.volumes.get(request.volume_id)
        if known is not None and request.node_id in known.published:
            raise StatusError(Code.ALREADY_EXISTS, "it is published")
        await super().ControllerPublishVolume(request, context)


class TellsTheOldPlace(ControllerService):
    async def ControllerGetVolume(
        self, request: csi.ControllerGetVolumeRequest, context: object
    ) -> csi.ControllerGetVolumeResponse:
        answer = await super().ControllerGetVolume(request, context)
        for each in answer.volume.accessible_topology:
            each.segments["topology.tonnage.dev/node"] = "node-1"
        return answer


class LosesContents(ControllerService):
    async def ControllerPublishVolume(self, request: csi.ControllerPublishVolumeRequest, context: object) -> None:
        before = self._driver.node_of(request.volume_id)
        await super().ControllerPublishVolume(request, context)
        if before != request.node_id:
            at = self._driver.folder.contents_of(self._driver.volume(request.volume_id))
            for each in at.iterdir():
                each.unlink()


class CountsAtTheOldPlace(ControllerService):
    figures: ClassVar[dict[str, csi.GetCapacityResponse]] = {}

    async def ControllerPublishVolume(self, request: csi.ControllerPublishVolumeRequest, context: object) -> None:
        if self._driver.node_of(request.volume_id) not in (None, request.node_id):
            for node in self._nodes:
                asked = csi.GetCapacityRequest()
                asked.accessible_topology.segments["topology.tonnage.dev/node"] = node
                self.figures[node] = await super().GetCapacity(asked, context)
        await super().ControllerPublishVolume(request, context)

    async def GetCapacity(self, request: csi.GetCapacityRequest, context: object) -> csi.GetCapacityResponse:
        node = request.accessible_topology.segments.get("topology.tonnage.dev/node", "")
        return self.figures.get(node) or await super().GetCapacity(request, context)


class OddName(IdentityService):
    async def GetPluginInfo(self, request: csi.GetPluginInfoRequest, context: object) -> csi.GetPluginInfoResponse:
        return csi.GetPluginInfoResponse(name="my driver!", vendor_version="1")


PUBLISH = "ControllerPublishVolume"
BROKEN: list[Any] = [
    pytest.param({"identity": OddName}, {"identity"}, id="a name that is none"),
    pytest.param({"controls": NegativePool}, {"capacity-answers"}, id="a pool below 0"),
    pytest.param({"controls": WrongSum}, {"capacity-sum"}, id="another sum"),
    pytest.param({"controls": WrongMaximum}, {"capacity-maximum"}, id="a maximum above all pools"),
    pytest.param({"controls": AnyOrder}, {"capacity-order"}, id="pools in any order"),
    pytest.param({"controls": OfEverywhere}, {"capacity-segment"}, id="figures of everywhere"),
    pytest.param({"controls": Thin}, {"capacity-after-create", "rebuild-capacity"}, id="figures that do not follow"),
    pytest.param({"controls": Leaks}, {"capacity-after-delete"}, id="bytes that do not come back"),
    pytest.param({"controls": Boasts}, {"capacity-is-true"}, id="more than there is"),
    pytest.param(
        {"controls": ForgetsNames}, {"create-idempotent", "create-incompatible"}, id="another volume each time"
    ),
    pytest.param({"controls": TakesAnySize}, {"create-incompatible"}, id="any size for a name"),
    pytest.param({"controls": TellsHalf}, {"create-size"}, id="less than was required"),
    pytest.param({"controls": TellsNoPlace}, {"create-topology"}, id="no topology"),
    pytest.param(
        {"controls": refusing("CreateVolume", Code.RESOURCE_EXHAUSTED, Code.INTERNAL)},
        {"create-too-large"},
        id="Internal for want of room",
    ),
    pytest.param({"controls": DeletesOnce}, {"delete-idempotent"}, id="deleting twice"),
    pytest.param(
        {"controls": NeverDeletes},
        {"delete-idempotent", "capacity-after-delete", "cleaned-up"},
        id="nothing is deleted",
    ),
    pytest.param({"node": NegativeLimit}, {"limit-sane"}, id="a limit below 0"),
    pytest.param({"node": NoPlace}, {"limit-sane"}, id="a node without topology"),
    pytest.param({"node": Wavers}, {"limit-stable", "limit-is-a-total"}, id="a limit that wavers"),
    pytest.param({"node": TellsWhatIsLeft}, {"limit-is-a-total"}, id="what is left of a limit"),
    pytest.param({"node": TellsLess}, {"limit-enforced"}, id="a limit that nobody keeps to"),
    pytest.param(
        {"controls": refusing(PUBLISH, Code.RESOURCE_EXHAUSTED, Code.FAILED_PRECONDITION)},
        {"limit-enforced"},
        id="another code for slots",
    ),
    pytest.param({"controls": PublishesOnce}, {"publish-idempotent"}, id="publishing twice"),
    pytest.param(
        {"controls": refusing(PUBLISH, Code.NOT_FOUND, Code.RESOURCE_EXHAUSTED)},
        {"publish-unknown"},
        id="ResourceExhausted for what is not there",
    ),
    pytest.param(
        {"controls": refusing(PUBLISH, Code.FAILED_PRECONDITION, Code.RESOURCE_EXHAUSTED)},
        {"rebuild-without-room"},
        id="ResourceExhausted for a rebuild without room",
    ),
    pytest.param({"controls": TellsTheOldPlace}, {"rebuild-topology"}, id="the old place is told"),
    pytest.param({"controls": LosesContents}, {"rebuild-contents"}, id="contents are lost"),
    pytest.param({"controls": CountsAtTheOldPlace}, {"rebuild-capacity"}, id="bytes count at the old place"),
]


@pytest.mark.parametrize(("services", "broken"), BROKEN)
async def test_a_broken_driver_is_found_by_the_name_of_what_is_broken(
    folder: Path, services: dict[str, Any], broken: set[str]
) -> None:
    driver = our_driver(folder)
    async with serving(driver, folder, **services) as addresses:
        results = await checked(addresses, folder, fills=True)
    assert {name: results.verdicts[name].message for name in told(results, CheckOutcome.FAILED)}.keys() == broken
    is_kept = "cleaned-up" not in broken
    assert (not driver.allocations.volumes) == is_kept == (results.left_behind == [])


async def test_a_volume_that_stays_on_a_node_out_of_use_or_is_refused_with_the_code_for_slots(folder: Path) -> None:
    driver = our_driver(folder, rebuild=False)
    async with serving(driver, folder) as addresses:
        results = await checked(addresses, folder)
        assert told(results, CheckOutcome.FAILED) == {"rebuild-moves"}
    controls = refusing(PUBLISH, Code.FAILED_PRECONDITION, Code.RESOURCE_EXHAUSTED)
    async with serving(driver, folder, controls=controls) as addresses:
        results = await checked(addresses, folder, cordoned_node="")
    assert told(results, CheckOutcome.FAILED) == {"publish-elsewhere"}


def test_every_check_has_a_driver_that_breaks_it():
    found = {name for each in BROKEN for name in each.values[1]} | {"rebuild-moves", "publish-elsewhere"}
    assert set(CATALOGUE) - found == {"capacity-pools"}, "pools that are not told are skipped, not broken"


# -- cut off ----------------------------------------------------------------------------------------------------------


class Hangs(ControllerService):
    """Makes the second volume, and does not say so until it is asked again."""

    reached: asyncio.Event
    ended: asyncio.Event
    asked: list[str]

    async def CreateVolume(self, request: csi.CreateVolumeRequest, context: object) -> csi.CreateVolumeResponse:
        answer = await super().CreateVolume(request, context)
        self.asked.append(request.name)
        if request.name.endswith("-2") and self.asked.count(request.name) == 1:
            self.reached.set()
            await self.ended.wait()
        return answer


async def test_whoever_cuts_it_off_finds_nothing_left_not_even_what_was_under_way(folder: Path) -> None:
    driver = our_driver(folder)
    Hangs.reached, Hangs.ended, Hangs.asked = asyncio.Event(), asyncio.Event(), []
    results = Results()

    class Roomy(Hangs):
        """The volume that is too large is made as well: it is the second."""

        async def GetCapacity(self, request: csi.GetCapacityRequest, context: object) -> csi.GetCapacityResponse:
            return csi.GetCapacityResponse(available_capacity=MI)

    async with serving(driver, folder, controls=Roomy) as addresses:
        task = asyncio.create_task(checked(addresses, folder, results))
        await asyncio.wait_for(Hangs.reached.wait(), 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        Hangs.ended.set()
        assert not driver.allocations.volumes
    assert results.left_behind == []
    assert results.verdicts["cleaned-up"].outcome is CheckOutcome.PASSED


async def test_a_driver_that_is_not_there_is_an_error(folder: Path) -> None:
    with pytest.raises(CsiError) as refused:
        await examine(
            f"unix://{folder}/none.sock",
            (),
            CheckSettings(prefix="p", work_dir=folder),
            Results(),
            clock=SystemClock(),
            rng=random.Random(1),
            timeout_s=0.2,
        )
    assert refused.value.hint is not None
    shutil.rmtree(folder / "work", ignore_errors=True)
