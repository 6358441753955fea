"""A workload's pods as text: the node of each, the number by node, and why others do not fit.

    StatefulSet/shop/db: 4 pods, of which 2 fit and 2 do not

    POD        NODE    ANSWER
    shop/db-0  node-1  is on node-1
    shop/db-2          does not fit: 0/3 nodes are available: 3 node(s) did not have enough free storage.
    shop/db-3          does not fit either; as shop/db-2
    by node: node-1 1

Full explanations follow: of pods that do not fit, one per reason, and of a pod that is the only one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from rich.text import Text

from tonnage.printable import assembled, text
from tonnage.scheduling.decision.explain import Explanation
from tonnage.whatif.explain import PodAnswer, WorkloadAnswer
from tonnage.whatif.explain_report import MAX_ROWS, preemption_sentence, print_explanation
from tonnage.whatif.page import FittedTable, TextPage, named

_MOST_EXPLAINED = 3
"""How many pods that do not fit, each for other reasons, are explained in full."""


def print_workloads(answers: Sequence[WorkloadAnswer], weights: Mapping[str, int], page: TextPage) -> None:
    for number, answer in enumerate(answers):
        if number:
            page.blank()
        _print_workload(answer, weights, page)


def _print_workload(answer: WorkloadAnswer, weights: Mapping[str, int], page: TextPage) -> None:
    pods = answer.pods
    page.say(_headline(answer))
    decided = [pod for pod in pods if pod.explanation is not None]
    if pods:
        page.blank()
        shown, rows = _shown(pods), []
        like: dict[str, str] = {}
        for each in shown:
            first = like.setdefault(_told(each), each.key)
            is_again = not each.fits and first != each.key
            told = f"does not fit either; as {first}" if is_again else _told(each)
            rows.append((each.key, text(each.node, style="green"), text(told, style="" if each.fits else "red")))
        page.table(FittedTable(("POD", "NODE", "ANSWER"), "www", rows))
        page.more(len(pods) - len(shown), "more pods")
        counted = Counter(pod.node for pod in pods if pod.node)
        if len(pods) > 1 and counted:
            by_node = [
                f"{node} {count:,}" for node, count in sorted(counted.items(), key=lambda each: (-each[1], each))
            ]
            page.say(text(f"by node: {named(by_node, most=MAX_ROWS, examples=MAX_ROWS)}", style="dim"))
    for explanation in _explained(decided):
        page.blank()
        print_explanation(explanation, weights, page)


def _headline(answer: WorkloadAnswer) -> Text:
    count, fitting = len(answer.pods), sum(pod.fits for pod in answer.pods)
    name = (answer.name, "bold")
    if not count:
        return assembled(name, " asks for no pods")
    pods = "1 pod" if count == 1 else f"{count:,} pods"
    if fitting == count:
        return assembled(name, f": {pods}, ", ("which fits" if count == 1 else "all of which fit", "bold green"))
    if not fitting:
        return assembled(name, f": {pods}, ", ("which does not" if count == 1 else "none of which", "bold red"), " fit")
    left = count - fitting
    told = f"{fitting:,} fit{'s' if fitting == 1 else ''} and "
    return assembled(name, f": {pods}, of which {told}", (f"{left:,} {'does' if left == 1 else 'do'} not", "bold red"))


def _shown(pods: Sequence[PodAnswer]) -> list[PodAnswer]:
    """The first of many pods, and as many of those that do not fit as there is room for."""
    if len(pods) <= MAX_ROWS:
        return list(pods)
    refused = [answer for answer in pods if not answer.fits][: MAX_ROWS // 2]
    keys = {answer.key for answer in [*refused, *(answer for answer in pods if answer.fits)][:MAX_ROWS]}
    return [answer for answer in pods if answer.key in keys]


def _told(each: PodAnswer) -> str:
    if each.fits:
        return each.message
    told = f"does not fit: {each.message}"
    if each.explanation is not None and each.explanation.held_back:
        told = each.message
    if each.explanation is not None and each.explanation.preemption is not None:
        told += f" {preemption_sentence(each.explanation.preemption)}"
    return told


def _explained(decided: Sequence[PodAnswer]) -> list[Explanation]:
    if len(decided) == 1 and decided[0].explanation is not None:
        return [decided[0].explanation]
    by_message = {each.message: each.explanation for each in reversed(decided) if not each.fits and each.explanation}
    return list(reversed(by_message.values()))[:_MOST_EXPLAINED]
