"""Requests to the API server as a program sees them, under client-go's names.

requests = RestClientMetrics(registry)
Clients.connect(connection, on_request=requests.of(connection.cluster.server), …)
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry, Counter, Histogram

from tonnage.client.calls import OnRequest

_BUCKETS_S: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
_METHODS: Final = {"create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE"}
_NO_ANSWER: Final = "<error>"
"""client-go's word for a request that was not answered."""


class RestClientMetrics:
    """The metrics of one program, whatever number of servers it talks to."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "rest_client_requests",
            "Requests to an API server, tries included, by the code of the answer; <error> where none came.",
            ("code", "method", "host"),
            registry=registry,
        )
        self._seconds = Histogram(
            "rest_client_request_duration_seconds",
            "From a request to an API server to its answer; of a watch, to its first byte. What a limit of our own "
            "holds back is not counted.",
            ("verb", "host"),
            buckets=_BUCKETS_S,
            registry=registry,
        )

    def of(self, server: str) -> OnRequest:
        """What a client of this server is to be given as `on_request`."""
        host = urlsplit(server).netloc or server

        @lru_cache(maxsize=256)
        def children(method: str, code: int) -> tuple[Counter, Histogram]:
            told = str(code) if code else _NO_ANSWER
            return self._requests.labels(told, method, host), self._seconds.labels(method, host)

        def count(verb: str, resource: str, code: int, seconds: float) -> None:
            counter, histogram = children(_METHODS.get(verb, "GET"), code)
            counter.inc()
            histogram.observe(seconds)

        return count
