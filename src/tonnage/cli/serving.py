"""TLS of a program's own endpoints: a certificate that it makes for itself, for one run or kept in a folder."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from tonnage.clock import SystemClock
from tonnage.serving_certificate import ServingCertificate

F = TypeVar("F", bound=Callable[..., Any])


def cert_dir_option(command: F) -> F:
    return click.option(
        "--cert-dir",
        type=click.Path(path_type=Path, file_okay=False),
        help="Where the serving certificate is kept; ca.crt in it is whom to trust.  [default: made for each run]",
    )(command)


@contextmanager
def own_tls(cert_dir: Path | None, host: str) -> Iterator[ServingCertificate]:
    """TLS with a certificate that the program signs itself, as Kubernetes' programs do when they are given none."""
    names = (host, "localhost")
    if cert_dir is not None:
        yield ServingCertificate(cert_dir, names, SystemClock())
        return
    with tempfile.TemporaryDirectory() as folder:
        yield ServingCertificate(Path(folder), names, SystemClock())
