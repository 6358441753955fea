"""However binders race, lag and die, a volume belongs to one claim, and what can be bound is bound in the end.

Several binders work on one server at the same time. Each looks at its own, possibly old, view, decides by the real
rules, and makes its writes one by one; between any two of them another may come in, or it may be killed. The server is
a dictionary that refuses a patch for an old resourceVersion, which is all that the rules rely on.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from examples_tried import tries
from tonnage.behaviour.volumes import binding_plan as patches
from tonnage.behaviour.volumes.binding_plan import (
    Bind,
    ClaimInputs,
    MarkLost,
    SetPhase,
    StayPending,
    VolumeAction,
    claim_step,
    volume_step,
)
from tonnage.errors import Conflict, NotFound
from tonnage.objects.codec import convert, to_doc
from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim
from tonnage.testing.storage_builders import claim, volume

Doc = dict[str, Any]
Work = Iterator[None]


class Server:
    """Objects by name, each with the version of its last change."""

    def __init__(self) -> None:
        self.docs: dict[str, Doc] = {}
        self.version = 0

    def put(self, doc: Doc) -> None:
        self.version += 1
        doc["metadata"]["resourceVersion"] = str(self.version)
        self.docs[doc["metadata"]["name"]] = doc

    def patch(self, name: str, patch: Doc | None) -> None:
        if patch is None:
            return
        doc = self.docs.get(name)
        if doc is None:
            raise NotFound(name)
        if doc["metadata"]["resourceVersion"] != patch["metadata"]["resourceVersion"]:
            raise Conflict(name)
        self.put(_merged(doc, patch))

    def claims(self) -> dict[str, PersistentVolumeClaim]:
        found = {name: doc for name, doc in self.docs.items() if doc["kind"] == "PersistentVolumeClaim"}
        return {name: convert(PersistentVolumeClaim, doc) for name, doc in found.items()}

    def volumes(self) -> dict[str, PersistentVolume]:
        found = {name: doc for name, doc in self.docs.items() if doc["kind"] == "PersistentVolume"}
        return {name: convert(PersistentVolume, doc) for name, doc in found.items()}


class View:
    """What a binder knows: the server as it was when it last looked."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.look()

    def look(self) -> None:
        self.claims, self.volumes = self.server.claims(), self.server.volumes()

    def work_on_claim(self, name: str) -> Work:
        asked = self.claims.get(name)
        if asked is None:
            return
        step = claim_step(asked, ClaimInputs(self.volumes.get, self.volumes.values(), None, None, lambda: ()))
        match step:
            case Bind(found):
                self.server.patch(found.name, patches.volume_bound(found, asked))
                yield
                found = self._mine(found, asked)
                self.server.patch(found.name, patches.volume_phase(found, "Bound"))
                yield
                self.server.patch(name, patches.claim_bound(asked, found))
                yield
                current = self.server.claims().get(name)
                if current is not None and current.uid == asked.uid:
                    self.server.patch(name, patches.claim_status(current, "Bound", found))
            case StayPending():
                self.server.patch(name, patches.claim_status(asked, "Pending", None))
            case MarkLost():
                volume = self.server.volumes().get(asked.spec.volume_name)
                owner = volume.spec.claim_ref if volume is not None else None
                assert owner is None or owner.uid == asked.uid, f"{name} would be lost"

    def work_on_volume(self, name: str) -> Work:
        found = self.volumes.get(name)
        if found is None:
            return
        owner = found.spec.claim_ref
        there = self.server.claims().get(owner.name) if owner is not None else None
        if there is not None and owner is not None and there.uid != owner.uid:
            there = None
        match volume_step(found, there):
            case SetPhase(phase):
                self.server.patch(name, patches.volume_phase(found, phase))
            case VolumeAction.RELEASE:
                self.server.patch(name, patches.volume_phase(found, "Released"))
            case VolumeAction.UNBIND:
                self.server.patch(name, patches.volume_unbound(found))
        yield

    def _mine(self, found: PersistentVolume, asked: PersistentVolumeClaim) -> PersistentVolume:
        """The answer to the write just made; somebody may have written since, and then the next is a Conflict."""
        current = self.server.volumes()[found.name]
        assert current.spec.claim_ref is None or current.spec.claim_ref.uid == asked.uid
        return current


@settings(max_examples=tries(120), deadline=None)
@given(st.integers(0, 2**32))
def test_a_volume_is_never_given_to_two_claims(seed: int) -> None:
    rng = random.Random(seed)
    server = Server()
    views = [View(server) for _ in range(3)]
    under_way: list[Work] = []
    for number in range(60):
        match rng.randrange(8):
            case 0:
                # A name that was used before is another claim.
                name = f"c{rng.randrange(4)}"
                if name not in server.docs:
                    server.put(to_doc(claim(name, class_name="", metadata={"uid": f"uid-{number}"})))
            case 1:
                _make_volume(server, rng)
            case 2:
                server.docs.pop(f"c{rng.randrange(4)}", None)
            case 3:
                rng.choice(views).look()
            case 4:
                view = rng.choice(views)
                if view.claims:
                    under_way.append(view.work_on_claim(rng.choice(sorted(view.claims))))
            case 5:
                view = rng.choice(views)
                if view.volumes:
                    under_way.append(view.work_on_volume(rng.choice(sorted(view.volumes))))
            case 6:
                if under_way and rng.random() < 0.3:
                    under_way.remove(rng.choice(under_way))  # killed
            case _:
                pass
        if under_way:
            _advance(under_way, rng.choice(under_way))
        _nothing_is_given_twice(server)
    _settle(server)
    _nothing_is_given_twice(server)
    claims, volumes = server.claims(), server.volumes()
    bound = [each for each in claims.values() if each.status.phase == "Bound"]
    free = [each for each in volumes.values() if each.status.phase == "Available" and each.spec.claim_ref is None]
    # Every volume would do for every claim: none waits while one is free.
    assert len(bound) == len(claims) or not free
    owners = {each.uid for each in claims.values()}
    for each in volumes.values():
        if each.spec.claim_ref is not None and each.spec.claim_ref.uid:
            assert each.status.phase == ("Bound" if each.spec.claim_ref.uid in owners else "Released")
        else:
            assert each.status.phase == "Available"


def _make_volume(server: Server, rng: random.Random) -> None:
    name = f"v{rng.randrange(4)}"
    if name in server.docs:
        return
    doc = to_doc(volume(name, class_name="", phase="Available"))
    wisher = server.claims().get(f"c{rng.randrange(4)}")
    if wisher is not None and rng.random() < 0.3:  # made for a claim, or kept for it by a person
        uid = {"uid": wisher.uid} if rng.random() < 0.5 else {}
        doc["spec"]["claimRef"] = {"namespace": "default", "name": wisher.name, **uid}
    server.put(doc)


def _advance(under_way: list[Work], work: Work) -> None:
    try:
        next(work)
    except (StopIteration, Conflict, NotFound):
        under_way.remove(work)


def _settle(server: Server) -> None:
    """Binders that look before each work, until nothing changes any more."""
    before = -1
    while before != server.version:
        before = server.version
        for name in [*server.claims(), *server.volumes()]:
            view = View(server)
            works = (view.work_on_claim, view.work_on_volume)
            for _ in works[name in view.volumes](name):
                pass


def _nothing_is_given_twice(server: Server) -> None:
    volumes = server.volumes()
    for asked in server.claims().values():
        if asked.is_bound:
            owner = volumes[asked.spec.volume_name].spec.claim_ref
            assert owner is not None and owner.uid == asked.uid, f"{asked.name} and {owner} share a volume"


def _merged(doc: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(doc) if isinstance(doc, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(merged.get(key), value)
    return merged
