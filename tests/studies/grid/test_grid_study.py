"""The grid on engines whose times and memory are known, and on made-up rounds whose numbers are worked out by hand."""

import math
import re
from pathlib import Path

import pytest
from command_line import command
from grid_runs import FAST, engine_file, made_up, run

import stopwav
from stopwav import StopwavError
from stopwav.measure.memory import EXACT, host_peak_method
from stopwav.record import Record, Result
from stopwav.studies.audio_input import make_audio
from stopwav.studies.grid.cell import GridCell
from stopwav.studies.grid.cells import cells_of, is_skipped, round_order
from stopwav.studies.grid.spec import GridSpec, device_of, engine_of


def by_place(record: Record) -> dict[tuple[float, int], Result]:
    return {
        (one.params["duration_s"], one.params["batch_size"]): one  # type: ignore[misc]
        for one in stopwav.results(record)
        if one.params["kind"] == "cell"
    }


def fits(record: Record, axis: str) -> list[Result]:
    return [one for one in stopwav.results(record) if one.params.get("axis") == axis]


def test_scripted_times_come_back_as_real_time_factors(tmp_path: Path) -> None:
    engine = "fake,batch_ms=10,second_ms=20,square_ms=5"
    record = run(engine, tmp_path, durations=[0.5, 1], batch_sizes=[1, 2])
    for (duration_s, size), cell in by_place(record).items():
        expected_s = (10 + size * (20 * duration_s + 5 * duration_s**2)) / 1e3
        assert cell.status == "ok"
        # Never shorter than the script; longer where the machine is busy with something else.
        assert cell.metrics["batch_time"].value is not None
        assert expected_s <= cell.metrics["batch_time"].value < 50 * expected_s
        assert cell.metrics["rtf"].value == cell.metrics["batch_time"].value / (size * duration_s)
        assert cell.metrics["rtfx"].value == pytest.approx(1 / cell.metrics["rtf"].value)  # type: ignore[operator]
        assert cell.metrics["batch_time"].note.startswith("within one process")
        assert cell.metrics["peak_allocated_bytes"].value is None
        assert cell.metrics["peak_allocated_bytes"].note == "no CUDA device"
        assert cell.metrics["device_rtf"].note == "no CUDA device"
        assert cell.params["engine"]["name"] == "fake"  # type: ignore[index]


@pytest.mark.skipif(host_peak_method() != EXACT, reason="the peak mark cannot be reset on this machine")
def test_a_known_block_comes_back_as_host_peak_within_two_percent(tmp_path: Path) -> None:
    # Large enough that what the kernel rounds up, and counts late, is a small part of it.
    cells = by_place(run("fake,mb_per_s=100", tmp_path, durations=[2], batch_sizes=[1, 2]))
    for (duration_s, size), cell in cells.items():
        over = cell.metrics["peak_host_over_baseline_bytes"].value
        # What the instrument itself keeps is in place before, so that next to nothing is added to the block.
        assert over == pytest.approx(100e6 * duration_s * size, rel=0.02)
        assert cell.metrics["peak_host_bytes"].value > over  # type: ignore[operator]


def test_real_time_factor_and_interval_by_hand(tmp_path: Path) -> None:
    """Round medians of 0.9, 1 and 1/0.9 s have the geometric mean 1 s; Student's t with 2 degrees is 4.3027."""
    record = made_up(tmp_path, lambda cell, index: 0.9 ** (index - 1), durations=[5], batch_sizes=[4])
    rtf = by_place(record)[5, 4].metrics["rtf"]
    half = 4.302653 * abs(math.log(0.9)) / math.sqrt(3)
    assert (rtf.value, rtf.n) == (pytest.approx(1 / 20), 30)
    assert (rtf.low, rtf.high) == (pytest.approx(math.exp(-half) / 20), pytest.approx(math.exp(half) / 20))


def test_peaks_are_the_largest_over_rounds_absolute_and_over_the_loaded_model(tmp_path: Path) -> None:
    cell = by_place(made_up(tmp_path, lambda cell, index: 1.0, durations=[2], batch_sizes=[3]))[2, 3]
    assert cell.metrics["peak_host_bytes"].value == 106_000_000
    assert cell.metrics["peak_host_over_baseline_bytes"].value == 16_000_000


def test_the_fit_of_each_axis_comes_back_with_its_evidence(tmp_path: Path) -> None:
    def time_s(cell: GridCell, index: int) -> float:
        d, size = cell.duration_s, cell.batch_size
        return 0.1 + size * (0.02 * d + 0.003 * d * d)

    record = made_up(tmp_path, time_s, batch_sizes=[1, 2, 4, 8], predict_s=60)
    for fit in fits(record, "duration"):
        size = fit.params["batch_size"]
        assert isinstance(size, int)
        found = [fit.metrics[name].value for name in ("law_constant", "law_linear", "law_quadratic")]
        assert found == pytest.approx([0.1, 0.02 * size, 0.003 * size], rel=1e-6)
        assert fit.params["law"] == "quadratic"
        assert fit.metrics["law_quadratic_p"].value < 1e-6  # type: ignore[operator]
        # The farthest cell, 32 s, from a fit that did not see it.
        assert fit.metrics["held_out_time"].value == pytest.approx(time_s(GridCell(32, size), 0), rel=1e-6)
        assert fit.metrics["held_out_error"].value == pytest.approx(0, abs=1e-6)
        assert fit.metrics["predicted_time"].value == pytest.approx(time_s(GridCell(60, size), 0), rel=1e-6)
        assert fit.metrics["predicted_rtf"].value == pytest.approx(time_s(GridCell(60, size), 0) / 60 / size, rel=1e-6)
        assert fit.metrics["predicted_time"].note.startswith("prediction, outside the measured range")
    over_batch = fits(record, "batch size")
    assert [fit.params["law"] for fit in over_batch] == ["linear"] * 5
    assert over_batch[2].metrics["law_linear"].value == pytest.approx(0.02 * 5 + 0.003 * 25)
    assert "predicted_time" not in over_batch[0].metrics


def test_a_held_out_cell_that_breaks_the_fit_shows(tmp_path: Path) -> None:
    record = made_up(
        tmp_path, lambda cell, index: cell.duration_s * (2 if cell.duration_s == 32 else 1), batch_sizes=[1]
    )
    (fit,) = fits(record, "duration")
    assert fit.metrics["held_out_error"].value == pytest.approx(-0.5)


def test_every_round_takes_each_cell_once_in_an_order_of_its_own(tmp_path: Path) -> None:
    record = run("fake", tmp_path, durations=[0.1, 0.2], batch_sizes=[1, 2], rounds=2, seed=3)
    keys = [piece.key for piece in record.pieces]
    assert [key[1] for key in keys] == [0] * 4 + [1] * 4
    spec = GridSpec(**record.header.spec)
    for index in range(2):
        taken = [(float(key[2]), key[3]) for key in keys if key[1] == index]
        assert taken == [(cell.duration_s, cell.batch_size) for cell in round_order(spec, index)]
        assert len(set(taken)) == 4


def test_the_order_is_drawn_anew_for_each_round_and_by_the_seed() -> None:
    spec = GridSpec(engine="fake")
    orders = [round_order(spec, index) for index in range(3)]
    assert all(set(order) == set(cells_of(spec)) for order in orders)
    assert len({tuple(order) for order in orders}) == 3
    assert round_order(spec, 0) == round_order(spec, 0) != round_order(GridSpec(engine="fake", seed=1), 0)


def test_the_triangle_is_that_of_speechbrain() -> None:
    """Worked by hand for 5 × 3: skipped from row + column ≥ 4 on, outside the first row and column."""
    spec = GridSpec(engine="fake", triangle=True)
    skipped = [(cell.duration_s, cell.batch_size) for cell in cells_of(spec) if is_skipped(spec, cell)]
    assert skipped == [(5, 8), (8, 4), (8, 8), (32, 4), (32, 8)]
    assert not any(is_skipped(GridSpec(engine="fake"), cell) for cell in cells_of(spec))


def test_skipped_cells_are_results_and_no_failure(tmp_path: Path) -> None:
    record = run("fake", tmp_path, durations=[0.1, 0.2, 0.3], batch_sizes=[1, 2], triangle=True)
    cells = by_place(record)
    assert [place for place, cell in cells.items() if cell.status == "skipped"] == [(0.3, 2)]
    assert [warning.code for warning in cells[0.3, 2].warnings] == ["triangle"]
    assert command("report", record.path).code == 0


def test_audio_is_cut_and_repeated_to_the_length(tmp_path: Path) -> None:
    import numpy as np
    import soundfile

    ramp = np.linspace(-0.5, 0.5, 1600, dtype=np.float32)
    soundfile.write(tmp_path / "ramp.wav", ramp, 16_000, subtype="FLOAT")
    cut = make_audio(str(tmp_path / "ramp.wav"), 0.05, 16_000, 0).samples
    repeated = make_audio(str(tmp_path / "ramp.wav"), 0.25, 16_000, 0).samples
    assert np.array_equal(cut, ramp[:800])
    assert np.array_equal(repeated, np.concatenate([ramp, ramp, ramp[:800]]))
    assert make_audio("bundled", 40, 16_000, 0).duration_s == 40
    noise = make_audio("noise", 1, 16_000, 5).samples
    assert np.array_equal(noise, make_audio("noise", 1, 16_000, 5).samples)
    assert not np.array_equal(noise, make_audio("noise", 1, 16_000, 6).samples)
    assert float(noise.std()) == pytest.approx(0.1, rel=0.05)


def test_noise_is_flagged_with_the_measured_difference_where_speech_was_run_too(tmp_path: Path) -> None:
    def codes(record: Record) -> dict[str, str]:
        return {warning.code: warning.message for warning in stopwav.results(record)[0].warnings}

    alone = made_up(tmp_path, lambda cell, index: 1.0, durations=[1, 2], batch_sizes=[1], audio="noise")
    assert "measure speech as well" in codes(alone)["noise"]
    speech = made_up(tmp_path, lambda cell, index: 2.0 * cell.duration_s, durations=[1, 2], batch_sizes=[1])
    assert "noise" not in codes(speech)
    assert f"noise took 0.25 to 0.50 times as long as bundled in {speech.path.name}" in codes(alone)["noise"]
    speech.path.write_text(speech.path.read_text().replace("f" * 12, "e" * 12))  # as taken on another machine
    assert "measure speech as well" in codes(alone)["noise"]


def test_a_duration_of_many_digits_is_found_again_under_all_of_them(tmp_path: Path) -> None:
    durations = [0.1, 1 / 3, 0.3333334, 1234567.5]
    record = made_up(tmp_path, lambda cell, index: 1.0, rounds=1, durations=durations, batch_sizes=[1])
    cells = by_place(Record.read(record.path))
    assert {duration_s: cell.status for (duration_s, _), cell in cells.items()} == dict.fromkeys(durations, "ok")


def test_an_engine_without_batches_says_so(tmp_path: Path) -> None:
    path = tmp_path / "streaming.py"
    path.write_text(
        "from stopwav import EngineInfo\n"
        "class S:\n    info = EngineInfo(name='s', version='1')\n    def open(self): pass\n"
    )
    (cell,) = by_place(run(f"{path}:S", tmp_path, durations=[1], batch_sizes=[1])).values()
    assert cell.status == "error"
    assert "takes no batches" in cell.warnings[0].message


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"durations": [1.0, 0.0]}, "--durations 0.0: "),
        ({"durations": [1.0, math.nan]}, "--durations nan: "),
        ({"durations": [math.inf]}, "--durations inf: "),
        ({"batch_sizes": [1, 0]}, "--batch-sizes 0: "),
        ({"batch_sizes": []}, "--batch-sizes"),
        ({"rounds": 0}, "--rounds"),
        ({"audio": "nowhere.wav"}, "nowhere.wav"),
        ({"device": "cuda"}, "device"),
        ({"memory_limit_gb": -1}, "--memory-limit -1: "),
        ({"memory_limit_gb": math.inf}, "--memory-limit inf: "),
        ({"time_limit_s": math.inf}, "--time-limit inf: "),
        ({"predict_s": math.nan}, "--predict nan: "),
        ({"predict_s": 60, "durations": [1, 2]}, "--predict 60: a fit needs at least three --durations"),
        ({"seed": -1}, "--seed -1: "),
    ],
)
def test_what_cannot_be_measured_is_said_before_anything_is(
    options: dict[str, object], told: str, tmp_path: Path
) -> None:
    with pytest.raises(StopwavError, match=told):
        stopwav.grid("fake", save=tmp_path, plan=FAST, **options)  # type: ignore[arg-type]
    assert not list(tmp_path.glob("*.jsonl"))


def test_a_device_named_twice_must_be_the_same(tmp_path: Path) -> None:
    with pytest.raises(StopwavError, match="names another one"):
        stopwav.grid("emformer-rnnt,device=cpu", device="cuda", save=tmp_path)


def test_an_engine_that_knows_no_devices_is_on_the_cpu(tmp_path: Path) -> None:
    (cell,) = by_place(run("fake", tmp_path, durations=[0.1], batch_sizes=[1], device="cpu")).values()
    assert (cell.status, cell.params["device"]) == ("ok", "cpu")


@pytest.mark.parametrize("device", ["cpu", "cuda:1", None])
def test_an_engine_that_knows_devices_is_told_which(device: str | None, tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    path.write_text("class Own:\n    def __init__(self, device='own'): ...\n")
    spec = GridSpec(engine=f"{path}:Own", device=device)
    assert engine_of(spec, "") == (f"{path}:Own,device={device}" if device else f"{path}:Own")
    assert device_of(spec, "") == (device or "cpu")


def test_a_batch_must_be_answered_in_full(tmp_path: Path) -> None:
    (cell,) = by_place(run(engine_file(tmp_path, "B = 1"), tmp_path, durations=[1], batch_sizes=[2])).values()
    assert "1 texts for a batch of 2" in cell.warnings[0].message


@pytest.mark.parametrize("answer", ["None", "[1]", "'text'", "{'a': 1}"])
def test_an_answer_that_is_no_list_of_texts_is_an_error(answer: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.py"
    path.write_text(
        "from stopwav import EngineInfo\n"
        "class Odd:\n    info = EngineInfo(name='odd', version='1')\n"
        f"    def transcribe(self, batch): return {answer}\n"
    )
    (cell,) = by_place(run(f"{path}:Odd", tmp_path, durations=[1], batch_sizes=[1])).values()
    assert cell.status == "error"
    assert "returned" in cell.warnings[0].message
    assert "it has to return a list of texts" in cell.warnings[0].message


def test_the_run_file_is_as_described(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "run-file.md").read_text()

    def described(heading: str) -> set[str]:
        section = page.partition(f"# {heading}\n")[2].partition("\n#")[0]
        return set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))

    record = run("fake", tmp_path, durations=[0.1], batch_sizes=[1])
    (piece,) = record.pieces
    assert set(record.header.spec) == described("spec of `grid`")
    assert set(piece.data) == described("cell")


@pytest.mark.parametrize(
    ("engine", "package"),
    [("pocketsphinx", "pocketsphinx"), pytest.param("emformer-rnnt,beam=2", "torch", marks=pytest.mark.slow)],
)
def test_real_recognisers_fit_the_grid(engine: str, package: str, tmp_path: Path) -> None:
    pytest.importorskip(package)
    (cell,) = by_place(run(engine, tmp_path, durations=[1], batch_sizes=[2])).values()
    assert cell.status == "ok", cell.warnings
    assert cell.metrics["rtfx"].value > 0  # type: ignore[operator]
    assert cell.metrics["peak_host_bytes"].value > 50e6  # type: ignore[operator]
