#!/usr/bin/env python3
"""Write a bill of materials: what is installed in a folder, as CycloneDX 1.6 JSON.

    scripts/sbom.py SITE-PACKAGES -o tonnage.cdx.json

The same folder gives the same bytes: components are in order, the serial number is made from them, and the time is
$SOURCE_DATE_EPOCH or left out. Standard library only: it runs while an image is built.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import uuid
from collections.abc import Iterable
from datetime import datetime, timezone
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

_SPACE = uuid.UUID("6ba7b811-9dad-11d1-80b4-00c04fd430c8")
"""RFC 4122's namespace of URLs."""
_MAIN = "tonnage"


def bill_of_materials(found: Iterable[Distribution], *, timestamp: str = "") -> dict[str, Any]:
    """What was found, as a CycloneDX document about tonnage."""
    components = {each["bom-ref"]: each for each in map(_component, found)}
    main = next((each for each in components.values() if each["name"] == _MAIN), None)
    if main is None:
        raise LookupError(f"{_MAIN} is not installed there")
    others = [components[ref] for ref in sorted(components) if components[ref] is not main]
    metadata: dict[str, Any] = {"component": {**main, "type": "application"}}
    if timestamp:
        metadata = {"timestamp": timestamp, **metadata}
    refs = [each["bom-ref"] for each in others]
    text = json.dumps([main["bom-ref"], *refs])
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(_SPACE, text)}",
        "version": 1,
        "metadata": metadata,
        "components": others,
        "dependencies": [{"ref": main["bom-ref"], "dependsOn": refs}, *({"ref": ref} for ref in refs)],
    }


def _component(found: Distribution) -> dict[str, Any]:
    name = re.sub(r"[-_.]+", "-", found.metadata["Name"]).lower()
    purl = f"pkg:pypi/{name}@{found.version}"
    component: dict[str, Any] = {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": found.version,
        "purl": purl,
    }
    if about := found.metadata.json.get("summary"):
        component["description"] = about
    if licences := _licences(found):
        component["licenses"] = licences
    return component


def _licences(found: Distribution) -> list[dict[str, Any]]:
    """An SPDX expression where the package has one, else the names that it gives."""
    if expression := found.metadata.json.get("license_expression"):
        return [{"expression": expression}]
    named = [
        value.rpartition(" :: ")[2]
        for value in found.metadata.get_all("Classifier") or ()
        if value.startswith("License :: ") and not value.endswith("OSI Approved")
    ]
    told = str(found.metadata.json.get("license") or "")
    if not named and told and "\n" not in told and len(told) < 100:
        named = [told]
    return [{"license": {"name": name}} for name in named]


def source_date() -> str:
    """$SOURCE_DATE_EPOCH as CycloneDX writes times; empty when it is not set."""
    told = os.environ.get("SOURCE_DATE_EPOCH", "")
    return datetime.fromtimestamp(int(told), timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ") if told else ""  # noqa: UP017


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("site", type=Path, help="the folder that packages are installed in")
    parser.add_argument("-o", "--output", type=Path, required=True)
    given = parser.parse_args()
    try:
        bill = bill_of_materials(distributions(path=[str(given.site)]), timestamp=source_date())
    except LookupError as exc:
        sys.exit(f"error: {given.site}: {exc}")
    given.output.write_text(json.dumps(bill, indent=2, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
