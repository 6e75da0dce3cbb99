"""The pytest plugin in sessions of its own, with a study that only counts, and with xdist."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from stopwav.testing.alone import turn

TESTS = Path(__file__).parent.parent

MEASURING = '''
import time
from pathlib import Path
import pytest

def took_part(name, seconds=0.1):
    """Note when a test ran."""
    start_s = time.time()
    time.sleep(seconds)
    with open("times.txt", "a") as file:
        file.write(f"{name} {start_s} {time.time()}\\n")

def test_holds(stopwav):
    took_part("alone")
    run = stopwav.counting(["sum", "loop"], rounds=5)
    stopwav.require(run, "count_time < 10 of sum", "count_time < 20s")

def test_fails(stopwav):
    took_part("alone")
    result, *_ = stopwav.results(stopwav.counting(["sum"], rounds=5))
    stopwav.require(result, "count_time < 0.0001us")

@pytest.fixture(scope="module")
def measured(stopwav, tmp_path_factory):
    took_part("alone")
    return stopwav.counting(["loop"], rounds=2, save=tmp_path_factory.mktemp("elsewhere"))

def test_through_a_fixture(measured):
    took_part("alone")
    assert measured.complete

def test_a_worker_dies_while_it_is_alone(stopwav):
    import os
    os._exit(1)
'''

ORDINARY = """
import pytest
from test_measuring import took_part

@pytest.mark.parametrize("number", range(4))
def test_ordinary(number):
    took_part("beside")
"""


def session(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in a folder, with the study that counts on the path."""
    environment = {**os.environ, "PYTHONPATH": f"{TESTS}{os.pathsep}{TESTS / 'toy_study'}", "NO_COLOR": "1"}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "test_measuring.py").write_text(MEASURING)
    (tmp_path / "test_ordinary.py").write_text(ORDINARY)
    # As in the tests of this project: no run waits to see what other processes do.
    (tmp_path / "conftest.py").write_text("from stopwav.measure import other_work\nother_work.WINDOW_S = 0.0\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\nstopwav_save = measured\n")
    return tmp_path


def test_under_xdist_a_test_that_measures_runs_alone(project: Path) -> None:
    done = session(project, "-n", "2", "--junitxml", "out.xml")
    assert done.returncode == 1, done.stdout
    assert "2 failed, 6 passed" in done.stdout
    assert "crashed while running 'test_measuring.py::test_a_worker_dies_while_it_is_alone'" in done.stdout
    times = [line.split() for line in (project / "times.txt").read_text().splitlines()]
    spans = [(name, float(start), float(end)) for name, start, end in times]
    assert [name for name, _, _ in spans].count("alone") == 4
    for name, start, end in spans:
        beside = [other for other in spans if other != (name, start, end) and other[1] < end and start < other[2]]
        assert not beside or name == "beside", (name, beside)
        assert not [other for other in beside if other[0] == "alone"]
    # The failure explains itself, and the end of the session lists runs and conditions of every worker.
    assert "RequirementError: 1 of 1 conditions is not known to hold" in done.stdout
    assert "fails: count_time < 0.0001us of sum: " in done.stdout
    listed = done.stdout[done.stdout.index("= stopwav =") :]
    assert "test_measuring.py::test_holds\n  counting run: " in listed
    assert "  holds: count_time < 20s of loop: " in listed
    assert len(list((project / "measured").glob("counting-*.jsonl"))) == 2
    assert "elsewhere" in listed
    assert "counting run: " in (project / "out.xml").read_text()


def test_without_xdist_and_with_a_folder_of_ones_own(project: Path) -> None:
    done = session(project, "-p", "no:xdist", "--stopwav-save", "own", "-k", "holds or fixture")
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout
    (run,) = (project / "own").glob("counting-*.jsonl")
    assert f"counting run: {run}" in done.stdout
    assert json.loads(run.read_text().splitlines()[0])["study"] == "counting"


def test_a_session_that_measures_nothing_pays_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_plain.py").write_text(
        "import sys\n"
        "SLOW = {'torch', 'numpy', 'pydantic', 'rich', 'typer', 'stopwav.record', 'stopwav.studies'}\n"
        "def test_plain():\n"
        "    assert 'stopwav.testing.plugin' in sys.modules\n"
        "    assert not SLOW & set(sys.modules)\n"
    )
    done = session(tmp_path)
    assert done.returncode == 0, done.stdout
    assert "= stopwav =" not in done.stdout
    assert not (tmp_path / "stopwav-runs").exists()


def test_tests_that_measure_nothing_run_beside_each_other(tmp_path: Path) -> None:
    met = threading.Barrier(3, timeout=20)

    def run() -> None:
        with turn(tmp_path, alone=False):
            met.wait()

    others = [threading.Thread(target=run) for _ in range(2)]
    for other in others:
        other.start()
    run()
    for other in others:
        other.join()


def test_one_that_waits_to_be_alone_is_not_passed_by_those_that_come_later(tmp_path: Path) -> None:
    order: list[str] = []
    inside, leave = threading.Event(), threading.Event()

    def first() -> None:
        with turn(tmp_path, alone=False):
            inside.set()
            assert leave.wait(20)

    def take(name: str, alone: bool) -> threading.Thread:
        def run() -> None:
            with turn(tmp_path, alone=alone):
                order.append(name)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join(0.3)
        return thread

    beside = threading.Thread(target=first)
    beside.start()
    assert inside.wait(20)
    measuring = take("alone", alone=True)
    later = take("later", alone=False)
    assert order == []
    leave.set()
    for thread in (beside, measuring, later):
        thread.join(20)
    assert order == ["alone", "later"]
