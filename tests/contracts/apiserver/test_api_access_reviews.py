"""Questions about rights: what makes one legal, and what the answer holds."""

from __future__ import annotations

from typing import Any

import pytest

from support.api_servers import ServerApi

Doc = dict[str, Any]
REVIEWS = "/apis/authorization.k8s.io/v1"
GET_PODS: Doc = {"verb": "get", "resource": "pods"}
NOBODY = ("spec.user", 'Invalid value: "": at least one of user or group must be specified')
NOTHING = (
    "spec.resourceAttributes",
    "Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified",
)
AT = "spec.resourceAttributes"
ODD_FIELDS = {"rawSelector": "a", "requirements": [{"key": "a", "operator": "In"}, {"key": "", "operator": "Exists"}]}

WRONG: list[tuple[str, Doc, list[tuple[str, str]]]] = [
    ("selfsubjectaccessreviews", {"spec": {}}, [NOTHING]),
    (
        "selfsubjectaccessreviews",
        {"spec": {"resourceAttributes": {}, "nonResourceAttributes": {"path": "/x"}}},
        [
            (
                "spec.nonResourceAttributes",
                'Invalid value: {"Path":"/x","Verb":""}: cannot be specified in combination with resourceAttributes',
            )
        ],
    ),
    ("subjectaccessreviews", {"spec": {"resourceAttributes": GET_PODS}}, [NOBODY]),
    ("subjectaccessreviews", {"spec": {}}, [NOTHING, NOBODY]),
    (
        "*localsubjectaccessreviews",
        {"spec": {"user": "u", "resourceAttributes": {**GET_PODS, "namespace": "y"}}},
        [(f"{AT}.namespace", 'Invalid value: "y": must match metadata.namespace')],
    ),
    (
        "*localsubjectaccessreviews",
        {"spec": {"user": "u", "nonResourceAttributes": {"path": "/", "verb": "get"}}},
        [
            (
                "spec.nonResourceAttributes",
                'Invalid value: {"Path":"/","Verb":"get"}: disallowed on this kind of request',
            )
        ],
    ),
    (
        "subjectaccessreviews",
        {"spec": {"user": "u", "resourceAttributes": {"fieldSelector": ODD_FIELDS, "labelSelector": {}}}},
        [
            (
                f"{AT}.fieldSelector.rawSelector",
                'Invalid value: "a": may not specified at the same time as requirements',
            ),
            (
                f"{AT}.fieldSelector.requirements[0].values",
                "Required value: must be specified when `operator` is 'In' or 'NotIn'",
            ),
            (f"{AT}.fieldSelector.requirements[1].key", "Required value: must be specified"),
            (
                f"{AT}.labelSelector.requirements",
                f"Required value: when {AT}.labelSelector is specified, requirements or rawSelector is required",
            ),
        ],
    ),
    (
        "subjectaccessreviews",
        {
            "spec": {
                "user": "u",
                "resourceAttributes": {
                    "labelSelector": {"requirements": [{"key": "a b", "operator": "Exists", "values": ["x"]}]}
                },
            }
        },
        [
            (
                f"{AT}.labelSelector.requirements[0].values",
                "Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            ),
            (
                f"{AT}.labelSelector.requirements[0].key",
                "Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', '_' or '.', and "
                "must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex "
                "used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
            ),
        ],
    ),
]


def ask(api: ServerApi, ns: str, plural: str, body: Doc) -> Any:
    scope = f"/namespaces/{ns}" if plural.startswith("*") else ""
    return api.post(f"{REVIEWS}{scope}/{plural.strip('*')}", body)


@pytest.mark.parametrize(("plural", "body", "causes"), WRONG)
def test_a_question_that_makes_no_sense_is_refused(
    api: ServerApi, ns: str, plural: str, body: Doc, causes: list[tuple[str, str]]
) -> None:
    refused = ask(api, ns, plural, body)
    assert (refused.code, refused.causes) == (422, causes)
    assert refused.message.startswith('.authorization.k8s.io "" is invalid: ')


def test_a_question_has_no_metadata(api: ServerApi, ns: str) -> None:
    for plural, told in (("selfsubjectaccessreviews", ""), ("*localsubjectaccessreviews", " except for namespace")):
        attributes = {"resourceAttributes": {**GET_PODS, "namespace": ns}}
        refused = ask(api, ns, plural, {"metadata": {"name": "x"}, "spec": {"user": "u"} | attributes})
        if plural.startswith("self"):
            refused = ask(api, ns, plural, {"metadata": {"name": "x"}, "spec": attributes})
        assert (refused.code, refused.causes[0][0]) == (422, "metadata")
        assert refused.causes[0][1].endswith(f": must be empty{told}")


def test_the_answer_repeats_the_question(api: ServerApi, ns: str) -> None:
    asked = {"user": "u", "uid": "1", "groups": ["g"], "extra": {"k": ["v", "w"]}, "resourceAttributes": GET_PODS}
    answered = ask(api, ns, "subjectaccessreviews", {"spec": asked})
    assert (answered.code, answered["spec"], answered["status"]) == (201, asked, {"allowed": False})
    assert answered["kind"] == "SubjectAccessReview" and list(answered.meta) == ["managedFields"]
    local = {"user": "u", "resourceAttributes": {**GET_PODS, "namespace": ns}}
    answered = ask(api, ns, "*localsubjectaccessreviews", {"spec": local})
    assert (answered.code, answered.meta["namespace"], answered["status"]) == (201, ns, {"allowed": False})


def test_a_member_of_system_masters_may_do_anything(api: ServerApi, ns: str) -> None:
    anything = {"verb": "frob", "group": "example.com", "resource": "things"}
    assert ask(api, ns, "selfsubjectaccessreviews", {"spec": {"resourceAttributes": anything}})["status"] == {
        "allowed": True
    }
    path = {"groups": ["system:masters"], "nonResourceAttributes": {"verb": "x", "path": "/y"}}
    assert ask(api, ns, "subjectaccessreviews", {"spec": path})["status"] == {"allowed": True}


def test_selectors_are_taken_and_mistakes_in_them_are_told(api: ServerApi, ns: str) -> None:
    def status(**selectors: Any) -> Any:
        asked = {"user": "u", "resourceAttributes": {**GET_PODS, **selectors}}
        return ask(api, ns, "subjectaccessreviews", {"spec": asked})["status"]

    good = {"key": "a", "operator": "In", "values": ["x"]}
    unknown = {"key": "b", "operator": "Resembles"}
    assert status(fieldSelector={"rawSelector": "spec.nodeName=n"}, labelSelector={"rawSelector": "a in (b)"}) == {
        "allowed": False
    }
    assert status(fieldSelector={"requirements": [good]}, labelSelector={"requirements": [good]}) == {"allowed": False}
    field, label = f"{AT}.fieldSelector", f"{AT}.labelSelector"
    assert status(labelSelector={"requirements": [good, unknown]})["evaluationError"] == (
        f"{label} partially ignored due to parse error"
    )
    both = status(fieldSelector={"requirements": [unknown]}, labelSelector={"rawSelector": "a in"})
    assert both["evaluationError"] == (f"{field} ignored due to parse error; {label} ignored due to parse error")
    assert status(fieldSelector={"rawSelector": "no operator"})["evaluationError"] == (
        f"{field} ignored due to parse error"
    )
    assert status(fieldSelector={"requirements": [{"key": "a", "operator": "Exists"}, good]})["evaluationError"] == (
        f"{field} partially ignored due to parse error"
    )


def test_the_rules_of_whoever_asks(api: ServerApi, ns: str) -> None:
    refused = ask(api, ns, "selfsubjectrulesreviews", {"spec": {}})
    assert (refused.code, refused.message) == (400, "no namespace on request")
    mine = ask(api, ns, "selfsubjectrulesreviews", {"spec": {"namespace": ns}})
    assert (mine.code, mine.meta, mine["spec"], mine["status"]["incomplete"]) == (201, {}, {}, False)
    assert {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]} in mine["status"]["resourceRules"]
    assert {"verbs": ["*"], "nonResourceURLs": ["*"]} in mine["status"]["nonResourceRules"]
    other = {"Impersonate-User": f"user-{ns}"}
    theirs = api.post(f"{REVIEWS}/selfsubjectrulesreviews", {"spec": {"namespace": ns}}, extra=other)
    own = {"verbs": ["create"], "apiGroups": ["authorization.k8s.io"]}
    assert {**own, "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]} in theirs["status"][
        "resourceRules"
    ]
    assert all(rule["verbs"] == ["create"] for rule in theirs["status"]["resourceRules"])


def test_only_create_and_only_where_it_is(api: ServerApi, ns: str) -> None:
    assert api.get(f"{REVIEWS}/subjectaccessreviews").code == 405
    assert api.get(f"{REVIEWS}/subjectaccessreviews/x").code == 404
    body = {"spec": {"user": "u", "resourceAttributes": {**GET_PODS, "namespace": ns}}}
    assert api.post(f"{REVIEWS}/localsubjectaccessreviews", body).code == 404
    assert api.post(f"{REVIEWS}/namespaces/{ns}/subjectaccessreviews", body).code == 404
