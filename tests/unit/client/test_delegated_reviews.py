"""Questions about others: asked again when it may help, remembered for a while, and never kept as tokens."""

from __future__ import annotations

import asyncio
import random

import pytest
from scripted_reviews import ScriptedServer, answer

from support.virtual_clock import VirtualClock
from tonnage.client.delegated_access import OpenPaths
from tonnage.client.delegated_access.access import DelegatedAuthorizer, TokenAuthenticator
from tonnage.client.delegated_access.reviews import ExpiringCache, ReviewFailed, Reviews
from tonnage.client.errors import Disconnected
from tonnage.errors import TonnageError
from tonnage.objects.users import NOBODY, User, bearer_token

PROM = {"username": "prom", "uid": "u1", "groups": ["system:authenticated"], "extra": {"scope": ["a"]}}
CUT = Disconnected("POST", "https://scripted", "cut", in_doubt=True)


class ReviewsRig:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.server = ScriptedServer()
        self.server.users["good"] = PROM
        self.server.readers["prom"] = {"/metrics"}
        self.reviews = Reviews(self.server, clock=self.clock, rng=random.Random(1))
        self.tokens = TokenAuthenticator(self.reviews, ttl_s=10.0, clock=self.clock)
        self.authorizer = DelegatedAuthorizer(self.reviews, allow_ttl_s=10.0, deny_ttl_s=5.0, clock=self.clock)


async def test_a_token_review_tells_the_user():
    rig = ReviewsRig()
    assert await rig.reviews.user_of("good") == User("prom", "u1", ("system:authenticated",), {"scope": ("a",)})
    assert await rig.reviews.user_of("bad") is None
    assert rig.server.asked[0]["spec"] == {"token": "good"}


@pytest.mark.parametrize(
    "trouble",
    [CUT, answer(500, {}), answer(504, {}), answer(429, {}), answer(503, {}, retry_after="1")],
)
async def test_what_is_likely_to_pass_is_asked_again(trouble):
    rig = ReviewsRig()
    rig.server.next_answers = [trouble, trouble]
    asking = asyncio.create_task(rig.reviews.user_of("good"))
    await rig.clock.run_for(5.0)
    assert (await asking) is not None
    assert len(rig.server.asked) == 3


async def test_it_is_asked_five_times_and_not_more():
    rig = ReviewsRig()
    rig.server.next_answers = [answer(500, {"message": "etcd is slow"})] * 9
    asking = asyncio.create_task(rig.reviews.user_of("good"))
    await rig.clock.run_for(30.0)
    with pytest.raises(ReviewFailed, match="etcd is slow"):
        await asking
    assert len(rig.server.asked) == 5


@pytest.mark.parametrize(
    ("trouble", "told"),
    [
        (answer(403, {"message": "tokenreviews is forbidden"}), "tokenreviews is forbidden"),
        (answer(404, {}), "the answer is 404"),
        (answer(201, {"status": 7}), "the answer is not a review"),
    ],
)
async def test_a_refusal_is_told_at_once(trouble, told):
    rig = ReviewsRig()
    rig.server.next_answers = [trouble]
    with pytest.raises(ReviewFailed, match=told):
        await rig.reviews.user_of("good")
    assert len(rig.server.asked) == 1


async def test_a_server_that_is_away_is_not_waited_for():
    rig = ReviewsRig()
    rig.server.is_away = True
    with pytest.raises(ReviewFailed, match="connection refused"):
        await rig.reviews.user_of("good")


async def test_answers_about_tokens_count_for_a_while_good_or_bad():
    rig = ReviewsRig()
    for _ in range(3):
        assert (await rig.tokens.user_of("good")) is not None
        assert await rig.tokens.user_of("bad") is None
    assert len(rig.server.asked) == 2
    del rig.server.users["good"]
    await rig.clock.run_for(9.0)
    assert (await rig.tokens.user_of("good")) is not None
    await rig.clock.run_for(2.0)
    assert await rig.tokens.user_of("good") is None


async def test_failures_are_not_remembered_and_tokens_are_not_kept():
    rig = ReviewsRig()
    rig.server.is_away = True
    with pytest.raises(ReviewFailed):
        await rig.tokens.user_of("good")
    rig.server.is_away = False
    assert (await rig.tokens.user_of("good")) is not None
    assert b"good" not in next(iter(rig.tokens._known._entries))
    assert rig.tokens._asked == {}


async def test_requests_with_one_token_wait_for_one_question():
    rig = ReviewsRig()
    found = await asyncio.gather(*(rig.tokens.user_of("good") for _ in range(20)))
    assert len(rig.server.asked) == 1
    assert {each.name for each in found if each is not None} == {"prom"}


async def test_a_status_with_an_error_is_a_failure():
    rig = ReviewsRig()
    rig.server.next_answers = [answer(201, {"status": {"error": "[invalid bearer token]"}})]
    with pytest.raises(ReviewFailed, match="invalid bearer token"):
        await rig.tokens.user_of("x")
    assert await rig.tokens.user_of("x") is None
    assert len(rig.server.asked) == 2  # the failure was not taken for an answer


async def test_who_may_read_is_asked_with_path_and_verb_and_remembered():
    rig = ReviewsRig()
    user = User("prom", "u1", ("g",), {"scope": ("a",)})
    for _ in range(3):
        assert (await rig.authorizer.may(user, "get", "/metrics")).allowed
        assert not (await rig.authorizer.may(user, "put", "/metrics")).allowed
    assert len(rig.server.asked) == 2
    assert rig.server.asked[0]["spec"] == {
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
        "user": "prom",
        "uid": "u1",
        "groups": ["g"],
        "extra": {"scope": ["a"]},
    }
    rig.server.readers.clear()
    await rig.clock.run_for(11.0)
    assert not (await rig.authorizer.may(user, "get", "/metrics")).allowed
    rig.server.readers["prom"] = {"/metrics"}
    await rig.clock.run_for(6.0)  # a no counts for less long here
    assert (await rig.authorizer.may(user, "get", "/metrics")).allowed


async def test_administrators_are_not_asked_about():
    rig = ReviewsRig()
    assert (await rig.authorizer.may(User("root", groups=("system:masters",)), "get", "/x")).allowed
    assert rig.server.asked == []


async def test_both_yes_and_no_is_an_error():
    rig = ReviewsRig()
    rig.server.next_answers = [answer(201, {"status": {"allowed": True, "denied": True}})]
    with pytest.raises(ReviewFailed, match="both allow and deny"):
        await rig.authorizer.may(NOBODY, "get", "/metrics")


async def test_long_questions_are_not_kept():
    rig, long = ReviewsRig(), "/" + "x" * 20_000
    for path in ("/metrics", long):
        await rig.authorizer.may(NOBODY, "get", path)
        await rig.authorizer.may(NOBODY, "get", path)
    assert len(rig.server.asked) == 1 + 2


def test_a_cache_holds_so_many_and_forgets_who_was_asked_for_longest_ago():
    cache: ExpiringCache[str, int] = ExpiringCache(2, clock=VirtualClock())
    cache.put("a", 1, for_s=10)
    cache.put("b", 2, for_s=10)
    assert cache.get("a") == 1
    cache.put("c", 3, for_s=10)
    assert (cache.get("a"), cache.get("b"), cache.get("c"), len(cache)) == (1, None, 3, 2)
    cache.put("d", 4, for_s=0)
    assert cache.get("d") is None


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ("Bearer abc", "abc"),
        ("bearer abc", "abc"),
        ("  Bearer abc  ", "abc"),
        ("Bearer abc def", "abc"),
        ("Bearer  abc", ""),
        ("Bearer", ""),
        ("Basic abc", ""),
        ("", ""),
    ],
)
def test_a_token_is_read_as_upstream_does(header, token):
    assert bearer_token(header) == token


def test_open_paths_are_whole_unless_a_star_ends_them():
    paths = OpenPaths(("/healthz", "readyz", "/debug/*"))
    assert [paths.has(each) for each in ("/healthz", "/readyz", "/debug/x", "/debug", "/healthz/ping")] == [
        True,
        True,
        True,
        False,
        False,
    ]
    assert not OpenPaths(()).has("/healthz")
    with pytest.raises(TonnageError, match="only trailing"):
        OpenPaths(("/a*b",))
