"""LimitRanges: their defaults, what containers get from them, and what they refuse."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.clock import SystemClock
from tonnage.documents.creation import strategies
from tonnage.documents.kinds.limit_range import broken_limits, give_defaults
from tonnage.gates import Gates
from tonnage.objects.document import Doc

RULES = strategies(Gates(), SystemClock())
default_limit_range = RULES["", "limitranges"].default
validate_limit_range = RULES["", "limitranges"].validate


def limit_range(*items: Doc) -> Doc:
    return {"metadata": {"name": "limits"}, "spec": {"limits": list(items)}}


def container(name: str = "c", **resources: dict[str, str]) -> Doc:
    return {"name": name, "resources": resources} if resources else {"name": name}


def pod(*containers: Doc, **spec: Any) -> Doc:
    return {"metadata": {"name": "p"}, "spec": {"containers": list(containers), **spec}}


def claim(size: str) -> Doc:
    return {"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": size}}}}


def test_a_containers_limit_defaults_to_the_maximum_and_its_request_to_the_limit_else_the_minimum() -> None:
    doc = limit_range(
        {"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "64Mi"}, "default": {"memory": "0.1"}},
        {"type": "Pod", "max": {"cpu": "4"}},
    )
    default_limit_range(doc)
    assert doc["spec"]["limits"] == [
        {
            "type": "Container",
            "max": {"cpu": "2"},
            "min": {"memory": "64Mi"},
            "default": {"cpu": "2", "memory": "100m"},
            "defaultRequest": {"cpu": "2", "memory": "100m"},
        },
        {"type": "Pod", "max": {"cpu": "4"}},
    ]


def test_containers_get_what_they_do_not_state_and_the_pod_says_which() -> None:
    limits = limit_range(
        {"type": "Container", "default": {"cpu": "1", "memory": "1Gi"}, "defaultRequest": {"cpu": "500m"}}
    )
    asked = pod(
        container("bare"),
        container("own", requests={"cpu": "2"}, limits={"cpu": "3", "memory": "2Gi"}),
        initContainers=[container("first")],
    )
    give_defaults(asked, limits)
    defaults = {"requests": {"cpu": "500m"}, "limits": {"cpu": "1", "memory": "1Gi"}}
    assert [each["resources"] for each in asked["spec"]["containers"]] == [
        defaults,
        {"requests": {"cpu": "2"}, "limits": {"cpu": "3", "memory": "2Gi"}},
    ]
    assert asked["spec"]["initContainers"][0]["resources"] == defaults
    assert asked["metadata"]["annotations"] == {
        "kubernetes.io/limit-ranger": "LimitRanger plugin set: cpu request for container bare; "
        "cpu, memory limit for container bare; cpu request for init container first; "
        "cpu, memory limit for init container first"
    }


def test_a_pod_that_states_everything_is_left_as_it_is() -> None:
    asked = pod(container(limits={"cpu": "1"}))
    give_defaults(asked, limit_range({"type": "Container", "default": {"cpu": "2"}}))
    assert asked == pod(container(limits={"cpu": "1"}))


@pytest.mark.parametrize(
    ("item", "asked", "told"),
    [
        ({"min": {"cpu": "1"}}, {"requests": {"cpu": "500m"}}, "minimum cpu usage per {} is 1, but request is 500m"),
        ({"min": {"cpu": "1"}}, {}, "minimum cpu usage per {} is 1.  No request is specified"),
        ({"min": {"cpu": "1"}}, {"requests": {"cpu": "1"}}, ""),
        (
            {"min": {"cpu": "1"}},
            {"requests": {"cpu": "1"}, "limits": {"cpu": "0.5"}},
            "minimum cpu usage per {} is 1, but limit is 500m",
        ),
        ({"max": {"cpu": "1"}}, {"requests": {"cpu": "1"}}, "maximum cpu usage per {} is 1.  No limit is specified"),
        ({"max": {"cpu": "1"}}, {"limits": {"cpu": "1500m"}}, "maximum cpu usage per {} is 1, but limit is 1500m"),
        (
            {"max": {"cpu": "1"}},
            {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}},
            "maximum cpu usage per {} is 1, but request is 2",
        ),
        ({"max": {"cpu": "1"}}, {"limits": {"cpu": "1"}}, ""),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            {"requests": {"cpu": "1"}, "limits": {"cpu": "3"}},
            "cpu max limit to request ratio per {} is 2, but provided ratio is 3.000000",
        ),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            {"limits": {"cpu": "3"}},
            "cpu max limit to request ratio per {} is 2, but no request is specified or request is 0",
        ),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            {"requests": {"cpu": "3"}},
            "cpu max limit to request ratio per {} is 2, but no limit is specified or limit is 0",
        ),
    ],
)
@pytest.mark.parametrize("kind", ["Container", "Pod"])
def test_limits_of_containers_and_of_the_whole_pod(kind: str, item: Doc, asked: Doc, told: str) -> None:
    assert broken_limits("Pod", pod(container(**asked)), limit_range({"type": kind, **item})) == told.format(kind)


def test_the_containers_of_a_pod_count_together() -> None:
    # 600m + 600m = 1200m > 1
    asked = pod(*(container(name, limits={"cpu": "600m"}) for name in ("a", "b")))
    limits = limit_range({"type": "Pod", "max": {"cpu": "1"}})
    assert broken_limits("Pod", asked, limits) == "maximum cpu usage per Pod is 1, but limit is 1200m"


def test_several_limits_are_told_as_a_list() -> None:
    limits = limit_range({"type": "Container", "max": {"cpu": "1", "memory": "1Gi"}})
    assert broken_limits("Pod", pod(container(limits={"cpu": "2", "memory": "2Gi"})), limits) == (
        "[maximum cpu usage per Container is 1, but limit is 2, "
        "maximum memory usage per Container is 1Gi, but limit is 2Gi]"
    )


@pytest.mark.parametrize(
    ("size", "told"),
    [
        ("10Gi", "maximum storage usage per PersistentVolumeClaim is 5Gi, but request is 10Gi"),
        ("512Mi", "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 512Mi"),
        ("5Gi", ""),
    ],
)
def test_claims_are_held_to_what_they_request(size: str, told: str) -> None:
    limits = limit_range({"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "5Gi"}})
    assert broken_limits("PersistentVolumeClaim", claim(size), limits) == told
    assert broken_limits("Pod", pod(container()), limits) == ""


@pytest.mark.parametrize(
    ("items", "told"),
    [
        ([{"type": "Node"}], [("spec.limits[0].type", "must be a standard limit type or fully qualified")]),
        ([{"type": "Pod", "max": {"cpu": "1"}}] * 2, [("spec.limits[1].type", "")]),
        (
            [{"type": "Pod", "default": {"cpu": "1"}}],
            [("spec.limits[0].default", "may not be specified when `type` is 'Pod'")],
        ),
        (
            [{"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}}],
            [("spec.limits[0].min[cpu]", "min value 2 is greater than max value 1")],
        ),
        (
            [{"type": "Container", "max": {"cpu": "1"}, "default": {"cpu": "2"}}],
            [("spec.limits[0].default[cpu]", "default value 2 is greater than max value 1")],
        ),
        (
            [{"type": "Container", "defaultRequest": {"cpu": "2"}, "default": {"cpu": "1"}}],
            [
                (
                    "spec.limits[0].defaultRequest[cpu]",
                    "default request value 2 is greater than default limit value 1",
                )
            ],
        ),
        (
            [{"type": "PersistentVolumeClaim", "max": {"cpu": "1"}}],
            [
                (
                    "spec.limits[0].limits",
                    "either minimum or maximum storage value is required, but neither was provided",
                )
            ],
        ),
        (
            [{"type": "Container", "maxLimitRequestRatio": {"cpu": "500m"}}],
            [("spec.limits[0].maxLimitRequestRatio[cpu]", "ratio 500m is less than 1")],
        ),
        (
            [{"type": "Pod", "min": {"cpu": "1"}, "max": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "3"}}],
            [("spec.limits[0].maxLimitRequestRatio[cpu]", "ratio 3 is greater than max/min = 2.000000")],
        ),
        (
            [{"type": "Container", "default": {"e.com/x": "2"}, "defaultRequest": {"e.com/x": "1"}}],
            [
                (
                    "spec.limits[0].defaultRequest[e.com/x]",
                    "default value 2 must equal to defaultRequest value 1 in e.com/x",
                )
            ],
        ),
        ([{"type": "Container", "max": {"storage": "1Gi"}}], [("spec.limits[0].max[storage]", "")]),
    ],
)
def test_a_limit_range_that_contradicts_itself(items: list[Doc], told: list[tuple[str, str]]) -> None:
    errors = validate_limit_range(limit_range(*items))
    assert [error.field for error in errors] == [field for field, _ in told]
    assert all(sentence in str(error) for error, (_, sentence) in zip(errors, told, strict=True))
