"""`--controllers`: which run."""

from __future__ import annotations

import pytest

from tonnage.controllers.program import CONTROLLERS, UnknownController, enabled_controllers

ALL = {each.name for each in CONTROLLERS}


def names(*wanted: str) -> set[str]:
    return {each.name for each in enabled_controllers(wanted)}


def test_a_star_is_all_of_them() -> None:
    assert names("*") == ALL


def test_a_minus_is_all_but_that_one() -> None:
    assert names("*", "-garbage-collector-controller") == ALL - {"garbage-collector-controller"}


def test_without_a_star_only_those_named_run() -> None:
    assert names("namespace-controller") == {"namespace-controller"}
    assert names("-namespace-controller") == set()


def test_old_names_are_understood_and_the_last_word_counts() -> None:
    assert names("nodelifecycle", "podgc", "-podgc") == {"node-lifecycle-controller"}


def test_every_name_means_one_controller() -> None:
    spoken = [name for each in CONTROLLERS for name in (each.name, *each.aliases)]
    assert len(spoken) == len(set(spoken))


def test_an_unknown_name_is_refused_with_what_may_have_been_meant() -> None:
    with pytest.raises(UnknownController) as caught:
        enabled_controllers(("*", "-node-lifecycle"))
    assert caught.value.message == '"node-lifecycle" is not in the list of known controllers'
    assert caught.value.hint == "did you mean nodelifecycle?"
