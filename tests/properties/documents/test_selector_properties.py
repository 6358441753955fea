"""Selectors against a naive judge, which knows only what the documentation says of each operator."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from examples_tried import tries
from tonnage.objects.codec import convert, to_doc
from tonnage.objects.requirements import LabelMatcher, NodeSelector, NodeSelectorTerm, PackedTexts
from tonnage.objects.selectors import FieldSelector, InvalidSelector, LabelSelector, Requirement

MODEST = settings(max_examples=tries(150), deadline=None)

# Few keys and values, so that they meet; `in` and `notin` are legal names, and the integers cross zero in length.
KEYS = st.sampled_from(["a", "b", "x/a", "in", "notin"])
VALUES = st.sampled_from(["", "1", "2", "10", "007", "v", "in"])
INTEGERS = st.sampled_from(["0", "1", "5", "10", "99"])
LABELS = st.dictionaries(KEYS, VALUES, max_size=4)

REQUIREMENTS = st.one_of(
    st.builds(
        lambda key, operator, values: Requirement(key=key, operator=operator, values=tuple(sorted(values))),
        KEYS,
        st.sampled_from(["In", "NotIn"]),
        st.sets(VALUES, min_size=1, max_size=3),
    ),
    st.builds(
        lambda key, operator: Requirement(key=key, operator=operator),
        KEYS,
        st.sampled_from(["Exists", "DoesNotExist"]),
    ),
    st.builds(
        lambda key, operator, bound: Requirement(key=key, operator=operator, values=(bound,)),
        KEYS,
        st.sampled_from(["Gt", "Lt"]),
        INTEGERS,
    ),
)


def naive(requirement: Requirement, labels: dict[str, str]) -> bool:
    if requirement.operator == "Exists":
        return requirement.key in labels
    if requirement.operator == "DoesNotExist":
        return requirement.key not in labels
    if requirement.operator == "NotIn":
        return requirement.key not in labels or labels[requirement.key] not in list(requirement.values)
    if requirement.key not in labels:
        return False
    value = labels[requirement.key]
    if requirement.operator == "In":
        return value in list(requirement.values)
    bound = int(requirement.values[0])
    return value.isdigit() and (int(value) > bound if requirement.operator == "Gt" else int(value) < bound)


def naive_all(requirements: list[Requirement], labels: dict[str, str]) -> bool:
    return all(naive(requirement, labels) for requirement in requirements)


@given(st.lists(REQUIREMENTS, max_size=4), LABELS)
@MODEST
def test_expressions_match_as_the_naive_judge_says(requirements: list[Requirement], labels: dict[str, str]) -> None:
    assert LabelSelector(match_expressions=tuple(requirements)).matches(labels) == naive_all(requirements, labels)


@given(st.lists(REQUIREMENTS, max_size=24), LABELS)
@MODEST
def test_requirements_put_together_say_what_they_say_one_by_one(
    requirements: list[Requirement], labels: dict[str, str]
) -> None:
    assert LabelMatcher(requirements).matches(labels) == naive_all(requirements, labels)
    beside = {**labels, **{f"other-{i}": "v" for i in range(8)}}  # more labels than keys that are asked about
    assert LabelMatcher(requirements).matches(beside) == naive_all(requirements, labels)


@given(st.sets(st.text(max_size=3), max_size=200), st.text(max_size=3))
@MODEST
def test_packed_texts_are_a_set(texts: set[str], other: str) -> None:
    packed = PackedTexts(texts)
    assert len(packed) == len(texts) and set(packed) == texts
    assert all(text in packed for text in texts) and (other in packed) is (other in texts)


@given(st.dictionaries(KEYS, VALUES, max_size=3), st.lists(REQUIREMENTS, max_size=3), LABELS)
@MODEST
def test_match_labels_are_equalities(wanted: dict[str, str], more: list[Requirement], labels: dict[str, str]) -> None:
    equalities = [Requirement(key=key, operator="In", values=(value,)) for key, value in wanted.items()]
    selector = LabelSelector(match_labels=wanted, match_expressions=tuple(more))
    assert selector.matches(labels) == naive_all(equalities + more, labels)


@given(st.lists(REQUIREMENTS, max_size=4), LABELS)
@MODEST
def test_a_selector_means_the_same_after_being_written_as_text(
    requirements: list[Requirement], labels: dict[str, str]
) -> None:
    read = LabelSelector.parse(",".join(map(str, requirements)))
    assert read.matches(labels) == naive_all(requirements, labels)
    assert LabelSelector.parse(str(read)).requirements() == read.requirements()


@given(st.lists(REQUIREMENTS, max_size=4), LABELS)
@MODEST
def test_a_selector_means_the_same_after_the_wire(requirements: list[Requirement], labels: dict[str, str]) -> None:
    selector = LabelSelector(match_expressions=tuple(requirements))
    assert convert(LabelSelector, to_doc(selector)) == selector
    assert convert(LabelSelector, to_doc(selector)).matches(labels) == naive_all(requirements, labels)


@given(st.text(alphabet="ab1=!<>(), in", max_size=12))
@MODEST
def test_any_text_is_read_or_refused_in_words(text: str) -> None:
    try:
        selector = LabelSelector.parse(text)
    except InvalidSelector as refused:
        assert refused.message
    else:
        assert LabelSelector.parse(str(selector)).requirements() == selector.requirements()


@given(st.lists(st.lists(REQUIREMENTS, max_size=3), max_size=3), LABELS)
@MODEST
def test_node_selectors_are_any_of_their_terms(terms: list[list[Requirement]], labels: dict[str, str]) -> None:
    selector = NodeSelector(
        node_selector_terms=tuple(NodeSelectorTerm(match_expressions=tuple(requirements)) for requirements in terms)
    )
    expected = any(bool(requirements) and naive_all(requirements, labels) for requirements in terms)
    assert selector.matches("n1", labels) == expected


FIELDS = st.sampled_from(["metadata.name", "spec.nodeName"])
FIELD_VALUES = st.text(alphabet="ab,=\\! ", max_size=3)
FIELD_TERMS = st.builds(
    lambda field, sign, value: (field, sign, value), FIELDS, st.sampled_from(["=", "==", "!="]), FIELD_VALUES
)


@given(st.lists(FIELD_TERMS, max_size=4), st.dictionaries(FIELDS, FIELD_VALUES))
@MODEST
def test_field_selectors_mean_what_is_written(terms: list[tuple[str, str, str]], fields: dict[str, str]) -> None:
    texts = (field + sign + re.sub(r"[\\,=]", r"\\\g<0>", value) for field, sign, value in terms)
    read = FieldSelector.parse(",".join(texts))
    expected = all((fields.get(field, "") == value) is (sign != "!=") for field, sign, value in terms)
    assert read.matcher.matches({field: fields.get(field, "") for field in read.fields}) == expected
