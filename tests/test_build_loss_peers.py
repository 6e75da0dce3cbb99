"""The script that compiles other losses: what stops it is said in a line, before anything is downloaded or compiled."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from stopwav.losses.registry import BUILT_IN

SCRIPT = Path(__file__).parent.parent / "scripts" / "build_loss_peers.sh"
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="nvcc and GNU tools are Linux's")


def build(*arguments: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHON": sys.executable, "PATH": path or os.environ["PATH"]}
    return subprocess.run(["/bin/bash", SCRIPT, *arguments], capture_output=True, text=True, env=environment)


def test_help_is_the_head_of_the_file() -> None:
    done = build("--help")
    assert done.returncode == 0
    assert "--into DIR" in done.stdout
    assert "set -euo" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["warp-rnnt"], "warp-rnnt: give one of warp_rnnt, fast_rnnt, optimized_transducer"),
        (["--arch"], "--arch needs a value"),
        (["--arch", "sm_90"], "--arch sm_90: give one compute capability, as 9.0"),
        (["--arch", "9.0 8.0"], "--arch 9.0 8.0: give one"),
    ],
)
def test_a_wrong_argument_is_an_error(arguments: list[str], message: str) -> None:
    done = build(*arguments)
    assert done.returncode == 1
    assert done.stderr.startswith(f"build_loss_peers: {message}")


def test_a_tool_that_is_missing_is_named(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    for tool in ("env", "bash", "nproc", "sed", "realpath"):
        found = subprocess.run(["which", tool], capture_output=True, text=True).stdout.strip()
        (tmp_path / tool).symlink_to(found)
    done = build("--arch", "9.0", path=str(tmp_path))
    assert done.returncode == 1
    assert re.fullmatch(
        r"build_loss_peers: (\S+ has no .*: .* -m pip install .*|\S+ is not on the PATH)\n", done.stderr
    )


def test_it_builds_what_the_list_of_losses_says_it_does() -> None:
    text = SCRIPT.read_text()
    packages = {name for listed in BUILT_IN if SCRIPT.name in listed.install for name in listed.packages} - {"k2"}
    assert packages == set(re.findall(r"\[(\w+)\]=\$PYPI", text)) == set(re.findall(r"\[(\w+)\]=[0-9a-f]{64}", text))
