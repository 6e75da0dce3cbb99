"""A step of DistributedDataParallel under torchrun: every process is measured, and waiting stands apart."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from step_jobs import rows_of

from stopwav.record import Record
from stopwav.studies.step.results import step_results


def test_two_processes_are_gathered_and_waiting_stands_apart(tmp_path: Path) -> None:
    script = Path(__file__).parent / "ddp_steps.py"
    run = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", script, tmp_path],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert run.returncode == 0, run.stderr[-2000:]
    found = json.loads(run.stdout.strip().splitlines()[-1])
    names = [result["name"] for result in found]
    assert names[-2:] == ["rank 0", "rank 1"]
    assert {"model", "0", "2", "(communication)"} <= set(names)
    (path,) = tmp_path.glob("*.jsonl")
    results = step_results(Record.read(path))
    rows = rows_of(results)
    assert rows["0"].metrics["backward_time"].value > 0
    assert rows["(communication)"].metrics["share"].value > 0
    single = [row for row in rows.values() if row.params["kind"] != "layers"]
    assert sum(row.metrics["self_share"].value for row in single) == pytest.approx(1)
    for rank in results[-2:]:
        assert rank.metrics["step_time"].value > 0
        assert 0 < rank.metrics["communication_share"].value < 1
