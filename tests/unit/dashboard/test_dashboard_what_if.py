"""Drain previews and fits from the page: what they answer is what the commands answer on the same cluster."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest
from click.testing import CliRunner

from support.dashboard_requests import EXAMPLES, cluster_of_files, dashboard_of
from tonnage.cli import cli
from tonnage.dashboard.questions.asking import Asking, GivenUp, QuestionLimit
from tonnage.dashboard.questions.cluster_questions import drained
from tonnage.whatif.sources import OutOfTime

MILL = EXAMPLES / "14-drain-preview" / "cluster.yaml"
FIT = [EXAMPLES / "13-fit" / "cluster.yaml", EXAMPLES / "13-fit" / "kafka.yaml"]


def command(*words: object) -> Any:
    """What a command writes to stdout with -o json."""
    result = CliRunner().invoke(cli, [*map(str, words), "-o", "json"], catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize(
    ("nodes", "one_by_one"), [(["mill-1"], False), (["mill-3"], False), (["mill-1", "mill-2"], True)]
)
async def test_a_drain_preview_answers_what_the_command_answers(nodes, one_by_one):
    flags = ["--one-by-one"] if one_by_one else []
    async with dashboard_of(cluster_of_files(MILL)) as dashboard:
        status, told = await dashboard.ask("POST", "/api/v1/drain-preview", {"nodes": nodes, "oneByOne": one_by_one})
    assert status == 200
    assert told == await asyncio.to_thread(command, "drain-preview", "-f", MILL, *nodes, *flags)


async def test_a_fit_answers_what_the_command_answers():
    files = [word for each in FIT for word in ("-f", each)]
    template = EXAMPLES / "13-fit" / "new" / "analytics.yaml"
    async with dashboard_of(cluster_of_files(*FIT)) as dashboard:
        _, workloads = await dashboard.ask("GET", "/api/v1/workloads")
        assert workloads == {"workloads": ["StatefulSet/default/kafka"]}
        status, told = await dashboard.ask("POST", "/api/v1/fit", {"workload": "sts/default/kafka"})
        assert status == 200
        assert told == await asyncio.to_thread(command, "fit", *files, "--workload", "sts/default/kafka")
        status, told = await dashboard.ask("POST", "/api/v1/fit", {"template": template.read_text(), "max": 1})
        assert status == 200
        assert told == await asyncio.to_thread(command, "fit", *files, "--template", template, "--max", "1")


async def test_what_cannot_be_answered_is_told_as_the_command_tells_it():
    async with dashboard_of(cluster_of_files(MILL)) as dashboard:

        async def refused(path: str, body: object) -> tuple[int, str, str | None]:
            status, told = await dashboard.ask("POST", f"/api/v1/{path}", body)
            return status, told["error"], told.get("hint")

        assert await refused("drain-preview", {"nodes": ["mill-9"]}) == (
            422,
            'there is no node "mill-9" among the 3 nodes of the manifests',
            "did you mean mill-3 or mill-2 or mill-1?",
        )
        assert await refused("fit", {"workload": "sts/mill/dc"}) == (
            422,
            "there is no StatefulSet mill/dc among the 5 workloads of the manifests",
            "did you mean StatefulSet/mill/db?",
        )
        status, error, _ = await refused("fit", {"template": "apiVersion: v1\nkind: Pod\n  metadata: {"})
        assert status == 422 and error.startswith("the template") and "line 3" in error
        assert (await refused("drain-preview", {"nodes": []}))[0] == 400
        assert (await refused("drain-preview", {"nodes": ["a"], "once": True}))[0] == 400
        assert (await refused("fit", {}))[0] == 400
        assert (await refused("fit", {"workload": "sts/mill/db", "max": -1}))[0] == 400


async def test_a_question_that_nobody_waits_for_is_given_up_and_the_next_one_has_its_turn():
    asking, begun, ended = Asking(), threading.Event(), threading.Event()

    def endless(limit: QuestionLimit) -> None:
        begun.set()
        try:
            while not limit.check():
                pass
        except GivenUp:
            ended.set()
            raise

    first = asyncio.create_task(asking.answer(endless))
    await asyncio.to_thread(begun.wait)
    second = asyncio.create_task(asking.answer(lambda limit: ended.is_set()))
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert await second, "the first has ended before the second began"


async def test_a_preview_that_is_out_of_time_tells_what_is_known_by_then():
    state = await cluster_of_files(MILL).state(with_workloads=True)

    class AfterTheDrain(QuestionLimit):
        """Out of time at the first step, which comes when the drain itself is known."""

        def check(self, *amount: object) -> bool:
            if amount:
                raise OutOfTime
            return False

    told = drained(state, Asking(), AfterTheDrain(60), ["mill-1"], is_one_by_one=True)
    assert told["partial"] is True
