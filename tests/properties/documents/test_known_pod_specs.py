"""A spec that is known is judged as if it were new.

The specs are those whose answers were read off a real server, legal and illegal ones, merged two by two, with names of
claims, hostnames and names of pods drawn at random: few enough that the same text comes again and again. Each is asked
twice, so that what the first left behind is what the second gets.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from examples_tried import tries
from tonnage.documents.kinds.pods import pod_spec as pod_rules
from tonnage.documents.kinds.pods.pod_defaults import default_pod
from tonnage.objects.document import Doc, copy

_FILE = Path(__file__).parents[2] / "parity" / "pod_rules_1_36.yaml"
SPECS: list[Doc] = [case["spec"] for case in yaml.load(_FILE.read_text(), yaml.CSafeLoader)["create"]]

claim_names = st.sampled_from(["", "data-0", "data-1", "p-scratch", "Not A Name"])
hostnames = st.sampled_from([None, "", "db-0", "db-1", "Not A Label", "a.b", "x" * 64])


@st.composite
def pods(draw: st.DrawFn) -> Doc:
    spec: Doc = {"containers": [{"name": "c", "image": "x"}]}
    for part in draw(st.lists(st.sampled_from(SPECS), max_size=2)):
        spec |= copy(part)
    volumes = spec.setdefault("volumes", [])
    for name in draw(st.lists(claim_names, max_size=2)):
        source: Doc = {"claimName": name} if name else {}
        volumes.append({"name": f"v{len(volumes)}", "persistentVolumeClaim": source})
    if (hostname := draw(hostnames)) is not None:
        spec["hostname"] = hostname
    pod = {"metadata": {"name": draw(st.sampled_from(["p", "q", "p" * 250])), "labels": {"app": "x"}}, "spec": spec}
    if draw(st.booleans()):
        default_pod(pod)
    return pod


def told(errors: list[Any]) -> list[str]:
    return [str(error) for error in errors]


@settings(max_examples=tries(120), deadline=None)
@given(pods())
def test_a_known_spec_is_judged_as_a_new_one(pod: Doc) -> None:
    metadata, spec = pod["metadata"], pod["spec"]
    twin = pod_rules.validate_pod_annotations({}, spec, "metadata.annotations")
    twin += pod_rules._validate_spec_of_pod(spec, metadata)
    for _ in range(2):
        assert told(pod_rules.validate_pod(pod)) == told(twin)


def test_what_is_known_has_an_end() -> None:
    pod_rules._legal.clear()
    for number in range(pod_rules._KNOWN_MAX + 1):
        pod: Doc = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": f"c{number}", "image": "x"}]}}
        default_pod(pod)
        assert pod_rules.validate_pod(pod) == []
    assert len(pod_rules._legal) == 1


def test_long_specs_and_such_that_cannot_be_written_down_are_not_kept() -> None:
    long = {"containers": [{"name": "c", "image": "x" * pod_rules._KNOWN_BYTES_MAX}]}
    assert pod_rules._text_of(long) is None
    assert pod_rules._text_of({"nodeName": "\ud800"}) is None
