"""Eviction: who may go, who is charged, and what a refusal says."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.documents.api_errors import UnknownReason
from tonnage.documents.kinds.pod_disruption_budget import (
    MAX_DISRUPTED_PODS,
    OnConflict,
    judge_eviction,
    mark_disrupted,
    still_processing,
    validate_eviction,
)
from tonnage.errors import ApiError, BadRequest, Conflict, Forbidden, Invalid, TooManyRequests
from tonnage.objects.document import Doc, copy

NOW = "2024-05-01T12:00:00Z"
EVICTION: Doc = {"metadata": {"name": "p"}}


def pod(phase: str = "Running", *, ready: bool = True, **metadata: Any) -> Doc:
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    meta = {"name": "p", "namespace": "ns", "uid": "u", "resourceVersion": "7", "labels": {"app": "web"}, **metadata}
    return {"metadata": meta, "spec": {}, "status": {"phase": phase, "conditions": conditions}}


def budget(name: str = "b", *, selector: Doc | None = None, policy: str = "", **status: Any) -> Doc:
    spec: Doc = {"selector": {"matchLabels": {"app": "web"}} if selector is None else selector}
    if policy:
        spec["unhealthyPodEvictionPolicy"] = policy
    known = {"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1}
    return {
        "metadata": {"name": name, "namespace": "ns", "generation": 1},
        "spec": spec,
        "status": {**known, **status},
    }


def refusal(stored: Doc, *budgets: Doc) -> ApiError:
    with pytest.raises(ApiError) as refused:
        judge_eviction(stored, budgets, EVICTION, now=NOW)
    return refused.value


def test_a_pod_without_a_budget_just_goes() -> None:
    other = budget(selector={"matchLabels": {"app": "db"}})
    decision = judge_eviction(pod(), [other], EVICTION, now=NOW)
    assert (decision.budget, decision.options, decision.on_conflict) == (None, {}, OnConflict.FAIL)


@pytest.mark.parametrize("stored", [pod("Succeeded"), pod("Failed"), pod(deletionTimestamp=NOW)])
def test_a_pod_that_has_ended_or_is_going_asks_nobody(stored: Doc) -> None:
    decision = judge_eviction(stored, [budget(), budget("c")], EVICTION, now=NOW)
    assert (decision.budget, decision.options) == (None, {})


def test_a_pod_that_has_not_started_goes_unless_it_starts_meanwhile() -> None:
    decision = judge_eviction(pod("Pending"), [budget()], EVICTION, now=NOW)
    assert decision.options == {"preconditions": {"resourceVersion": "7"}}
    assert decision.on_conflict is OnConflict.JUDGE_AGAIN


def test_a_version_the_caller_named_is_kept_and_its_conflict_is_theirs() -> None:
    named = {**EVICTION, "deleteOptions": {"preconditions": {"resourceVersion": "5"}}}
    decision = judge_eviction(pod("Pending"), [], named, now=NOW)
    assert decision.options == {"preconditions": {"resourceVersion": "5"}}
    assert decision.on_conflict is OnConflict.FAIL


def test_one_disruption_is_charged_and_put_on_record() -> None:
    allowed = budget(disruptionsAllowed=2, currentHealthy=3)
    before = copy(allowed)
    decision = judge_eviction(pod(), [allowed], EVICTION, now=NOW)
    assert decision.budget is not None
    # 2 allowed - 1 = 1 left.
    assert decision.budget["status"] == {
        "observedGeneration": 1,
        "disruptionsAllowed": 1,
        "currentHealthy": 3,
        "desiredHealthy": 1,
        "disruptedPods": {"p": NOW},
    }
    assert allowed == before  # the stored budget is not touched


def test_the_last_disruption_is_noted_as_a_condition() -> None:
    earlier = {
        "type": "DisruptionAllowed",
        "status": "True",
        "reason": "SufficientPods",
        "lastTransitionTime": "2024-01-01T00:00:00Z",
    }
    decision = judge_eviction(
        pod(), [budget(disruptionsAllowed=1, currentHealthy=2, conditions=[earlier])], EVICTION, now=NOW
    )
    assert decision.budget is not None
    assert decision.budget["status"]["conditions"] == [
        {
            "type": "DisruptionAllowed",
            "status": "False",
            "reason": "InsufficientPods",
            "message": "",
            "observedGeneration": 1,
            "lastTransitionTime": NOW,
        }
    ]


def test_a_dry_run_charges_nothing_but_is_judged() -> None:
    decision = judge_eviction(pod(), [budget(disruptionsAllowed=1)], EVICTION, now=NOW, dry_run=["All"])
    assert (decision.budget, decision.options) == (None, {"dryRun": ["All"]})
    with pytest.raises(TooManyRequests):
        judge_eviction(pod(), [budget()], EVICTION, now=NOW, dry_run=["All"])


@pytest.mark.parametrize(
    ("status", "told"),
    [
        ({}, "The disruption budget b needs 1 healthy pods and has 1 currently"),
        ({"currentHealthy": 3}, "The disruption budget b does not allow evicting pods currently"),
        (
            {
                "conditions": [
                    {"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed", "message": "boom"}
                ]
            },
            "The disruption budget b does not allow evicting pods currently because it failed sync: boom",
        ),
        (
            {
                "currentHealthy": 3,
                "conditions": [{"type": "DisruptionAllowed", "status": "False", "reason": "Odd", "message": "boom"}],
            },
            "The disruption budget b does not allow evicting pods currently (Odd): boom",
        ),
    ],
)
def test_a_budget_that_is_spent_says_why(status: Doc, told: str) -> None:
    refused = refusal(pod(), budget(**status))
    assert isinstance(refused, TooManyRequests)
    assert refused.message == "Cannot evict pod as it would violate the pod's disruption budget."
    assert [(cause.reason, cause.message) for cause in refused.causes] == [("DisruptionBudget", told)]
    assert refused.retry_after_s == 0


def test_a_budget_whose_controller_lags_behind_asks_for_patience() -> None:
    refused = refusal(pod(), budget(observedGeneration=0, disruptionsAllowed=5))
    assert isinstance(refused, TooManyRequests)
    assert refused.causes[0].message == "The disruption budget b is still being processed by the server."
    assert refused.retry_after_s == 10
    assert still_processing("b").causes == refused.causes


def test_two_budgets_for_one_pod_are_one_too_many() -> None:
    refused = refusal(pod(), budget(disruptionsAllowed=1), budget("c", disruptionsAllowed=1))
    assert isinstance(refused, UnknownReason)
    assert refused.message == (
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    )
    assert (refused.code, refused.reason) == (500, "")


def test_a_negative_budget_and_a_full_record_are_forbidden() -> None:
    refused = refusal(pod(), budget(disruptionsAllowed=-1))
    assert isinstance(refused, Forbidden)
    assert refused.message == 'poddisruptionbudget.policy "b" is forbidden: pdb disruptions allowed is negative'
    # The record holds 2000; one more than that is too many.
    full = {f"p{number}": NOW for number in range(MAX_DISRUPTED_PODS + 1)}
    refused = refusal(pod(), budget(disruptionsAllowed=1, disruptedPods=full))
    assert refused.message.endswith("DisruptedPods map too big - too many evictions not confirmed by PDB controller")
    del full["p0"]
    assert (
        judge_eviction(pod(), [budget(disruptionsAllowed=1, disruptedPods=full)], EVICTION, now=NOW).budget is not None
    )


@pytest.mark.parametrize(
    ("guard", "goes"),
    [
        (budget(policy="AlwaysAllow", currentHealthy=0), True),
        (budget(currentHealthy=1, desiredHealthy=1), True),
        (budget(currentHealthy=0, desiredHealthy=1), False),
        (budget(policy="IfHealthyBudget", currentHealthy=0, desiredHealthy=1), False),
        # A budget that desires nobody says nothing about an unready pod.
        (budget(currentHealthy=0, desiredHealthy=0), False),
    ],
)
def test_an_unready_pod_goes_where_its_budget_can_spare_it(guard: Doc, goes: bool) -> None:
    stored = pod(ready=False)
    if not goes:
        assert isinstance(refusal(stored, guard), TooManyRequests)
        return
    decision = judge_eviction(stored, [guard], EVICTION, now=NOW)
    assert decision.budget is None
    assert decision.options == {"preconditions": {"resourceVersion": "7"}}
    assert decision.on_conflict is OnConflict.TRY_LATER


def test_a_budget_without_a_selector_or_with_a_broken_one_guards_nobody_and_an_empty_one_everybody() -> None:
    nobody = budget()
    del nobody["spec"]["selector"]
    broken = budget("c", selector={"matchExpressions": [{"key": "app", "operator": "Near"}]})
    assert judge_eviction(pod(), [nobody, broken], EVICTION, now=NOW).budget is None
    assert isinstance(refusal(pod(), budget(selector={})), TooManyRequests)


def test_a_disrupted_pod_carries_the_mark() -> None:
    marked = mark_disrupted(pod(), {}, now=NOW)
    assert marked["status"]["conditions"][1] == {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
        "lastTransitionTime": NOW,
    }


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        (
            {"uid": "other"},
            "the UID in the precondition (other) does not match the UID in record (u). "
            "The object might have been deleted and then recreated",
        ),
        (
            {"resourceVersion": "5"},
            "the ResourceVersion in the precondition (5) does not match the ResourceVersion in record (7). "
            "The object might have been modified",
        ),
    ],
)
def test_a_pod_that_is_not_the_one_that_was_meant_is_a_conflict(wanted: Doc, told: str) -> None:
    with pytest.raises(Conflict) as refused:
        mark_disrupted(pod(), {"preconditions": wanted}, now=NOW)
    assert refused.value.message == f'Operation cannot be fulfilled on Pod "p": {told}'
    assert refused.value.kind == "Pod"


def test_an_eviction_names_the_pod_of_its_url() -> None:
    with pytest.raises(BadRequest, match="name in URL does not match name in Eviction object"):
        validate_eviction(EVICTION, "q")


def test_an_eviction_may_not_ask_for_a_broken_store() -> None:
    option = "ignoreStoreReadErrorWithClusterBreakingPotential"
    with pytest.raises(Invalid) as refused:
        validate_eviction({**EVICTION, "deleteOptions": {option: True}}, "p")
    assert refused.value.message == (
        f'Eviction.policy "p" is invalid: deleteOptions.{option}: Invalid value: true: '
        "can not be set for pod eviction, try after removing the option"
    )
