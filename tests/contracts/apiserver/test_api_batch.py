"""Jobs, CronJobs and VolumeAttributesClasses are judged, filled in and warned about as by a real server.

The answers in batch_answers.json were read off kube-apiserver 1.36.4; where one is at hand it is asked again.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from batch_cases import BASES, CASES, Doc

from support.api_servers import ServerApi

ANSWERS_FILE = Path(__file__).with_name("batch_answers.json")
ANSWERS: Doc = json.loads(ANSWERS_FILE.read_text()) if ANSWERS_FILE.exists() else {}
UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
WHOLE_VALUES = re.compile(r"^(Invalid value: )[{\[].*(: (?:field is immutable|`selector` (?:does|not|will).*))$", re.S)
"""What may not change is shown by upstream as it lies in its memory, hundreds of fields; the sentence is compared."""


_SHORT = r"\1…\2"


def merged(base: Any, change: Any) -> Any:
    if not (isinstance(base, dict) and isinstance(change, dict)):
        return change
    result = dict(base)
    for key, value in change.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def told(body: Doc, name: str) -> Any:
    """What is said about a refusal, or kept of an object, without what differs from run to run."""
    if body.get("kind") == "Status":
        causes = body.get("details", {}).get("causes", [])
        said = sorted({f"{each.get('field')}: {WHOLE_VALUES.sub(_SHORT, each['message'])}" for each in causes})
        return clean({"code": body["code"], "causes": said}, name)
    meta = body["metadata"]
    kept = {key: meta[key] for key in ("labels", "annotations", "generation") if key in meta}
    return clean(
        {"metadata": kept, **{k: v for k, v in body.items() if k not in ("metadata", "kind", "apiVersion")}}, name
    )


def clean(value: Any, name: str) -> Any:
    text = UID.sub("UID", json.dumps(value)).replace('"lastProbeTime": null, ', "")  # ours writes no null
    return json.loads(text.replace(name, "NAME") if len(name) < 52 else text)


def answer(api: ServerApi, ns: str, case: tuple[Any, ...]) -> Doc:
    """Everything a server says about one case, step by step."""
    _, plural, change, patch, before, after = case
    root = "/apis/storage.k8s.io/v1" if plural == "volumeattributesclasses" else f"/apis/batch/v1/namespaces/{ns}"
    name = f"{ns}-c"
    doc = merged({"metadata": {"name": name}, **BASES[plural]}, change)
    name = doc["metadata"]["name"]
    made = api.post(f"{root}/{plural}", doc)
    said: Doc = {"created": told(made.body, name)}
    if made.warnings:
        said["warnings"] = clean(made.warnings, name)
    if made.code != 201:
        return said
    one = f"{root}/{plural}/{name}"
    if patch is not None:
        said["patched"] = told(api.patch(one, patch).body, name)
    if after is not None:
        if before:
            assert api.patch(f"{one}/status", {"status": before}).code == 200
        stored = api.get(one).body
        said["status"] = told(api.put(f"{one}/status", {**stored, "status": after}).body, name)
    api.delete(f"{one}?propagationPolicy=Background")
    return said


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_a_request_is_answered_as_the_real_server_answers_it(api: ServerApi, ns: str, case: tuple[Any, ...]) -> None:
    said = answer(api, ns, case)
    if os.environ.get("RECORD_ANSWERS") and not api.is_embedded:
        ANSWERS[case[0]] = said
        lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(each)}" for name, each in ANSWERS.items())
        ANSWERS_FILE.write_text(f"{{\n{lines}\n}}\n")
    assert said == ANSWERS[case[0]]
