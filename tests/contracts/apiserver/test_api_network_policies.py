"""NetworkPolicies: what is filled in, what is refused in which words, and what is warned of."""

from __future__ import annotations

from typing import Any

from support.api_servers import ServerApi

ROOT = "/apis/networking.k8s.io/v1"
WRONG: dict[str, Any] = {
    "podSelector": {"matchExpressions": [{"key": "a b", "operator": "Some"}]},
    "policyTypes": ["Egress", "Sideways"],
    "ingress": [
        {
            "ports": [
                {"protocol": "ICMP", "port": 0},
                {"port": 90, "endPort": 80},
                {"port": "a_b", "endPort": 3},
                {"endPort": 7},
                {"port": 70000, "endPort": 70001},
            ],
            "from": [
                {},
                {"podSelector": {}, "ipBlock": {"cidr": "10.0.0.0/8"}},
                {"ipBlock": {"cidr": "10.0.0.1/8", "except": ["11.0.0.0/16", "10.0.0.0/8", "nonsense"]}},
                {"ipBlock": {"cidr": "x"}},
                {"ipBlock": {"cidr": ""}},
                {"ipBlock": {"cidr": "010.0.0.0/8"}},
            ],
        }
    ],
    "egress": [{"to": [{"ipBlock": {"cidr": "2001:db8::/32", "except": ["10.0.0.0/8"]}}]}],
}
RANGE = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
SAID = [
    'spec.podSelector.matchExpressions[0].operator: Invalid value: "Some": not a valid selector operator',
    'spec.podSelector.matchExpressions[0].key: Invalid value: "a b": name part must consist of',
    'spec.ingress[0].ports[0].protocol: Unsupported value: "ICMP": supported values: "TCP", "UDP", "SCTP"',
    "spec.ingress[0].ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
    "spec.ingress[0].ports[1].endPort: Invalid value: 90: must be greater than or equal to `port`",
    "spec.ingress[0].ports[2].endPort: Invalid value: 3: may not be specified when `port` is non-numeric",
    'spec.ingress[0].ports[2].port: Invalid value: "a_b": must contain only alpha-numeric characters',
    "spec.ingress[0].ports[3].endPort: Invalid value: 7: may not be specified when `port` is not specified",
    "spec.ingress[0].ports[4].port: Invalid value: 70000: must be between 1 and 65535, inclusive",
    "spec.ingress[0].ports[4].endPort: Invalid value: 70001: must be between 1 and 65535, inclusive",
    "spec.ingress[0].from[0]: Required value: must specify a peer",
    "spec.ingress[0].from[1]: Forbidden: may not specify both ipBlock and another peer",
    'spec.ingress[0].from[2].ipBlock.cidr: Invalid value: "10.0.0.1/8": must not have bits set beyond the prefix',
    'spec.ingress[0].from[2].ipBlock.except[0]: Invalid value: "11.0.0.0/16": must be a strict subset of `cidr`',
    'spec.ingress[0].from[2].ipBlock.except[1]: Invalid value: "10.0.0.0/8": must be a strict subset of `cidr`',
    f'spec.ingress[0].from[2].ipBlock.except[2]: Invalid value: "nonsense": {RANGE}',
    f'spec.ingress[0].from[3].ipBlock.cidr: Invalid value: "x": {RANGE}',
    "spec.ingress[0].from[4].ipBlock.cidr: Required value",
    'spec.ingress[0].from[5].ipBlock.cidr: Invalid value: "010.0.0.0/8": must not have leading 0s in IP or prefix',
    'spec.egress[0].to[0].ipBlock.except[0]: Invalid value: "10.0.0.0/8": must be a strict subset of `cidr`',
    'spec.policyTypes[1]: Unsupported value: "Sideways": supported values: "Ingress", "Egress"',
]


def policy(name: str, spec: dict[str, Any] | None = None) -> dict[str, Any]:
    document = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": name}}
    return document if spec is None else {**document, "spec": spec}


def test_what_a_policy_leaves_out_is_filled_in(api: ServerApi, ns: str) -> None:
    path = f"{ROOT}/namespaces/{ns}/networkpolicies"
    assert api.post(path, policy("empty"))["spec"] == {"podSelector": {}, "policyTypes": ["Ingress"]}
    out = {"egress": [{"ports": [{"port": 443}]}]}
    assert api.post(path, policy("out", out))["spec"] == {
        "podSelector": {},
        "policyTypes": ["Ingress", "Egress"],
        "egress": [{"ports": [{"port": 443, "protocol": "TCP"}]}],
    }


def test_every_rule_is_told_in_order(api: ServerApi, ns: str) -> None:
    answer = api.post(f"{ROOT}/namespaces/{ns}/networkpolicies", policy("wrong", WRONG))
    assert answer.code == 422
    causes = [f"{cause['field']}: {cause['message']}" for cause in answer["details"]["causes"]]
    assert len(causes) == len(SAID)
    for told, expected in zip(causes, SAID, strict=True):
        assert told.startswith(expected)


def test_there_are_two_types_at_most(api: ServerApi, ns: str) -> None:
    types = {"policyTypes": ["Ingress", "Egress", "Ingress"]}
    answer = api.post(f"{ROOT}/namespaces/{ns}/networkpolicies", policy("types", types))
    assert answer["details"]["causes"] == [
        {
            "reason": "FieldValueInvalid",
            "message": 'Invalid value: ["Ingress","Egress","Ingress"]: may not specify more than two policyTypes',
            "field": "spec.policyTypes",
        }
    ]


def test_ranges_that_are_not_canonical_are_warned_of(api: ServerApi, ns: str) -> None:
    peer = {"ipBlock": {"cidr": "2001:DB8:0::/32", "except": ["2001:db8:1::/64"]}}
    answer = api.post(f"{ROOT}/namespaces/{ns}/networkpolicies", policy("form", {"ingress": [{"from": [peer]}]}))
    assert answer.headers["Warning"] == (
        '299 - "spec.ingress[0].from[0].ipBlock.cidr: IPv6 CIDR value \\"2001:DB8:0::/32\\" should be in RFC 5952 '
        'canonical format (\\"2001:db8::/32\\")"'
    )
