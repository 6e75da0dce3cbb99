"""Jobs by submitit: those of its local executor, which are processes of this machine, measure as those of Slurm do."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest
from small_studies import SmallStudy, planned

import stopwav
from stopwav.errors import StopwavError
from stopwav.studies.launch.destination import Destination, parse_destination
from stopwav.studies.launch.slurm_cluster import SlurmCluster

submitit = pytest.importorskip("submitit", reason="submitit is not installed: pip install 'stopwav[slurm]'")


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs leave their scripts and logs in the current folder."""
    monkeypatch.chdir(tmp_path)


def test_a_job_measures_what_is_measured_here(tmp_path: Path) -> None:
    small = SmallStudy("grid", tmp_path)
    local, remote = small.run(tmp_path / "local"), small.run(tmp_path / "job", on="slurm:local")
    assert remote.complete
    assert planned(remote) == planned(local)
    assert {piece.status for piece in remote.pieces} == {"ok"}
    assert len({piece.machine for piece in remote.pieces}) == 1
    assert list((tmp_path / ".stopwav-jobs").iterdir())


# Ends the job, as a node does that is switched off, and not only its own process.
KILLS_ITS_JOB = """
import os, signal
from pathlib import Path
from stopwav.engines.fake import Fake
class Deadly(Fake):
    def transcribe(self, batch):
        mark = Path(__file__).with_name("killed")
        if len(batch) == 2 and not mark.exists():
            mark.touch()
            os.kill(os.getppid(), signal.SIGKILL)
            signal.pause()
        return super().transcribe(batch)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the process of an engine ends with the job on Linux alone")
def test_a_job_that_is_killed_is_followed_by_another(tmp_path: Path) -> None:
    (tmp_path / "deadly.py").write_text(KILLS_ITS_JOB)
    small = SmallStudy("grid", tmp_path)
    record = small.run(tmp_path / "runs", on="slurm:local", engines=["deadly.py:Deadly"])
    assert (tmp_path / "killed").exists()
    assert record.complete
    assert [piece.status for piece in record.pieces] == ["ok"] * 4


def test_jobs_end_with_the_command(tmp_path: Path) -> None:
    cluster = SlurmCluster(Destination("slurm", "local"))
    (reach,) = cluster.every_machine()
    link = reach()
    from stopwav.studies.launch.host import pack, unpack

    job = unpack(link.send(pack("ask", os.getpid, ()), 30.0))
    os.kill(job, 0)  # it is there
    link.close()
    cluster.close()
    for _ in range(100):
        try:
            os.kill(job, 0)
        except ProcessLookupError:
            return
        signal.sigtimedwait([signal.SIGCHLD], 0.1)
    raise AssertionError(f"job {job} outlived its command")


def test_what_slurm_is_asked_for() -> None:
    from stopwav.studies.launch.slurm_cluster import _parameters

    parameters = _parameters(parse_destination("slurm", "gpu=h200,partition=fast,cpu=8,licenses=matlab:1"), submitit)
    assert parameters["gres"] == "gpu:h200:1"
    assert (parameters["partition"], parameters["cpus_per_task"]) == ("fast", 8)
    assert parameters["additional_parameters"] == {"licenses": "matlab:1"}
    assert parameters["exclusive"] is True
    assert "exclusive" not in _parameters(parse_destination("slurm", None, shared=True), submitit)


def test_a_machine_without_slurm_is_an_error_with_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(StopwavError, match="--on slurm: this machine has no sbatch"):
        stopwav.grid("fake", durations=[0.1], batch_sizes=[1], rounds=1, save=tmp_path, on="slurm")
