"""What is handed to the dashboard's questions: files to replay, templates to fit, nodes to drain.

None breaks it, each is answered with a sentence, and others are answered meanwhile.
"""

from __future__ import annotations

import asyncio
import io
import json
import zipfile
from collections.abc import AsyncIterator
from typing import Any

import pytest
from dashboard_door import BEARER, PAGE, Answer, Door, opened

from tonnage.testing.builders import node

STEPS = "apiVersion: tonnage.dev/v1alpha1\nkind: Replay\nsteps:\n"
POD = """apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: %s}}}]}
"""
CLAIM = """apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: c}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: %s}}}
"""
REPLICAS = """apiVersion: apps/v1
kind: StatefulSet
metadata: {name: s}
spec:
  replicas: 2147483647
  serviceName: s
  selector: {matchLabels: {a: b}}
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}
"""


def laughs(levels: int) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, levels)]
    return "\n".join(lines)


def zipped() -> str:
    kept = io.BytesIO()
    with zipfile.ZipFile(kept, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.yaml", "a" * 1_000_000)
    return kept.getvalue().decode("latin-1")


TEXTS = {
    "laughs": laughs(12),
    "merges": "a: &a {b: 1}\n" + "".join(f"c{n}: {{<<: *a, d: 1}}\n" for n in range(20_000)),
    "one long text": "a: &a " + "x" * 100_000 + "\nb: [" + "*a, " * 20_000 + "]",
    "a circle": "a: &a [*a]",
    "deep": "[" * 50_000,
    "deep and closed": "[" * 300 + "]" * 300,
    "deep in YAML": "".join("  " * n + "a:\n" for n in range(300)),
    "many values": "- 1\n" * 160_000,
    "many documents": "---\n" * 60_000,
    "tags": "!!python/object/apply:os.system ['true']",
    "a tag": "%TAG ! " + "x" * 100_000 + "\n---\n!a b",
    "a zip": zipped(),
    "NUL": "a: \x00",
    "controls": "a: \x1b[2J\u202e\u0085",
    "a half": "a: '\ud800'",
    "endless number": POD % "1e999",
    "long number": POD % ("9" * 1_000_000),
    "long fraction": POD % ("0." + "1" * 1_000_000),
    "no number": POD % ".nan",
    "endless": POD % ".inf",
    "huge quantity": CLAIM % "1E",
    "beyond": CLAIM % "9e9999999999",
    "small": CLAIM % "1e-999999999",
    "negative": CLAIM % "-1Gi",
    "digits": CLAIM % ('"' + "1" * 1_000_000 + 'Gi"'),
    "twice": "kind: Pod\nkind: Node\nmetadata: {name: a, name: b}\n",
    "not an object": "- 1",
    "nothing": "",
    "a name of markup": "apiVersion: v1\nkind: Pod\nmetadata: {name: '<img src=x onerror=alert(1)>'}\n",
    "many replicas": REPLICAS,
    "many steps": STEPS + "- {advance: 1s}\n" * 20_000,
    "far away": STEPS + "- {advance: 99999999999h}\n- {advance: 1e300}\n",
    "another file": STEPS + "- {apply: /etc/passwd}\n- {apply: ../../../etc/passwd}\n",
}  # fmt: skip


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    async with opened() as found:
        found.cluster.put(node("node-1"))
        yield found


async def asked(door: Door, path: str, body: Any) -> Answer:
    """The answer, while somebody else asks for what is small and gets it."""
    asking = asyncio.create_task(door.post(path, json.dumps(body), BEARER, PAGE))
    while not asking.done():
        assert (await door.ask("/api/v1/about", BEARER)).code == 200
        await asyncio.wait([asking], timeout=0.2)
    return asking.result()


def is_a_sentence(answer: Answer) -> bool:
    told = json.loads(answer.body)
    return answer.code == 200 or (0 < len(str(told)) < 20_000 and "Traceback" not in str(told))


@pytest.mark.parametrize("what", TEXTS)
async def test_a_hostile_file_is_answered_with_a_sentence(door: Door, what: str) -> None:
    replayed = await asked(door, "/api/v1/replay", {"files": [{"name": "a.yaml", "text": TEXTS[what]}]})
    fitted = await asked(door, "/api/v1/fit", {"template": TEXTS[what] or " ", "max": 5})
    for answer in (replayed, fitted):
        assert answer.code in (200, 400, 413, 422), (answer.code, answer.body[:300])
        assert is_a_sentence(answer), answer.body[:300]
        assert b"root:" not in answer.body


@pytest.mark.parametrize(
    "name",
    ["../../etc/passwd", "/etc/passwd", "a\x00b", "", "." * 5_000, "<script>alert(1)</script>", "a/\ud800", "con"],
)
async def test_the_name_of_a_file_is_a_name_and_leads_nowhere(door: Door, name: str) -> None:
    answer = await asked(door, "/api/v1/replay", {"files": [{"name": name, "text": STEPS}]})
    assert answer.code in (200, 400, 413, 422), answer.body[:300]
    assert (await asked(door, "/api/v1/replay", {"example": name})).code in (400, 404, 422)


@pytest.mark.parametrize(
    "body",
    [
        '{"nodes": ["' + "a" * 1_000_000 + '"]}',
        '{"nodes": ["node-1"], "nodes": 5}',
        '{"nodes": [' + '"node-1",' * 50_000 + '"node-1"]}',
        '{"nodes": [1e999]}',
        '{"nodes": NaN}',
        '{"nodes": ["\\ud800"]}',
        '{"nodes": ["\\u0000"]}',
        '{"max": ' + "9" * 5_000 + ', "template": "a"}',
        '{"max": 1e300, "template": "a"}',
        '{"__proto__": {"a": 1}}',
        "\ufeff{}",
        "[" * 100_000,
    ],
)
async def test_a_hostile_question_is_refused(door: Door, body: str) -> None:
    for path in ("/api/v1/drain-preview", "/api/v1/fit", "/api/v1/replay"):
        answer = await door.post(path, body, BEARER, PAGE)
        assert answer.code in (200, 400, 404, 413, 422), (path, answer.body[:300])
        assert is_a_sentence(answer)
