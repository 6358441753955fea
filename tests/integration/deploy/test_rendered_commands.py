"""The arguments in rendered pods are ones that the programs take: a pod with an unknown flag would not start."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from rendered import OVERLAYS, VALUES, Document, chart_objects, needs_helm, needs_kubectl, overlay_objects, pod_template

from tonnage.cli import cli


@needs_helm
@pytest.mark.parametrize("values", VALUES)
def test_arguments_in_the_chart_are_understood(values: str, monkeypatch: pytest.MonkeyPatch):
    understood(chart_objects(values), monkeypatch)


@needs_kubectl
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_arguments_in_overlays_are_understood(overlay: str, monkeypatch: pytest.MonkeyPatch):
    understood(overlay_objects(overlay), monkeypatch)


def understood(objects: list[Document], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODE_NAME", "node-1")
    monkeypatch.setattr(click.Path, "convert", lambda self, value, param, ctx: Path(value))  # files of the pod
    for template in filter(None, map(pod_template, objects)):
        for container in template["spec"]["containers"]:
            if "tonnage" not in container["image"]:
                continue
            program, *arguments = container["args"]
            command = cli.get_command(click.Context(cli), program)
            assert command is not None, program
            command.make_context(program, [each.replace("$(NODE_NAME)", "node-1") for each in arguments])
