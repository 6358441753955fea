"""The driver as a state machine: random calls, deaths between any two lines, and what must hold whatever happened.

A death is played by the interpreter's own tracing: before the k-th line that a call runs in the driver, or in the
library that copies and removes folders for it, everything stops. A new driver takes the folder up, and the caller asks
the same again, as callers do. The model knows only what was acknowledged. After every step, and after every death as
well, the folder itself is read, not the driver's memory:

- no pool holds more than it has, and no node more volumes than it takes;
- every record has its contents, in one pool of one node, and no contents are without a record or left for ever;
- every volume has the size and holds the data that the model says;
- what the driver remembers is what is on disk.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any, Self

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import tonnage.driver
from examples_tried import tries
from support.driver_builders import (
    controller,
    create,
    driver_at,
    expand,
    node_service,
    publish,
    rebuild,
    stage,
    unpublish,
)
from tonnage.csi import csi_pb2 as csi
from tonnage.csi.errors import Code, StatusError
from tonnage.driver.driver import Driver, RebuildHooks

GI = 1 << 30
POOLS = {"node-1": (4, 6), "node-2": (8,)}
"""In GiB, by node."""
MAX_VOLUMES = 2

names = st.sampled_from(["a", "b", "c", "d"])
snapshot_names = st.sampled_from(["s", "t"])
picks = st.integers(0, 3)
sizes = st.integers(1, 5)
nodes = st.sampled_from(sorted(POOLS))
deaths = st.one_of(st.none(), st.none(), st.integers(0, 120))
"""After how many lines the driver dies; None lets it live."""
_DRIVER = Path(tonnage.driver.__file__).parent
_MORTAL = frozenset(
    {
        shutil.__file__,
        *(str(_DRIVER / f"{name}.py") for name in ("driver", "controller_service", "node_service")),
        *(str(_DRIVER / "state" / f"{name}.py") for name in ("contents", "folder", "records")),
        *(str(_DRIVER / "volumes" / f"{name}.py") for name in ("links", "moving")),
    }
)
"""Where lines are counted: what lies between two steps on disk elsewhere makes no difference to the disk."""


# Who is dead closes no files.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


assert all(Path(path).exists() for path in _MORTAL)


class Killed(BaseException):
    """What a `kill -9` looks like from inside."""


class Inline(ThreadPoolExecutor):
    """Work meant for a thread, done at once: so that one trace sees every line, and every run repeats."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except BaseException as exc:
            done.set_exception(exc)
        return done


class Death:
    """Raises Killed before the line after so many, for as long as it is entered; `came` says whether it did."""

    def __init__(self, lines: int | None) -> None:
        self.came = False
        self._left = lines
        self._before = sys.gettrace()

    def __enter__(self) -> Self:
        if self._left is not None:
            sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def _trace(self, frame: FrameType, event: str, _arg: object) -> Any:
        if frame.f_code.co_filename not in _MORTAL or self._left is None:
            return None
        if event == "line":
            self._left -= 1
            if self._left < 0:
                self.came = True
                raise Killed
        return self._trace


class Volume(msgspec.Struct):
    """What was promised of a volume."""

    volume_id: str
    size: int
    text: str = ""
    users: set[str] = msgspec.field(default_factory=set)


has_volumes = precondition(lambda self: bool(self.volumes))


class Machine(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="t", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
        self.runner = asyncio.Runner()
        self.runner.get_loop().set_default_executor(Inline())
        self.deaths = 0
        self.start_dies_after: int | None = None
        self.cordoned: set[str] = set()
        self.volumes: dict[str, Volume] = {}
        self.snapshots: dict[str, tuple[str, int, str]] = {}
        self.driver = self._open()

    def teardown(self) -> None:
        if hasattr(self, "driver"):
            self.driver.close()
            self.runner.close()
            shutil.rmtree(self.folder)

    def _open(self) -> Driver:
        return driver_at(
            self.folder / "state",
            *(f"{node}={','.join(f'{size}Gi' for size in pools)}" for node, pools in POOLS.items()),
            nodes=tuple(POOLS),
            max_volumes=dict.fromkeys(POOLS, MAX_VOLUMES),
            rebuild=True,
            hooks=RebuildHooks(may_leave=lambda node: node in self.cordoned),
        )

    def _ask(self, call: Callable[[], Awaitable[Any]], dies_after: int | None) -> Any:
        """The answer, or the StatusError; asked again of a new driver when the first one died."""

        async def bounded() -> Any:
            return await call()

        death = Death(dies_after)
        answer: Any = None
        try:
            with death:
                answer = self.runner.run(bounded())
        except BaseException as exc:
            if isinstance(exc, StatusError):
                answer = exc
            elif not death.came:
                raise
        if not death.came:
            return answer
        # What the driver, or a library, makes of a death on its way out is no answer: nobody was left to give one.
        self.deaths += 1
        self._restart(self.start_dies_after)
        self._records()
        return self._ask(call, None)

    def _restart(self, dies_after: int | None = None) -> None:
        """Start again; a start may die as well, and then there is another."""
        self.driver.close()
        death = Death(dies_after)
        try:
            with death:
                self.driver = self._open()
        except BaseException:
            if not death.came:
                raise
        if death.came:
            self._let_go_of_the_lock()
            self.driver = self._open()

    def _let_go_of_the_lock(self) -> None:
        """What the kernel does for a process that died."""
        lock = (self.folder / "state" / ".lock").stat()
        for fd in range(3, 256):
            with suppress(OSError):
                if os.path.samestat(os.fstat(fd), lock):
                    os.close(fd)

    # -- what callers do ----------------------------------------------------------------------------------------------

    @rule(name=names, size=sizes, node=st.one_of(st.just(""), nodes), dies_after=deaths)
    def create(self, name: str, size: int, node: str, dies_after: int | None) -> None:
        room = max(self._free(node or None))
        asked = create(name, f"{size}Gi", limit=f"{size}Gi", node=node)
        self._made(name, size, room, self._ask(lambda: controller(self.driver).CreateVolume(asked, None), dies_after))

    @rule(name=names, snapshot=snapshot_names, dies_after=deaths)
    def create_from_snapshot(self, name: str, snapshot: str, dies_after: int | None) -> None:
        if snapshot in self.snapshots and name not in self.volumes:
            snapshot_id, size, text = self.snapshots[snapshot]
            room = max(self._free())
            asked = create(name, f"{size}Gi", limit=f"{size}Gi", snapshot=snapshot_id)
            answer = self._ask(lambda: controller(self.driver).CreateVolume(asked, None), dies_after)
            self._made(name, size, room, answer, text)

    def _made(self, name: str, size: int, room: int, answer: Any, text: str = "") -> None:
        known = self.volumes.get(name)
        if isinstance(answer, StatusError):
            if known is None or answer.code is not Code.ALREADY_EXISTS:  # a known one may have to move there
                assert answer.code is Code.RESOURCE_EXHAUSTED
                assert room < size, f"{size}Gi were refused, and a pool had {room}Gi"
        else:
            assert answer.volume.capacity_bytes == size * GI
            assert known is None or (known.size, known.volume_id) == (size, answer.volume.volume_id)
            self.volumes.setdefault(name, Volume(answer.volume.volume_id, size, text))

    @rule(size=sizes, node=nodes)
    def create_many_at_once(self, size: int, node: str) -> None:
        async def all_at_once() -> list[Any]:
            calls = (
                controller(self.driver).CreateVolume(create(name, f"{size}Gi", limit=f"{size}Gi", node=node), None)
                for name in "aabbccdd"
            )
            return await asyncio.gather(*calls, return_exceptions=True)

        for name, answer in zip("aabbccdd", self.runner.run(all_at_once()), strict=True):
            if not isinstance(answer, BaseException):
                self._made(name, size, 0, answer)

    @has_volumes
    @rule(pick=picks, text=st.sampled_from(["one", "two"]))
    def write(self, pick: int, text: str) -> None:
        volume = self._pick(pick)
        (self._contents(volume.volume_id) / "text").write_text(text)
        volume.text = text

    @has_volumes
    @rule(pick=picks, dies_after=deaths)
    def delete(self, pick: int, dies_after: int | None) -> None:
        volume = self._pick(pick)
        asked = csi.DeleteVolumeRequest(volume_id=volume.volume_id)
        answer = self._ask(lambda: controller(self.driver).DeleteVolume(asked, None), dies_after)
        if volume.users:
            assert answer.code is Code.FAILED_PRECONDITION
        else:
            assert not isinstance(answer, StatusError)
            self.volumes = {name: known for name, known in self.volumes.items() if known is not volume}

    @has_volumes
    @rule(pick=picks, size=sizes, dies_after=deaths)
    def expand(self, pick: int, size: int, dies_after: int | None) -> None:
        volume = self._pick(pick)
        asked = expand(volume.volume_id, size * GI)
        answer = self._ask(lambda: controller(self.driver).ControllerExpandVolume(asked, None), dies_after)
        if isinstance(answer, StatusError):
            assert answer.code in (Code.RESOURCE_EXHAUSTED, Code.OUT_OF_RANGE)
        else:
            volume.size = max(volume.size, size)
            assert answer.capacity_bytes == volume.size * GI

    @has_volumes
    @rule(pick=picks, snapshot=snapshot_names, dies_after=deaths)
    def snapshot(self, pick: int, snapshot: str, dies_after: int | None) -> None:
        volume = self._pick(pick)
        if snapshot not in self.snapshots:
            asked = csi.CreateSnapshotRequest(name=snapshot, source_volume_id=volume.volume_id)
            answer = self._ask(lambda: controller(self.driver).CreateSnapshot(asked, None), dies_after)
            if isinstance(answer, StatusError):
                assert answer.code is Code.RESOURCE_EXHAUSTED
            else:
                self.snapshots[snapshot] = (answer.snapshot.snapshot_id, volume.size, volume.text)

    @rule(snapshot=snapshot_names, dies_after=deaths)
    def delete_snapshot(self, snapshot: str, dies_after: int | None) -> None:
        if snapshot in self.snapshots:
            snapshot_id = self.snapshots.pop(snapshot)[0]
            asked = csi.DeleteSnapshotRequest(snapshot_id=snapshot_id)
            self._ask(lambda: controller(self.driver).DeleteSnapshot(asked, None), dies_after)

    def _use(self, volume: Volume, node: str, attach: bool) -> Awaitable[Any]:
        if attach:
            return controller(self.driver).ControllerPublishVolume(publish(volume.volume_id, node), None)
        path = self.folder / node / volume.volume_id
        return node_service(self.driver, node).NodeStageVolume(stage(volume.volume_id, path), None)

    @has_volumes
    @rule(pick=picks, node=nodes, attach=st.booleans(), dies_after=deaths)
    def use(self, pick: int, node: str, attach: bool, dies_after: int | None) -> None:
        volume = self._pick(pick)
        home, room = self.driver.node_of(volume.volume_id) or "", max(self._free(node))
        answer = self._ask(lambda: self._use(volume, node, attach), dies_after)
        if not isinstance(answer, StatusError):
            assert volume.users <= {node}
            assert node == home or home in self.cordoned, "a volume left a node that nobody had cordoned"
            volume.users.add(node)
            assert self.driver.node_of(volume.volume_id) == node
        elif answer.code is Code.FAILED_PRECONDITION:
            assert volume.users - {node} or (node != home and (home not in self.cordoned or room < volume.size))
        else:
            assert answer.code is Code.RESOURCE_EXHAUSTED

    @has_volumes
    @rule(node=nodes, attach=st.booleans())
    def use_all_at_once(self, node: str, attach: bool) -> None:
        async def all_at_once() -> list[Any]:
            calls = (self._use(volume, node, attach) for volume in self.volumes.values())
            return await asyncio.gather(*calls, return_exceptions=True)

        for volume, answer in zip(self.volumes.values(), self.runner.run(all_at_once()), strict=True):
            if not isinstance(answer, BaseException):
                volume.users.add(node)

    @has_volumes
    @rule(pick=picks, dies_after=deaths)
    def let_go(self, pick: int, dies_after: int | None) -> None:
        volume = self._pick(pick)
        asked = unpublish(volume.volume_id)
        self._ask(lambda: controller(self.driver).ControllerUnpublishVolume(asked, None), dies_after)
        volume.users.clear()

    @has_volumes
    @rule(pick=picks, node=nodes, dies_after=deaths)
    def rebuild(self, pick: int, node: str, dies_after: int | None) -> None:
        volume = self._pick(pick)
        if not volume.users:
            answer = self._ask(lambda: rebuild(self.driver, volume.volume_id, node), dies_after)
            if isinstance(answer, StatusError):
                assert answer.code is Code.FAILED_PRECONDITION  # the other code would mean attach slots
            else:
                assert self.driver.node_of(volume.volume_id) == node

    @rule(node=nodes)
    def cordon_or_uncordon(self, node: str) -> None:
        self.cordoned ^= {node}

    @rule()
    def restart(self) -> None:
        self._restart()

    # -- what must hold -----------------------------------------------------------------------------------------------

    @invariant()
    def everything_is_as_promised(self) -> None:
        if not hasattr(self, "driver"):
            return
        records, used = self._records()
        by_id = {record["volume_id"]: record for record in records if "volume_id" in record}
        assert set(by_id) == {volume.volume_id for volume in self.volumes.values()}
        assert len(records) == len(self.volumes) + len(self.snapshots)
        for volume in self.volumes.values():
            assert by_id[volume.volume_id]["capacity_bytes"] == volume.size * GI
            assert self._text(self._contents(volume.volume_id)) == volume.text
        allocations = self.driver.allocations
        remembered = [*allocations.volumes.values(), *allocations.snapshots.values()]
        on_disk = [path.read_bytes() for path in (self.folder / "state").glob(".[vs]*/*")]
        assert sorted(map(msgspec.json.encode, remembered)) == sorted(on_disk)
        for node, pools in POOLS.items():
            free_bytes = tuple(size * GI - used[node, number] for number, size in enumerate(pools))
            assert allocations.free_bytes(node) == free_bytes
            assert allocations.slots_in_use(node) == {v.volume_id for v in self.volumes.values() if node in v.users}

    def _records(self) -> tuple[list[dict[str, Any]], Counter[tuple[str, int]]]:
        """The records on disk and what each pool holds; nothing is overdrawn, torn or left behind."""
        state = self.folder / "state"
        records = [json.loads(path.read_text()) for path in sorted(state.glob(".[vs]*/*"))]
        used: Counter[tuple[str, int]] = Counter()
        slots: Counter[str] = Counter()
        places = set()
        for record in records:
            id = record.get("volume_id") or record["snapshot_id"]
            used[record["node"], record["pool"]] += record.get("capacity_bytes") or record["size_bytes"]
            slots.update({*record.get("published", {}), *record.get("staged", {})})
            places.add(state / record["node"] / f"pool-{record['pool']}" / id)
        for (node, pool), used_bytes in used.items():
            assert used_bytes <= POOLS[node][pool] * GI, f"pool {pool} of {node} holds {used_bytes / GI}Gi"
        assert all(count <= MAX_VOLUMES for count in slots.values()), slots
        assert set(state.glob("node-*/pool-*/*")) == places
        assert list(state.glob(".intents/*")) == []
        return records, used

    def _free(self, node: str | None = None) -> list[int]:
        """GiB free in each pool, read off the folder."""
        used = self._records()[1]
        return [
            size - used[name, number] // GI
            for name, pools in POOLS.items()
            for number, size in enumerate(pools)
            if node in (None, name)
        ]

    def _pick(self, pick: int) -> Volume:
        return list(self.volumes.values())[pick % len(self.volumes)]

    def _contents(self, volume_id: str) -> Path:
        (found,) = (self.folder / "state").glob(f"node-*/pool-*/{volume_id}")
        return found

    @staticmethod
    def _text(path: Path) -> str:
        return (path / "text").read_text() if (path / "text").exists() else ""


def _scene(machine: Machine) -> None:
    """Two volumes with data, one of them in use, and a snapshot."""
    machine.begin()
    machine.create("a", 3, "node-1", None)
    machine.create("b", 2, "node-1", None)
    machine.write(0, "one")
    machine.use(1, "node-1", True, None)
    machine.snapshot(1, "s", None)
    machine.cordon_or_uncordon("node-1")


CALLS: dict[str, Callable[[Machine, int], None]] = {
    "create": lambda machine, k: machine.create("c", 1, "", k),
    "create from snapshot": lambda machine, k: machine.create_from_snapshot("c", "s", k),
    "delete": lambda machine, k: machine.delete(0, k),
    "expand": lambda machine, k: machine.expand(0, 4, k),
    "snapshot": lambda machine, k: machine.snapshot(1, "t", k),
    "delete snapshot": lambda machine, k: machine.delete_snapshot("s", k),
    "publish elsewhere": lambda machine, k: machine.use(0, "node-2", True, k),
    "stage": lambda machine, k: machine.use(1, "node-1", False, k),
    "unpublish": lambda machine, k: machine.let_go(1, k),
}


@pytest.mark.slow
@pytest.mark.parametrize("call", ["create", "create from snapshot", "delete", "publish elsewhere"])
def test_a_death_of_the_start_that_puts_right_what_a_death_left_loses_nothing(call: str) -> None:
    for lines in count(step=9):  # every ninth line of the call, and around each every seventh of the start after it
        for start_lines in range(0, 90, 7):
            machine = Machine()
            _scene(machine)
            machine.start_dies_after = start_lines
            CALLS[call](machine, lines)
            machine.everything_is_as_promised()
            died = machine.deaths
            machine.teardown()
            if not died:
                return


@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS)
def test_a_death_before_any_line_of_a_call_loses_and_leaves_nothing(call: str) -> None:
    for lines in count():
        machine = Machine()
        _scene(machine)
        CALLS[call](machine, lines)
        machine.everything_is_as_promised()
        died = machine.deaths
        machine.teardown()
        if not died:  # it came to its end within so many lines
            assert lines > 5
            break


TestDriverSurvives = Machine.TestCase
TestDriverSurvives.settings = settings(max_examples=tries(30), stateful_step_count=30, deadline=None)
