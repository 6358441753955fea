"""Which namespaces a selector chooses is kept, and is what all of them say now."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tonnage.objects.requirements import Requirement
from tonnage.scheduling.cluster import pod_matching as module
from tonnage.scheduling.cluster.pod_matching import Namespaces, PodMatcher, Requirements, hold

SELECTORS = (
    Requirements((Requirement(key="team", operator="In", values=("a",)),)),
    Requirements((Requirement(key="team", operator="NotIn", values=("a", "b")),)),
    Requirements((Requirement(key="team", operator="Exists"), Requirement(key="tier", operator="DoesNotExist"))),
)
labels = st.dictionaries(st.sampled_from(("team", "tier")), st.sampled_from("abc"), max_size=2)
put = st.tuples(st.sampled_from("xyz"), labels)


@settings(deadline=None)
@given(st.lists(st.one_of(put, st.tuples(st.sampled_from("xyz"), st.none()), st.integers(0, 2)), max_size=20))
def test_a_kept_answer_is_what_the_namespaces_say(steps):
    known = Namespaces()
    for step in (*steps, 0, 1, 2):
        if isinstance(step, int):
            expected = {name for name, has in known.items() if hold(SELECTORS[step], has)}
            assert known.chosen_by(SELECTORS[step]) == expected
        elif step[1] is None:
            known.pop(step[0], None)
        else:
            known[step[0]] = step[1]


def test_an_answer_stays_the_same_object_while_no_namespace_changes():
    known = Namespaces()
    known["x"] = {"team": "a"}
    known["y"] = {"team": "b"}
    before = known.chosen_by(SELECTORS[0])
    assert known.chosen_by(SELECTORS[0]) is before
    assert PodMatcher(frozenset(), Requirements(), SELECTORS[0]).settled(known).namespaces is before
    known["y"] = {"team": "a"}
    assert known.chosen_by(SELECTORS[0]) == {"x", "y"}


def test_answers_are_not_kept_without_end(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "MAX_ANSWERS", 2)
    known = Namespaces()
    for selector in SELECTORS:
        known.chosen_by(selector)
    known["x"] = {"team": "a"}
    assert known.chosen_by(SELECTORS[0]) == {"x"}
