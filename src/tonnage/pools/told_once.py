"""Problems are told when they come and when they are gone, not every time somebody looks."""

from __future__ import annotations

from collections.abc import Iterable

from tonnage import logs

MOST_TOLD = 20
"""Lines for one thing at a time; the rest is a number."""

_log = logs.logger("tonnage.pools")


class ToldOnce:
    """What is wrong with each of several things, as it was last told."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, ...]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._known.values()))

    def tell(self, thing: str, problems: Iterable[str]) -> None:
        """What is wrong with a thing now; nothing: it is all right."""
        now, before = tuple(dict.fromkeys(problems)), self._known.get(thing, ())
        news = [each for each in now if each not in before]
        for problem in news[:MOST_TOLD]:
            _log.warning(problem, object=thing)
        if len(news) > MOST_TOLD:
            _log.warning("More of the same", object=thing, problems=len(news) - MOST_TOLD)
        if before and not now:
            _log.info("It is all right again", object=thing)
        if now:
            self._known[thing] = now
        else:
            self._known.pop(thing, None)

    def forget(self, thing: str) -> None:
        self._known.pop(thing, None)
