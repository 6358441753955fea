"""/healthz, /livez and /readyz, with `?verbose`, `?exclude=` and a path per check, as upstream.

- `ping`, `log` never fail: the answer is the check.
- `etcd` (upstream's name, for probes that know it) and `storage` fail /readyz and /healthz while the store cannot
  write; they fail /livez if a restart could help, which it cannot on a full disk.
- `shutdown` fails /readyz once the server is stopping.
- `storage-integrity` reports damaged rows. It fails only on its own path: one damaged row must not make the whole
  server unready.

Only authenticated clients see the reasons, as upstream.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tonnage.apiserver.requests import Response
from tonnage.store.store import Store

KINDS = ("healthz", "livez", "readyz")
MAX_TOLD = 20
"""Damaged rows in a listing; the log and `--check` name more."""


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the listing. `problem` is empty if all is well; only a check that `decides` fails the whole."""

    name: str
    problem: str = ""
    decides: bool = True


async def checks_of(kind: str, store: Store, *, stopping: bool) -> list[Check]:
    """The checks of `healthz`, `livez` or `readyz`, in the order of the listing."""
    trouble = await store.find_trouble()
    problem = ""
    if trouble is not None and (kind != "livez" or store.is_for_restart(trouble)):
        problem = f"{trouble.message}; {trouble.hint}"
    checks = [Check("ping"), Check("log"), Check("etcd", problem), Check("storage", problem)]
    if kind == "readyz":
        checks.append(Check("shutdown", "the server is stopping" if stopping else ""))
    return [*checks, Check("storage-integrity", _damage(store), decides=False)]


def answer(
    kind: str, asked: str, checks: list[Check], *, verbose: bool, exclude: Collection[str], known: bool
) -> Response:
    """The answer to a probe; `asked` is one check, or empty for all. `known`: the client may read reasons."""
    if asked:
        chosen = [check for check in checks if check.name == asked]
        if not chosen:
            return Response(b"404 page not found\n", 404, "text/plain; charset=utf-8")
        good = not chosen[0].problem
    else:
        chosen = checks
        good = not any(check.problem for check in checks if check.decides and check.name not in exclude)
    text = "ok"
    if verbose or not good:
        lines = [_line(check, check.name in exclude and not asked, known) for check in chosen]
        text = "\n".join([*lines, f"{kind} check {'passed' if good else 'failed'}"]) + "\n"
    return Response(text.encode(), 200 if good else 500, "text/plain; charset=utf-8")


def _line(check: Check, excluded: bool, known: bool) -> str:
    reason = check.problem if known else "reason withheld"
    if excluded:
        return f"[-]{check.name} excluded: {reason}" if check.problem else f"[+]{check.name} excluded: ok"
    return f"[-]{check.name} failed: {reason}" if check.problem else f"[+]{check.name} ok"


def _damage(store: Store) -> str:
    health = store.health
    if not health.damage_count:
        return ""
    told = "; ".join(str(damage) for damage in health.damage[:MAX_TOLD])
    more = f"; and {health.damage_count - MAX_TOLD} more" if health.damage_count > MAX_TOLD else ""
    return f"{health.damage_count} damaged: {told}{more}"
