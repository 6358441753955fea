"""What a server counts of requests: the labels that dashboards and the KEPs' queries look for."""

from __future__ import annotations

import re

from contract_documents import config_map

from support.api_servers import ServerApi
from support.eventually import eventually

_LABEL = re.compile(r'(\w+)="([^"]*)"')


def counted(api: ServerApi, resource: str) -> dict[tuple[str, str, str], int]:
    """Requests about a resource, by verb, scope and code."""
    found: dict[tuple[str, str, str], int] = {}
    for line in api.get("/metrics", accept="text/plain").body.splitlines():
        if line.startswith("apiserver_request_total{") and f'resource="{resource}"' in line:
            labels = dict(_LABEL.findall(line))
            key = labels["verb"], labels["scope"], labels["code"]
            found[key] = found.get(key, 0) + int(float(line.rpartition(" ")[2]))
    return found


def test_each_verb_is_counted_under_kubernetes_name_for_it(api: ServerApi, ns: str) -> None:
    limits = f"/api/v1/namespaces/{ns}/limitranges"  # nobody else asks for them

    def limit(name: str) -> dict[str, object]:
        return {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": name}, "spec": {"limits": []}}

    before = counted(api, "limitranges")
    made = api.create(limits, limit("a"))
    api.get(f"{limits}/a")
    api.get(limits)
    api.get("/api/v1/limitranges")
    api.put(f"{limits}/a", limit("a"))
    api.patch(f"{limits}/a", {"metadata": {"labels": {"a": "b"}}})
    api.apply(f"{limits}/b", limit("b"), "someone")
    api.delete(f"{limits}/b")
    api.delete(limits)
    assert api.get(f"{limits}/a").code == 404
    api.watch(f"{limits}?watch=1&resourceVersion={made.version}", 1)  # and then the client hangs up
    wanted = {
        ("POST", "resource", "201"): 1,
        ("GET", "resource", "200"): 1,
        ("GET", "resource", "404"): 1,
        ("LIST", "namespace", "200"): 1,
        ("LIST", "cluster", "200"): 1,
        ("PUT", "resource", "200"): 1,
        ("PATCH", "resource", "200"): 1,
        ("APPLY", "resource", "201"): 1,
        ("DELETE", "resource", "200"): 1,
        ("DELETE", "namespace", "200"): 1,
        ("WATCH", "namespace", "200"): 1,
    }

    def more() -> dict[tuple[str, str, str], int]:
        now = counted(api, "limitranges")
        return {key: count - before.get(key, 0) for key, count in now.items() if count != before.get(key, 0)}

    assert eventually(lambda: more() if ("WATCH", "namespace", "200") in more() else None, "the watch is over") == {
        **wanted
    }


def test_watches_whose_clients_hang_up_are_no_failures(api: ServerApi, maps: str) -> None:
    def watches() -> dict[str, int]:
        return {code: count for (verb, _, code), count in counted(api, "configmaps").items() if verb == "WATCH"}

    before = watches()
    made = api.create(maps, config_map("a"))
    api.delete(f"{maps}/a")
    for _ in range(3):
        api.watch(f"{maps}?watch=1&resourceVersion={made.version}", 1)
    eventually(lambda: watches().get("200", 0) >= before.get("200", 0) + 3, "they have been counted")
    assert {code: count for code, count in watches().items() if code != "200"} == {
        code: count for code, count in before.items() if code != "200"
    }
