"""Two grids compared, cell by cell, from made-up rounds."""

from pathlib import Path

import pytest
from command_line import command
from grid_runs import made_up

import stopwav
from stopwav import StopwavError
from stopwav.record import Record
from stopwav.studies.diff.gate import calibrate


def grid_of(folder: Path, factor: float, **spec: object) -> Record:
    """Rounds that differ by 1 %, times a factor."""
    sizes = {"durations": [1, 2], "batch_sizes": [1], **spec}
    return made_up(folder, lambda cell, index: factor * cell.audio_s * (1 + 0.01 * index), rounds=5, **sizes)


def test_a_slower_run_is_found_cell_by_cell(tmp_path: Path) -> None:
    before, after = grid_of(tmp_path, 1.0), grid_of(tmp_path, 1.5)
    found = stopwav.diff(before, after)
    assert [item.name for item in found.items] == ["made-up 1 s × 1", "made-up 2 s × 1"]
    for item in found.items:
        rtf, peak = item.changes
        assert (rtf.metric, rtf.verdict, rtf.value) == ("rtf", "slower", pytest.approx(1.5))
        assert (peak.metric, peak.verdict) == ("peak_host_bytes", "same")
    assert command("gate", before.path, after.path).code == 3
    assert command("gate", before.path, before.path).code == 0


def test_a_cell_that_is_lost_is_missing(tmp_path: Path) -> None:
    before = grid_of(tmp_path, 1.0)
    after = made_up(
        tmp_path, lambda cell, index: "oom" if cell.duration_s == 2 else 1.0, durations=[1, 2], batch_sizes=[1]
    )
    assert stopwav.diff(before, after).only_a == ("made-up 2 s × 1",)
    assert "2 s × 1" in command("diff", before.path, after.path).stdout
    assert [one.condition for one in stopwav.gate(before, after, fail_on=["missing"]).failures] == ["missing"]


def test_what_cannot_be_compared_is_refused(tmp_path: Path) -> None:
    speech, noise = grid_of(tmp_path, 1.0), grid_of(tmp_path, 1.0, audio="noise")
    with pytest.raises(StopwavError, match="other corpus"):
        stopwav.diff(speech, noise)
    assert stopwav.diff(speech, noise, force=True).forced
    with pytest.raises(StopwavError, match=r"other device of made-up 1 s × 1 \(cpu against cuda\)"):
        stopwav.diff(speech, grid_of(tmp_path, 1.0, device="cuda"))
    with pytest.raises(StopwavError, match="no measured cell in common"):
        stopwav.diff(speech, grid_of(tmp_path, 1.0, durations=[3]))
    latency = Path(__file__).parent.parent.parent / "data" / "latency-real.jsonl"
    with pytest.raises(StopwavError, match="same study"):
        stopwav.diff(speech, latency)
    with pytest.raises(StopwavError, match="other corpus"):
        calibrate([speech, noise, grid_of(tmp_path, 1.0)])
