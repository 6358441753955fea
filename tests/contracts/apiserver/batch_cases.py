"""Requests about Jobs, CronJobs and VolumeAttributesClasses; what a real server answered stands in batch_answers.json.

A case: its name, the resource, what is merged into the base object before it is created, what is merged into the stored
one afterwards (through /status where the key says so). `null` takes a field away.
"""

from __future__ import annotations

from typing import Any

Doc = dict[str, Any]

TEMPLATE: Doc = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
}
BASES: dict[str, Doc] = {
    "jobs": {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": TEMPLATE}},
    "cronjobs": {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "spec": {"schedule": "*/5 * * * *", "jobTemplate": {"spec": {"template": TEMPLATE}}},
    },
    "volumeattributesclasses": {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttributesClass",
        "driverName": "d.example",
        "parameters": {"iops": "100"},
    },
}


def condition(kind: str, status: str = "True") -> Doc:
    return {"type": kind, "status": status, "lastTransitionTime": "2026-01-02T03:04:05Z"}


INDEXED: Doc = {"completionMode": "Indexed", "completions": 5, "parallelism": 2}
LIMITED: Doc = {**INDEXED, "backoffLimitPerIndex": 1}
STARTED: Doc = {"startTime": "2026-01-02T03:04:05Z"}
DONE: Doc = {
    **STARTED,
    "succeeded": 1,
    "completionTime": "2026-01-02T03:05:05Z",
    "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
}
EXIT_CODES: Doc = {"operator": "In", "values": [1]}


def rules(*given: Doc, **spec: Any) -> Doc:
    return {"podFailurePolicy": {"rules": list(given)}, **spec}


SPECS: dict[str, Doc] = {
    "defaults": {},
    "what is said stays": {"parallelism": 0, "completions": 0, "backoffLimit": 0, "suspend": True},
    "parallelism alone": {"parallelism": 3},
    "completions alone": {"completions": 3},
    "negative numbers": {
        "parallelism": -1,
        "completions": -1,
        "activeDeadlineSeconds": -1,
        "backoffLimit": -1,
        "ttlSecondsAfterFinished": -1,
    },
    "an unknown mode": {"completionMode": "Other"},
    "indexed without completions": {"completionMode": "Indexed"},
    "indexed": INDEXED,
    "a limit for each index": LIMITED,
    "limits of indexes without indexes": {"backoffLimitPerIndex": 1, "maxFailedIndexes": 1},
    "failed indexes without a limit": {**INDEXED, "maxFailedIndexes": 1},
    "negative limits of indexes": {**INDEXED, "maxFailedIndexes": -1, "backoffLimitPerIndex": -1},
    "more failed indexes than there are": {**LIMITED, "maxFailedIndexes": 6},
    "too much at a time": {**INDEXED, "parallelism": 100_001, "completions": 100_001},
    "very many completions": {**LIMITED, "completions": 100_001, "parallelism": 10_001},
    "very many failed": {**LIMITED, "completions": 200_000, "maxFailedIndexes": 100_001},
    "always restarts": {"template": {"spec": {"restartPolicy": "Always"}}},
    "says nothing of restarts": {"template": {"spec": {"restartPolicy": None}}},
    "restarts oddly": {"template": {"spec": {"restartPolicy": "Sometimes"}}},
    "restarts on failure": {"template": {"spec": {"restartPolicy": "OnFailure"}}},
    "an unknown replacement": {"podReplacementPolicy": "Never"},
    "replaces while it ends, with a policy": {
        **rules({"action": "FailJob", "onExitCodes": EXIT_CODES}),
        "podReplacementPolicy": "TerminatingOrFailed",
    },
    "a policy": rules({"action": "FailJob", "onExitCodes": EXIT_CODES}),
    "a policy about conditions": rules({"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}),
    "a policy that restarts": {
        **rules({"action": "FailJob", "onExitCodes": EXIT_CODES}),
        "template": {"spec": {"restartPolicy": "OnFailure"}},
    },
    "a rule about nothing": rules({"action": "FailJob"}),
    "a rule about both": rules({"action": "X", "onExitCodes": EXIT_CODES, "onPodConditions": [{"type": "A"}]}),
    "a rule without an action": rules({"action": "", "onExitCodes": {"operator": "", "values": []}}),
    "a rule about an index": rules({"action": "FailIndex", "onExitCodes": EXIT_CODES}),
    "codes out of order": rules({"action": "Count", "onExitCodes": {"operator": "In", "values": [3, 0, 3]}}),
    "codes of nobody": rules(
        {"action": "Count", "onExitCodes": {"containerName": "x", "operator": "Not", "values": [1]}}
    ),
    "odd conditions": rules({"action": "Count", "onPodConditions": [{"type": "-", "status": "Maybe"}]}),
    "too many rules": rules(*[{"action": "Count", "onExitCodes": EXIT_CODES}] * 21),
    "success without indexes": {"successPolicy": {"rules": [{"succeededCount": 1}]}},
    "success": {**INDEXED, "successPolicy": {"rules": [{"succeededIndexes": "0,2-3", "succeededCount": 2}]}},
    "success of nothing": {**INDEXED, "successPolicy": {"rules": [{}]}},
    "success without rules": {**INDEXED, "successPolicy": {"rules": []}},
    "success beyond": {**INDEXED, "successPolicy": {"rules": [{"succeededIndexes": "0-1", "succeededCount": 9}]}},
    "success at odd indexes": {
        **INDEXED,
        "successPolicy": {
            "rules": [{"succeededIndexes": each} for each in ("3-1", "1-2-3", "x", "9", "0-9", "2,1", "1,", "-1")]
        },
    },
    "managed by another": {"managedBy": "acme.io/x"},
    "managed by nobody": {"managedBy": ""},
    "managed without a path": {"managedBy": "acme"},
    "managed by too long a name": {"managedBy": f"acme.io/{'x' * 70}"},
    "managed by an odd name": {"managedBy": "Acme_.io/x"},
    "a selector of its own": {"manualSelector": True, "selector": {"matchLabels": {"a": "b"}}},
    "a selector of its own that does not match": {"manualSelector": True, "selector": {"matchLabels": {"a": "c"}}},
    "a selector of its own that is missing": {"manualSelector": True},
    "a selector that is not its own": {"selector": {"matchLabels": {"a": "b"}}},
    "labels of somebody else": {
        "template": {"metadata": {"labels": {"job-name": "x", "batch.kubernetes.io/controller-uid": "y"}}}
    },
    "no containers": {"template": {"spec": {"containers": []}}},
}

UPDATES: list[tuple[str, Doc, Doc]] = [
    ("parallelism", {}, {"spec": {"parallelism": 5}}),
    ("completions", {}, {"spec": {"completions": 5}}),
    ("completions of an indexed one", INDEXED, {"spec": {"completions": 4}}),
    ("completions of an indexed one in tandem", INDEXED, {"spec": {"completions": 4, "parallelism": 4}}),
    ("mode", {}, {"spec": {"completionMode": "Indexed"}}),
    ("suspend", {}, {"spec": {"suspend": True}}),
    ("manager", {"managedBy": "acme.io/x"}, {"spec": {"managedBy": "acme.io/y"}}),
    ("limit of indexes", LIMITED, {"spec": {"backoffLimitPerIndex": 4}}),
    ("limits", {}, {"spec": {"backoffLimit": 1, "activeDeadlineSeconds": 5, "ttlSecondsAfterFinished": 9}}),
    (
        "place of a suspended one",
        {"suspend": True},
        {"spec": {"template": {"spec": {"nodeSelector": {"a": "b"}}, "metadata": {"annotations": {"x": "y"}}}}},
    ),
    (
        "resources of a suspended one",
        {"suspend": True},
        {
            "spec": {
                "template": {
                    "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}
                }
            }
        },
    ),
]

STATUSES: list[tuple[str, Doc, Doc, Doc]] = [
    # name, spec, status before, status after
    ("running", {}, {}, {**STARTED, "active": 1, "ready": 1, "terminating": 0}),
    ("negative", {}, {}, {"active": -1, "succeeded": -1, "failed": -1, "ready": -1, "terminating": -1}),
    ("done", {}, STARTED, DONE),
    ("done without a start", {}, {}, {key: value for key, value in DONE.items() if key != "startTime"}),
    ("done without a time", {}, STARTED, {key: value for key, value in DONE.items() if key != "completionTime"}),
    ("done before it began", {}, STARTED, {**DONE, "completionTime": "2026-01-02T03:00:05Z"}),
    ("done without criteria", {}, STARTED, {**DONE, "conditions": [condition("Complete")]}),
    ("a time and not done", {}, STARTED, {**STARTED, "completionTime": "2026-01-02T03:05:05Z"}),
    ("done and active", {}, STARTED, {**DONE, "active": 1, "terminating": 1, "ready": 2}),
    ("done and failed", {}, STARTED, {**DONE, "conditions": [*DONE["conditions"], condition("Failed")]}),
    ("failed", {}, STARTED, {**STARTED, "failed": 1, "conditions": [condition("FailureTarget"), condition("Failed")]}),
    ("failed without a target", {}, STARTED, {**STARTED, "failed": 1, "conditions": [condition("Failed")]}),
    ("met and failing", {}, {}, {"conditions": [condition("SuccessCriteriaMet"), condition("FailureTarget")]}),
    ("done no more", {}, DONE, STARTED),
    ("another time", {}, DONE, {**DONE, "completionTime": "2026-01-02T03:06:05Z"}),
    ("another start", {}, STARTED, {"startTime": "2026-01-02T03:06:05Z"}),
    ("counting down", {}, {"succeeded": 2, "failed": 2}, {"succeeded": 1, "failed": 1}),
    ("indexes of one without", {}, {}, {"completedIndexes": "0", "failedIndexes": "1"}),
    ("indexes", LIMITED, {}, {"completedIndexes": "0,2", "failedIndexes": "1,3"}),
    ("indexes twice", LIMITED, {}, {"completedIndexes": "0-2", "failedIndexes": "1,3"}),
    ("indexes out of order", LIMITED, {}, {"completedIndexes": "2,0", "failedIndexes": "9"}),
    ("uncounted", {}, {}, {"uncountedTerminatedPods": {"succeeded": ["a", ""], "failed": ["a", "b", "b"]}}),
    ("done and uncounted", {}, STARTED, {**DONE, "uncountedTerminatedPods": {"succeeded": ["a"]}}),
]

CRON_SPECS: dict[str, Doc] = {
    "defaults": {},
    "what is said stays": {
        "concurrencyPolicy": "Replace",
        "suspend": True,
        "successfulJobsHistoryLimit": 0,
        "failedJobsHistoryLimit": 0,
        "timeZone": "Europe/Berlin",
    },
    "negative numbers": {
        "startingDeadlineSeconds": -1,
        "successfulJobsHistoryLimit": -1,
        "failedJobsHistoryLimit": -1,
    },
    "no schedule": {"schedule": ""},
    **{
        f"schedule {text}": {"schedule": text}
        for text in (
            "@hourly",
            "@every 90s",
            "@every x",
            "@sometimes",
            "* * * *",
            "* * * * * *",
            "60 * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * * 13 *",
            "* * * * 7",
            "*/0 * * * *",
            "5-1 * * * *",
            "1-2-3 * * * *",
            "*/2/3 * * * *",
            "a * * * *",
            "-1 * * * *",
            "0 0 * JAN-mar Mon,fri",
            "? ? ? ? ?",
            "20/5 * * * *",
            "0,,1 * * * *",
            "TZ=UTC 0 * * * *",
            "CRON_TZ=Nowhere/Land 0 * * * *",
            "TZ=0",
        )
    },
    **{
        f"zone {zone!r}": {"timeZone": zone}
        for zone in ("", "Local", "UTC", "Nowhere/Land", "../etc", "Etc/GMT+5", "-x", "Europe/Berlin2345678901")
    },
    "an unknown policy": {"concurrencyPolicy": "Maybe"},
    "a selector in the template": {"jobTemplate": {"spec": {"selector": {"matchLabels": {"a": "b"}}}}},
    "a selector by hand in the template": {"jobTemplate": {"spec": {"manualSelector": True}}},
    "a bad template": {"jobTemplate": {"spec": {"parallelism": -1, "template": {"spec": {"restartPolicy": "Always"}}}}},
    "a policy in the template": {
        "jobTemplate": {"spec": rules({"action": "Ignore", "onPodConditions": [{"type": "A"}]})}
    },
}

ATTRIBUTES: dict[str, Doc] = {
    "defaults": {},
    "no driver": {"driverName": ""},
    "an odd driver": {"driverName": "a b"},
    "no parameters": {"parameters": None},
    "a parameter without a name": {"parameters": {"": "x"}},
    "too many parameters": {"parameters": {f"k{number}": "x" for number in range(513)}},
    "too long a parameter": {"parameters": {"k": "x" * 262_144}},
}

# name, resource, object, patch, status before, status after
CASES: list[tuple[str, str, Doc, Doc | None, Doc | None, Doc | None]] = [
    *((f"Job: {name}", "jobs", {"spec": spec}, None, None, None) for name, spec in SPECS.items()),
    *((f"Job changes: {name}", "jobs", {"spec": spec}, patch, None, None) for name, spec, patch in UPDATES),
    *((f"Job status: {name}", "jobs", {"spec": spec}, None, before, after) for name, spec, before, after in STATUSES),
    *((f"CronJob: {name}", "cronjobs", {"spec": spec}, None, None, None) for name, spec in CRON_SPECS.items()),
    ("CronJob: too long a name", "cronjobs", {"metadata": {"name": "x" * 53}}, None, None, None),
    ("CronJob changes: schedule", "cronjobs", {}, {"spec": {"schedule": "0 * * * *"}}, None, None),
    (
        "CronJob status: ran",
        "cronjobs",
        {},
        None,
        {},
        {"lastScheduleTime": "2026-01-02T03:04:05Z", "active": [{"kind": "Job", "name": "j"}]},
    ),
    *((f"Attributes: {name}", "volumeattributesclasses", doc, None, None, None) for name, doc in ATTRIBUTES.items()),
    (
        "Attributes change",
        "volumeattributesclasses",
        {},
        {"driverName": "e.example", "parameters": {"iops": "200"}},
        None,
        None,
    ),
    ("Attributes get labels", "volumeattributesclasses", {}, {"metadata": {"labels": {"a": "b"}}}, None, None),
]
