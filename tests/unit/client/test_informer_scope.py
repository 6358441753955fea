"""A view reads as its informer does, and its handlers are called until it is closed."""

from __future__ import annotations

import random

from support.virtual_clock import VirtualClock
from tonnage.client.cache import Cache
from tonnage.client.http import Client
from tonnage.client.informers import Informers, InformerScope, InformerView
from tonnage.objects.core_v1 import ConfigMap, Pod
from tonnage.testing.builders import pod


def at(name: str, version: int) -> Pod:
    return pod(name, metadata={"resourceVersion": str(version)})


def test_a_view_reads_as_its_informer_does() -> None:
    informer: Cache[Pod] = Cache(Pod)
    informer.put(at("a", 1))
    view = InformerView(informer)
    informer.put(at("b", 2))
    assert [each.name for each in view] == ["a", "b"] and len(view) == 2
    assert "default/a" in view and view.get("default/b") is informer.get("default/b")


def test_its_handlers_are_called_until_it_is_closed_and_those_of_others_go_on() -> None:
    informer: Cache[Pod] = Cache(Pod)
    informer.put(at("a", 1))
    ours: list[str] = []
    theirs: list[str] = []
    view, other = InformerView(informer), InformerView(informer)
    view.add_handlers(
        on_add=lambda new: ours.append(f"+{new.name}"),
        on_update=lambda _, new: ours.append(f"={new.name}"),
        on_delete=lambda old: ours.append(f"-{old.name}"),
    )
    other.on_change(lambda each: theirs.append(each.name))
    informer.put(at("b", 2))
    informer.put(at("b", 3))
    informer.remove("default/a")
    assert ours == ["+a", "+b", "=b", "-a"]
    view.close()
    informer.put(at("c", 4))
    assert ours == ["+a", "+b", "=b", "-a"]
    assert theirs == ["a", "b", "b", "a", "c"]
    assert view.get("default/c") is not None


def test_a_scope_has_one_view_of_each_informer_and_closes_all_of_them() -> None:
    # No server is asked: the informers are filled by hand.
    client = Client(None, clock=VirtualClock(), rng=random.Random(1))  # type: ignore[arg-type]
    informers = Informers(client)
    scope, other = InformerScope(informers), InformerScope(informers)
    assert scope.of(Pod) is scope.of(Pod) and scope.of(Pod) is not other.of(Pod)
    assert scope.of(ConfigMap) is not scope.of(ConfigMap, namespace="default")
    seen: list[str] = []
    scope.of(Pod).on_change(lambda each: seen.append(f"scope {each.name}"))
    other.of(Pod).on_change(lambda each: seen.append(f"other {each.name}"))
    informers.of(Pod).put(at("a", 1))
    scope.close()
    informers.of(Pod).put(at("b", 2))
    assert seen == ["scope a", "other a", "other b"]
