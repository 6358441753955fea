"""Every cell as kube-apiserver 1.36.4 filled it.

`tables_1_36.json` holds what a real server answered to `as=Table` with `includeObject=Object`: the columns of every
kind we serve, and for each row the object (what no cell reads is left out), the server's own time and the cells. Each
row names the function in upstream's pkg/printers/internalversion it mirrors.
"""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tonnage.apiserver import tables
from tonnage.objects.resources import RESOURCES

RECORDED = json.loads((Path(__file__).parent / "tables_1_36.json").read_text())
BY_NAME = {resource.qualified: resource for resource in RESOURCES}


def case_name(row: dict[str, Any]) -> str:
    return f"{row['mirrors']}-{row['resource']}-{row['doc']['metadata']['name']}"


OURS = "csistoragecapacities.storage.k8s.io"
"""Upstream defines columns for it and does not wire them up; ours say what decisions are made from."""


@pytest.mark.parametrize("row", [row for row in RECORDED["rows"] if row["resource"] != OURS], ids=case_name)
def test_a_row_has_the_cells_and_conditions_of_the_real_server(row: dict[str, Any]) -> None:
    made = tables.table(
        BY_NAME[row["resource"]], [row["doc"]], now=datetime.fromisoformat(row["now"]), list_metadata={}
    )
    assert made["rows"][0]["cells"] == row["cells"]
    assert made["rows"][0].get("conditions") == row.get("conditions")


@pytest.mark.parametrize("name", [name for name in RECORDED["columns"] if name != OURS])
def test_the_columns_are_those_of_the_real_server(name: str) -> None:
    ours = tables.columns(BY_NAME[name])
    assert [[c["name"], c["type"], c["format"], c["priority"]] for c in ours] == RECORDED["columns"][name]


def test_the_recording_covers_every_resource() -> None:
    assert set(BY_NAME) == set(RECORDED["columns"])
    assert set(BY_NAME) == {row["resource"] for row in RECORDED["rows"]}
