"""Cores that other processes use, against a made /proc/stat, our own processes, and a process that is not ours."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fake_machine import tree

from fake_clock import FakeClock
from stopwav.measure.other_work import OtherWork, busy_cautions

TICKS = os.sysconf("SC_CLK_TCK")
SPIN = "import time\nend = time.process_time() + {0}\nwhile time.process_time() < end: pass\n"


def stat(root: Path, busy_s: float, idle_s: float = 100.0, stolen_s: float = 0.0) -> Path:
    """Write a /proc/stat whose cores have worked so long, mostly in programs and a little in the system."""
    user, system = round(0.8 * busy_s * TICKS), round(0.2 * busy_s * TICKS)
    fields = (user, 0, system, idle_s * TICKS, 7, 0, 0, stolen_s * TICKS, user, 0)
    first = " ".join(f"{field:.0f}" for field in fields)
    return tree(root, {"proc/stat": f"cpu  {first}\ncpu0 1 2 3 4 5 6 7 8 9 10\n"})


class Watched:
    """A watch on a made machine whose clock and counters a test moves."""

    def __init__(self, root: Path) -> None:
        self.root, self.clock = root, FakeClock()
        self.watch = OtherWork.start(stat(root, 1000.0), lambda: self.clock.now_ns() / 1e9)

    def cores_after(self, elapsed_s: float, busy_s: float, **other: float) -> float | None:
        self.clock.advance(elapsed_s)
        stat(self.root, 1000.0 + busy_s, **other)
        return self.watch.cores()


def test_all_busy_time_that_is_not_ours_is_that_of_others(tmp_path: Path) -> None:
    # 90 seconds of work in 100: this test itself takes a fraction of one.
    assert Watched(tmp_path).cores_after(100, 90) == pytest.approx(0.9, abs=0.01)


def test_idle_and_stolen_time_are_not_work_of_processes_here(tmp_path: Path) -> None:
    assert Watched(tmp_path).cores_after(100, 0, idle_s=300, stolen_s=50) == 0.0


def test_never_less_than_none_nor_more_than_all_cores(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    assert watched.cores_after(100, -5) == 0.0
    assert watched.cores_after(1, 1e6) == os.cpu_count()


def test_it_counts_from_its_start_whenever_it_is_asked(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    assert watched.cores_after(10, 5) == pytest.approx(0.5, abs=0.02)
    assert watched.cores_after(10, 5) == pytest.approx(0.25, abs=0.02)


def test_our_own_work_is_subtracted_also_of_processes_that_have_ended(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    exec(SPIN.format(0.2))
    # It starts one itself, and waits for it.
    inner = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {SPIN.format(0.2)!r}])\n"
    subprocess.run([sys.executable, "-c", inner + SPIN.format(0.2)], check=True)
    # 0.6 s and the start of two interpreters are ours: of 3 s in 10, others have the rest.
    others = watched.cores_after(10, 3)
    assert others is not None
    assert 0.1 < others <= 0.242


def test_our_own_work_is_subtracted_while_its_processes_live(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    inner = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {SPIN.format(0.2)!r}])\n"
    code = inner + SPIN.format(0.2) + "print('done', flush=True)\ninput()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        living = watched.cores_after(10, 3)
        child.communicate(b"\n")
    # The same when it has ended: nothing is counted twice, and nothing lost.
    ended = watched.watch.cores()
    assert living is not None
    assert ended is not None
    assert 0.1 < living <= 0.262
    assert ended == pytest.approx(living, abs=0.02)


def test_a_process_that_is_not_ours_is_seen_on_this_machine() -> None:
    watch = OtherWork.start()
    # The shell ends at once, and its child is nobody's of ours.
    subprocess.run(["sh", "-c", f'"{sys.executable}" -c "$1" &', "sh", SPIN.format(0.4)], check=True)
    time.sleep(0.6)
    cores = watch.cores()
    if cores is None:
        pytest.skip("this system does not count the time of its cores")
    assert cores > 0.2


@pytest.mark.parametrize("content", [None, "", "cpu  0 0 0 0 0 0 0 0 0 0", "intr 5", "cpu 1 2"])
def test_a_system_that_does_not_count_gives_nothing(tmp_path: Path, content: str | None) -> None:
    root = tmp_path if content is None else tree(tmp_path, {"proc/stat": content})
    clock = FakeClock()
    watch = OtherWork.start(root, lambda: clock.now_ns() / 1e9)
    clock.advance(10)
    assert watch.cores() is None


def test_too_short_a_time_gives_nothing(tmp_path: Path) -> None:
    assert Watched(tmp_path).cores_after(0.05, 0.05) is None


def test_a_caution_says_when_others_worked() -> None:
    cores = os.cpu_count() or 1
    [caution] = busy_cautions(0.45 * cores, "during round 2")
    assert caution.code == "busy-machine"
    assert f"used {0.45 * cores:.1f} of {cores} cores during round 2: stop other processes" in caution.message
