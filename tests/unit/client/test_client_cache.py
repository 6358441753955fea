"""What handlers are told: each object added, updated, deleted, nothing twice, in order."""

from __future__ import annotations

from tonnage.client.cache import Cache
from tonnage.objects.core_v1 import ConfigMap, Node
from tonnage.objects.meta import ObjectMeta


def config_map(name: str, version: int, uid: str = "u") -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(namespace="ns", name=name, resource_version=str(version), uid=uid))


def told_by(cache: Cache[ConfigMap]) -> list[str]:
    """What a set of handlers hears, as words: `+a1`, `a1>a2`, `-a2`."""
    told: list[str] = []

    def word(found: ConfigMap) -> str:
        return f"{found.name}{found.metadata.resource_version}"

    cache.add_handlers(
        on_add=lambda new: told.append(f"+{word(new)}"),
        on_update=lambda old, new: told.append(f"{word(old)}>{word(new)}"),
        on_delete=lambda old: told.append(f"-{word(old)}"),
    )
    return told


def test_an_object_is_added_updated_and_deleted():
    cache = Cache(ConfigMap)
    told = told_by(cache)
    cache.put(config_map("a", 1))
    cache.put(config_map("a", 2))
    cache.remove("ns/a")
    assert told == ["+a1", "a1>a2", "-a2"]


def test_the_same_state_is_not_told_twice_and_what_is_unknown_cannot_go():
    cache = Cache(ConfigMap)
    told = told_by(cache)
    cache.put(config_map("a", 1))
    cache.put(config_map("a", 1))
    cache.remove("ns/b")
    assert told == ["+a1"]


def test_an_object_made_again_is_a_delete_and_an_add():
    cache = Cache(ConfigMap)
    told = told_by(cache)
    cache.put(config_map("a", 1, uid="first"))
    cache.put(config_map("a", 5, uid="second"))
    assert told == ["+a1", "-a1", "+a5"]


def test_a_new_state_is_told_as_its_difference_with_what_is_gone_first():
    cache = Cache(ConfigMap)
    for name in ("gone", "same", "changed"):
        cache.put(config_map(name, 1))
    told = told_by(cache)
    told.clear()
    cache.replace([config_map("new", 2), config_map("same", 1), config_map("changed", 3)])
    assert told == ["-gone1", "+new2", "changed1>changed3"]
    assert {found.key for found in cache} == {"ns/new", "ns/same", "ns/changed"}


def test_the_cache_shows_a_change_before_handlers_hear_of_it():
    cache = Cache(ConfigMap)
    seen: list[object] = []
    cache.add_handlers(
        on_add=lambda new: seen.append(cache.get("ns/a") is new),
        on_update=lambda old, new: seen.append(cache.get("ns/a") is new),
        on_delete=lambda old: seen.append(cache.get("ns/a")),
    )
    cache.put(config_map("a", 1))
    cache.put(config_map("a", 2))
    cache.remove("ns/a")
    assert seen == [True, True, None]


def test_late_handlers_first_hear_of_all_that_is_known():
    cache = Cache(ConfigMap)
    cache.put(config_map("a", 1))
    cache.put(config_map("b", 2))
    assert told_by(cache) == ["+a1", "+b2"]


def test_a_handler_added_by_a_handler_hears_of_the_present_change_once():
    cache = Cache(ConfigMap)
    late: list[list[str]] = []
    cache.add_handlers(on_add=lambda new: late.append(told_by(cache)) if not late else None)
    cache.put(config_map("a", 1))
    cache.put(config_map("b", 2))
    assert late == [["+a1", "+b2"]]


def test_a_handler_that_raises_is_logged_and_the_others_are_told(caplog):
    cache = Cache(ConfigMap)
    cache.add_handlers(on_add=lambda new: 1 / 0)  # type: ignore[arg-type]
    told = told_by(cache)
    cache.put(config_map("a", 1))
    assert told == ["+a1"]
    assert [record.message for record in caplog.records] == ["A handler failed"]


def test_on_change_hears_of_everything():
    cache = Cache(ConfigMap)
    keys: list[str] = []
    cache.on_change(lambda found: keys.append(f"{found.key}@{found.metadata.resource_version}"))
    cache.put(config_map("a", 1))
    cache.put(config_map("a", 2))
    cache.remove("ns/a")
    assert keys == ["ns/a@1", "ns/a@2", "ns/a@2"]


def test_objects_are_found_by_key():
    cache = Cache(Node)
    node = Node(metadata=ObjectMeta(name="n1", resource_version="1"))
    cache.put(node)
    assert cache.get("n1") is node and cache.get("n2") is None
    assert "n1" in cache and "n2" not in cache and len(cache) == 1 and list(cache) == [node]
    assert cache.name == "nodes"
