"""The table at exit, what is imported for it, and memory, each in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from stopwav.measure.memory import EXACT, host_peak_method

SRC = str(Path(__file__).resolve().parents[2] / "src")
MIB = 2**20


def run(code: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    """What a script prints."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([SRC, *filter(None, sys.path)]), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == status, done.stderr
    return done


WORK = """
import sys
import stopwav

@stopwav.profile
def decode(fails=False):
    with stopwav.stage("features"):
        pass
    if fails:
        raise ValueError("its own words")
"""


def test_the_table_goes_to_standard_error_at_exit_and_torch_is_not_imported() -> None:
    done = run(WORK + "for _ in range(6): decode()\nprint('torch' in sys.modules, 'numpy' in sys.modules)")
    assert done.stdout == "False False\n"
    (line,) = [line for line in done.stderr.splitlines() if line.split()[:1] == ["decode"]]
    assert line.split()[1] == "6"
    assert any(line.split()[:2] == ["features", "6"] for line in done.stderr.splitlines())
    assert "decode: P95 needs 72 events, has 6" in done.stderr


def test_the_table_comes_also_when_the_script_dies() -> None:
    done = run(WORK + "decode(fails=True)", status=1)
    assert "ValueError: its own words" in done.stderr
    assert "decode: 1 raised" in done.stderr


def test_nothing_is_printed_for_what_never_ran_or_is_not_to_be_reported() -> None:
    assert run(WORK).stderr == ""
    assert run(WORK.replace("@stopwav.profile", "@stopwav.profile(report=False)") + "decode()").stderr == ""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_does_not_print_its_parents_table() -> None:
    done = run(WORK + "import os\ndecode()\nif os.fork():\n    os.wait()")
    assert done.stderr.count("stopwav profile") == 1


def test_steps_and_traces_need_no_torch(tmp_path: Path) -> None:
    events = [{"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 0, "dur": 5}]
    (tmp_path / "one.json").write_text(json.dumps({"traceEvents": events}))
    done = run(
        f"""
        import sys, stopwav
        sys.modules["torch"] = None  # importing it raises
        with stopwav.profile_steps(wait=0, warmup=1, active=2, repeat=1) as steps:
            for batch in steps.over(range(4)):
                with stopwav.stage("forward"):
                    pass
        found = stopwav.analyse({str(tmp_path)!r})
        print(len(steps.active), found.operators[0].name)
        """
    )
    assert done.stdout == "2 a\n"
    assert "upper control limit" in done.stderr
    assert "forward" in done.stderr


@pytest.mark.skipif(host_peak_method() != EXACT, reason="the peak mark cannot be reset on this machine")
def test_a_block_of_known_size_comes_back_within_two_percent() -> None:
    done = run(
        """
        import json
        import numpy as np
        import stopwav

        @stopwav.profile(report=False)
        def inner():
            np.ones(256 * 2**20, dtype=np.uint8)

        @stopwav.profile(report=False)
        def outer():
            np.ones(384 * 2**20, dtype=np.uint8)
            inner()

        outer()
        inner()
        peaks = [stopwav.profiles()[name].host for name in ("inner", "outer")]
        print(json.dumps([[peak.over_baseline_bytes, peak.exact] for peak in peaks]))
        """
    )
    # Each block is let go at once: the outer peak is its own, and the inner call does not hide it.
    assert json.loads(done.stdout) == [
        [pytest.approx(256 * MIB, rel=0.02), True],
        [pytest.approx(384 * MIB, rel=0.02), True],
    ]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_does_not_wait_for_a_thread_that_it_does_not_have() -> None:
    done = run(
        WORK
        + """
import os, signal, threading
from stopwav.profiling import calls, peaks, profile
held, over = threading.Event(), threading.Event()
def hold():
    with calls._registry.lock, peaks.HOST._lock, profile._lock:
        held.set()
        over.wait()
thread = threading.Thread(target=hold)
thread.start()
held.wait()
child = os.fork()
if not child:
    signal.alarm(500)  # only if it hangs: the machine may be suspended for minutes
    decode()
    with stopwav.profile("block", report=False) as found:
        pass
    os._exit(found.calls)
over.set()
thread.join()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    )
    assert done.stdout == "1\n"


@pytest.mark.parametrize("extra", ["", "import stopwav\nwith stopwav.profile('block'): pass\n"])
def test_ctrl_c_ends_a_script_as_it_does_without_a_table(extra: str) -> None:
    done = run(extra + "import os, signal\nos.kill(os.getpid(), signal.SIGINT)", status=-signal.SIGINT)
    assert done.stderr.rstrip().endswith("KeyboardInterrupt") is not bool(extra)


@pytest.mark.parametrize(
    ("stderr", "left"),
    [
        ("io.TextIOWrapper(io.FileIO(2, 'w'), encoding='ascii')", "stopwav profile_steps"),
        ("io.TextIOWrapper(gone, encoding='utf-8')", ""),
        ("closed", ""),
        ("None", ""),
    ],
)
def test_a_table_that_cannot_be_written_ends_no_program(stderr: str, left: str) -> None:
    done = run(
        f"""
        import io, os, sys, stopwav
        reader, writer = os.pipe()
        os.close(reader)
        gone, closed = io.FileIO(writer, "w"), io.StringIO()
        closed.close()
        sys.stderr = {stderr}
        with stopwav.profile_steps(wait=0, warmup=0, active=1) as steps:
            steps.step()
        print("went on")
        sys.stdout.flush()
        os._exit(0)
        """
    )
    assert done.stdout == "went on\n"
    assert left in done.stderr
