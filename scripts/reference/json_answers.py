"""The page about JSON answers: which schema is whose."""

from __future__ import annotations

from pathlib import Path

from reference import code, table
from reference.schemas import SCHEMAS

HEAD = """\
# JSON answers

`-o json` writes one document to stdout. These are contracts: fields may be added, and those that a schema requires stay. Each
is JSON Schema 2020-12, made from classes; a test holds real answers of every command against them.

"""

TAIL = """

The scheduler's debug pages are JSON too: [endpoints](endpoints.md). `DIR/endpoints.json` of a `tonnage up` is
`{PROGRAM: {url, certificateAuthority}}`.

"""
FIELDS = Path(__file__).with_name("answer_fields.md").read_text("utf-8")
"""What fields mean that a schema's line does not say."""


def page() -> str:
    rows: list[tuple[object, ...]] = [
        (f"[{name}.json](schemas/{name}.json)", code(entry.command), entry.about) for name, entry in SCHEMAS.items()
    ]
    return HEAD + table(("schema", "of", ""), rows) + TAIL + FIELDS
