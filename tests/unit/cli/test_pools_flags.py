"""`tonnage pools`: what its flags say, and which of them are wrong together."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from tonnage.cli.pools import pools


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        ([], "name the place of the pools with --source"),
        (["--driver", "csi.example"], "name the place of the pools with --source"),
        (["--source", "ceph"], "'ceph' is not one of"),
        (["--source", "nodes", "--driver", "d"], "--source nodes needs one of --annotation and --label"),
        (["--source", "nodes", "--driver", "d", "--annotation", "a", "--label", "b"], "needs one of"),
        (["--source", "nodes", "--annotation", "a"], "--source nodes works with any driver: name yours with --driver"),
        (
            ["--source", "openebs-lvm", "--annotation", "a"],
            "--annotation belongs to --source nodes, not to openebs-lvm",
        ),
        (["--source", "topolvm", "--command", "x"], "--command belongs to --source command, not to topolvm"),
        (["--source", "command", "--driver", "d", "--node-name", "n"], "--source command needs --command"),
        (["--source", "command", "--driver", "d", "--command", "x"], "needs the node's name"),
        (["--source", "command", "--driver", "d", "--node-name", "n", "--command", "'x"], "cannot be split into words"),
        (["--source", "topolvm", "--keep-free", "much"], '"much" is not a part of a pool'),
        (["--source", "topolvm", "--pool-policy", "worst"], "'worst' is not one of"),
        (["--source", "topolvm", "--volumes"], "No such option"),
    ],
)
def test_flags_that_make_no_sense_are_wrong_usage(flags: list[str], problem: str) -> None:
    result = CliRunner(env={"NODE_NAME": ""}).invoke(pools, flags)
    assert result.exit_code == 2
    assert problem in result.output
