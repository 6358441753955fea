"""Token files: who holds which token, and what is wrong with a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tonnage.apiserver.authentication.authenticator import ADMIN, read_tokens
from tonnage.errors import TonnageError
from tonnage.objects.users import User


def users(folder: Path, content: str | bytes) -> dict[str, User]:
    path = folder / "tokens.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    path.chmod(0o600)
    return read_tokens(path)


def test_upstreams_form_and_bare_tokens(tmp_path: Path) -> None:
    content = '# who is who\n\none,jo,u-1\ntwo,kim,u-2,"dev,ops"\nthree,lee,,solo\n  four  \n"fi,ve",mo,u-5\n'
    assert users(tmp_path, content) == {
        "one": User("jo", "u-1"),
        "two": User("kim", "u-2", ("dev", "ops")),
        "three": User("lee", "", ("solo",)),
        "four": ADMIN,
        "fi,ve": User("mo", "u-5"),
    }


def test_of_a_token_that_comes_twice_the_last_one_counts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert users(tmp_path, "one,jo,1\none,kim,2\n,nobody,3\n") == {"one": User("kim", "2")}
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]
    assert "one" not in [str(arg) for record in caplog.records for arg in record.args or ()]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "holds no token"),
        ("# nothing\n\n", "holds no token"),
        (",jo,1\n", "holds no token"),
        ("one,jo\n", "has 2 columns in entry 1, and a user needs three"),
        ('one,"jo"x,1\n', "cannot be read"),
        (b"\xff\xfe\n", "is not text"),
    ],
)
def test_what_is_wrong_with_a_file_is_told_with_the_remedy(tmp_path: Path, content: str | bytes, told: str) -> None:
    with pytest.raises(TonnageError, match=told) as refused:
        users(tmp_path, content)
    assert refused.value.hint == 'write one token a line into it, or token,user,uid,"group1,group2"'
