"""HTTP endpoints: those of every program, and what the API server serves."""

from __future__ import annotations

from reference import code, table
from tonnage.objects.resources import RESOURCES, verbs_of

HEAD = """\
# HTTP endpoints

## Programs

Where each program serves health and metrics. In a `tonnage up` cluster the addresses are free ports of loopback, and
`DIR/endpoints.json`, readable by its owner alone, says which, and which CA certificate to trust:
`{"scheduler": {"url": "https://127.0.0.1:21206", "certificateAuthority": "tls/scheduler/ca.crt"}, …}`. A program that cannot
listen says so and ends.

"""

SERVED = [
    (
        "`tonnage apiserver`",
        "`--bind`, `--secure-port`",
        "6443",
        "TLS; a bearer token or a client certificate for everything but the probes",
    ),
    (
        "`tonnage scheduler`",
        "`--bind-address`, `--secure-port`",
        "10259",
        "TLS: `--tls-cert-file`, else its own certificate authority in `--cert-dir`; probes are open, the rest is for whom the API server lets in",
    ),
    ("`tonnage controllers`", "`--bind-address`, `--secure-port`", "10257", "TLS, as the scheduler"),
    ("`tonnage provisioner`", "`--http-endpoint`", "none", "plain HTTP, as external-provisioner"),
    ("`tonnage pools`", "`--http-endpoint`", "none", "plain HTTP"),
    ("`tonnage node`", "`--metrics-address`", "none", "plain HTTP"),
]

PAGES = [
    (
        "/healthz",
        "every program",
        "`ok` and 200, or 500: whoever shall lead and does not renew the lease is not healthy",
    ),
    ("/livez", "every program", "the same"),
    (
        "/readyz",
        "every program",
        "200 once informers are in step; of the API server, while writes reach the disk. `?verbose`, `?exclude=NAME` and a path a check there",
    ),
    ("/metrics", "every program", "Prometheus' text format"),
    (
        "/configz",
        "scheduler",
        "the configuration in force, defaults filled in: `{componentconfig: KubeSchedulerConfiguration}`",
    ),
    (
        "/debug/pprof",
        "scheduler, controllers",
        "what the program is doing, unless `--profiling=false`: `/debug/pprof/profile?seconds=30` (stacks and how often each was seen, for flame graphs), `/debug/pprof/goroutine` (every task and thread, and where it stands), `/debug/pprof/cmdline`",
    ),
    (
        "/debug/reservations",
        "scheduler",
        "who holds which capacity, since when and why: a list of `{mode, capacity, uid, pod, claims, bytes, since, why}`",
    ),
    (
        "/debug/nominations",
        "scheduler",
        "who is expected where: a list of `{node, nodeExists, pod, uid, priority, holds, since, by}`",
    ),
    (
        "/debug/assumed",
        "scheduler",
        "what it has decided or seen and the API does not show: `{pods: [{pod, uid, node}], claims: [{claim, uid, annotations}], volumes: [{volume, uid, claim, claimUid}], failedNodes: [{uid, node, times, why, until}]}`",
    ),
]
"""Pages of programs; tests/test_reference_current.py reads those below /debug off the source and compares."""

API = """\
`tonnage explain` on a live cluster asks for the three debug pages, so that capacity which only the scheduler knows to be
reserved, pods on their way and room held for nominated pods count as they do there. It finds the scheduler beside the
kubeconfig of a `tonnage up`; of any other cluster name it with `--scheduler-endpoint URL` (and `--scheduler-ca FILE`, the
`ca.crt` of its `--cert-dir`). It asks as the kubeconfig's user, or with `--scheduler-token-file FILE`. Where the scheduler
cannot be asked or does not let one in, a note says so.

Who may read: `tonnage scheduler` and `tonnage controllers` ask the API server, as kube-scheduler does (TokenReview, client
certificates, SubjectAccessReview of `get` on the path; [beside kube-scheduler](../guides/beside-kube-scheduler.md)). 401 is for
a token that is nobody's, 403 for somebody who may not. The programs of `tonnage up` run with
`--unauthenticated-on-loopback` and ask nobody. What is served by plain HTTP is open to whoever reaches the address and asks for it by
an address, or by a name that is not in the public DNS (else 421), as with
Kubernetes' sidecars.

## API server

Beside resources: `/api`, `/apis` and what is below them (discovery), `/openapi/v2`, `/openapi/v3`, `/version`, `/metrics`, the
probes. Resources, in JSON, YAML and protobuf, with watches, server-side apply and tables, as Kubernetes has them:

"""


def page() -> str:
    pages: list[tuple[object, ...]] = [(code(path), of, about) for path, of, about in PAGES]
    programs: list[tuple[object, ...]] = list(SERVED)
    resources: list[tuple[object, ...]] = [
        (
            code(row.api_version),
            row.kind,
            code(row.plural) + "".join(f", {code(each)}" for each in row.short_names),
            "yes" if row.namespaced else "no",
            ", ".join(code(each) for each in row.subresources),
            " ".join(verbs_of(row)),
        )
        for row in RESOURCES
    ]
    return "\n\n".join(
        (
            HEAD + table(("program", "flags", "port by default", ""), programs),
            table(("path", "of", "answers"), pages),
            API + table(("apiVersion", "kind", "resource", "namespaced", "subresources", "verbs"), resources),
            "Kinds of CustomResourceDefinitions join them ([how](../decisions/021-custom-resources.md)).",
        )
    )
