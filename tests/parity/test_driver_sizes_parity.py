"""Size rules of known drivers, against the edges of the drivers' own arithmetic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tonnage.objects.size_rules import SizeRules, driver_size, known_size_rules, volume_size
from tonnage.testing.storage_builders import storage_class

DRIVERS = yaml.safe_load((Path(__file__).parent / "driver_sizes.yaml").read_text())


@pytest.mark.parametrize("known", DRIVERS, ids=lambda each: f"{each['driver']} {each.get('parameters', '')}")
def test_a_driver_s_sizes_are_known_to_the_byte(known: dict[str, Any]):
    of_class = storage_class(provisioner=known["driver"], parameters=known.get("parameters", {}))
    rules, is_block = SizeRules.parse(known_size_rules(of_class)), known.get("is_block", False)
    assert rules.is_strict is known.get("is_strict", False)
    for case in known["cases"]:
        assert volume_size(rules, case["asked"], is_block=is_block) == case["volume"], case
        assert driver_size(rules, case["asked"], is_block=is_block) == case.get("takes", case["volume"]), case
