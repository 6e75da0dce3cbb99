"""The card of made-up rounds: verdicts, scaling fits, energy and hypotheses, worked out by hand."""

import csv
import io
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from command_line import command
from compare_runs import info, made_up

import stopwav
from stopwav import StopwavError
from stopwav.measure.energy_series import WindowEnergy
from stopwav.piece import Piece
from stopwav.record import Record, Result
from stopwav.studies.compare import study as compare
from stopwav.studies.compare.definitions import DEFINITIONS
from stopwav.studies.compare.results import compare_results
from stopwav.studies.compare.verdicts import PairVerdict

FRAMES = [100, 200, 400, 800]
BEGIN_S = 1.7e9


def twice(name: str, frames: int, index: int) -> float:
    """Engine b takes twice as long as a; both drift together by a tenth, and apart by a thousandth."""
    drift = 1 + 0.1 * (index % 3) + 0.001 * ((index + (name == "b")) % 2)
    return (0.02 + 0.1 * frames / 100) * drift * (2 if name == "b" else 1)


def verdict(record: Record, metric: str, frames: int | None = None) -> PairVerdict:
    card = stopwav.card(record)
    verdicts = (*card.verdicts, *card.by_length)
    (only,) = (verdict for verdict in verdicts if (verdict.change.metric, verdict.frames) == (metric, frames))
    return only


def engine(record: Record, name: str) -> Result:
    return next(result for result in stopwav.results(record) if result.name == name)


def of_kind(record: Record, kind: str) -> list[Result]:
    return [result for result in stopwav.results(record) if result.kind == kind]


def test_a_paired_ratio_is_found_though_both_engines_drift(tmp_path: Path) -> None:
    record = made_up(tmp_path, twice, frames=FRAMES)
    over_all = verdict(record, "latency_mean")
    assert (over_all.a, over_all.b) == ("a", "b")
    assert over_all.change.verdict == "slower"
    assert over_all.change.value == pytest.approx(2, rel=1e-3)
    assert over_all.change.paired
    for frames in FRAMES:
        change = verdict(record, "latency", frames).change
        assert (change.verdict, change.n) == ("slower", 10)
        assert change.low is not None
        assert change.low > 1.9
        # Holm: no easier than alone, and the clearest of four at a quarter of the error.
        assert 0.95 <= change.confidence <= 1 - 0.05 / 4


def test_the_scaling_fit_of_each_engine_comes_back(tmp_path: Path) -> None:
    record = made_up(tmp_path, lambda name, frames, index: 0.02 + 0.1 * frames / 100, frames=FRAMES)
    fits = of_kind(record, "fit")
    assert [fit.params["of"] for fit in fits] == ["a", "b"]
    for fit in fits:
        assert fit.params["law"] == "linear"
        assert fit.metrics["law_constant"].value == pytest.approx(0.02)
        assert fit.metrics["law_linear"].value == pytest.approx(0.1)


def test_equal_engines_have_no_verdict_but_same_or_undecided(tmp_path: Path) -> None:
    record = made_up(tmp_path, lambda name, frames, index: 1 + 0.001 * ((index + (name == "b")) % 2), frames=[100])
    assert verdict(record, "latency", 100).change.verdict == "same"
    noisy = made_up(tmp_path, lambda name, frames, index: 1 + 0.3 * ((index + (name == "b")) % 2), frames=[100])
    change = verdict(noisy, "latency", 100).change
    assert change.verdict == "undecided"


def test_word_errors_are_compared_by_utterance(tmp_path: Path) -> None:
    """a makes 1 error in 10 words everywhere, b 3; the difference is 20 points."""
    record = made_up(tmp_path, twice, errors=lambda name, place: 3 if name == "b" else 1, frames=[100])
    assert engine(record, "a").metrics["wer"].value == pytest.approx(0.1)
    change = verdict(record, "wer").change
    assert (change.verdict, change.by, change.n) == ("worse", "difference", 20)
    assert change.value == pytest.approx(0.2)
    card = stopwav.card(record)
    assert (card.pareto.axes, card.pareto.members, card.pareto.beaten) == (("wer", "rtf"), ("a",), ("b",))


def test_counts_of_parameters_need_no_rounds(tmp_path: Path) -> None:
    infos = {"a": info("a", parameters=100, untrained=True), "b": info("b", parameters=50, untrained=True)}
    record = made_up(tmp_path, lambda *_: 1.0, infos=infos, frames=[100], rounds=1, samples=2)
    change = verdict(record, "parameters").change
    assert (change.verdict, change.value, change.note) == ("smaller", 0.5, "counted, not measured")
    assert (verdict(record, "wer").change.verdict, verdict(record, "wer").change.note) == ("undecided", "untrained")
    # Nobody has word errors, so size takes their place.
    assert stopwav.card(record).pareto.axes == ("parameters", "rtf")


EXPECTED = {
    "a faster b": "supported",
    "a faster than b": "supported",
    "b slower a": "supported",
    "b faster a": "not supported",
    "b slower a at 400 frames": "supported",
    "a more accurate b": "supported",
    "a less accurate b": "not supported",
    "b more accurate a": "not supported",
    "b smaller a": "supported",
    "a smaller b": "not supported",
    "a less energy b": "undecided",
}


def test_hypotheses_are_judged(tmp_path: Path) -> None:
    record = made_up(
        tmp_path,
        twice,
        errors=lambda name, place: 3 if name == "b" else 1,
        infos={"a": info("a", parameters=100), "b": info("b", parameters=50)},
        frames=FRAMES,
        expect=list(EXPECTED),
    )
    assert {judged.text: judged.judgement for judged in stopwav.card(record).expectations} == EXPECTED
    printed = command("report", record.path).stdout
    for text, judgement in EXPECTED.items():
        assert f"{text}: {judgement}" in printed
    assert "Hypotheses: 6 supported, 4 not supported, 1 undecided" in printed


def energy_pieces(watts: dict[str, dict[str, float]], call_s: float = 0.5, **data: object) -> list[Piece]:
    """Three rounds of three windows of 4 calls each; idling takes 10 W, and `b` twice as long a call."""
    pieces = []
    moment_s = BEGIN_S
    for index in range(3):
        for name, parts in watts.items():
            window_s = 4 * call_s * (2 if name == "b" else 1)
            windows = [WindowEnergy(moment_s, 2.0, 40, dict.fromkeys(parts, 20.0))]
            for _ in range(3):
                begin_s = windows[-1].end_s
                windows.append(WindowEnergy(begin_s, window_s, 4, {part: w * window_s for part, w in parts.items()}))
            moment_s = windows[-1].end_s
            idle, *work = (dict(vars(window)) for window in windows)
            made = {"source": "bench", "tick_s": 0.1, "whole": ["gpu", "cpu package"], "idle": idle, "windows": work}
            pieces.append(Piece(key=["energy", index, name, 100], status="ok", data={**made, **data}))
    return pieces


def metered(tmp_path: Path, watts: dict[str, dict[str, float]], **options: object) -> Record:
    spec = {"frames": [100], "energy": True, "rounds": 3, "samples": 6}
    meters = Piece(key=["meters"], status="ok", data={"source": "bench", "missing": []})
    return made_up(tmp_path, twice, more=[meters, *energy_pieces(watts)], **{**spec, **options})  # type: ignore[arg-type]


def test_energy_gross_and_net_by_hand(tmp_path: Path) -> None:
    """a: 0.5 s a call at 60 + 40 W is 50 J, 40 J net of 20 W idling; b, twice as long, 100 and 80 J."""
    record = metered(tmp_path, {name: {"gpu": 60.0, "cpu package": 40.0} for name in ("a", "b")})
    length_a, length_b = of_kind(record, "length")
    assert length_a.metrics["energy_per_utterance_gross"].value == pytest.approx(50)
    assert length_a.metrics["energy_per_utterance_net"].value == pytest.approx(40)
    assert length_a.metrics["energy_per_audio_s_gross"].value == pytest.approx(50)
    assert (length_a.metrics["mean_power"].value, length_a.metrics["idle_power"].value) == (
        pytest.approx(100),
        pytest.approx(20),
    )
    assert length_a.metrics["energy_per_utterance_gross"].note.startswith("total by bench")
    assert length_a.params["meters"] == [{"source": "bench", "tick_s": 0.1}]
    assert length_a.metrics["energy_per_utterance_gross_gpu"].value == pytest.approx(30)
    assert length_a.metrics["energy_per_utterance_net_cpu_package"].value == pytest.approx(15)
    assert length_b.metrics["energy_per_utterance_gross"].value == pytest.approx(100)
    assert engine(record, "b").metrics["energy_per_audio_s_net"].value == pytest.approx(80)
    change = verdict(record, "energy_per_audio_s_gross").change
    assert (change.verdict, change.n) == ("more", 3)
    assert change.value == pytest.approx(2)
    assert verdict(record, "energy_per_utterance_gross", 100).change.verdict == "more"
    assert stopwav.card(record).pareto.axes == ("wer", "rtf", "energy_per_audio_s_gross")
    printed = command("report", record.path, "--all").stdout
    assert "Energy per utterance over the length of the input, gross, J" in printed
    assert "energy: total by bench" in printed


def test_without_a_whole_the_part_that_works_is_compared_and_named(tmp_path: Path) -> None:
    infos = {name: info(name, device="cuda") for name in ("a", "b")}
    record = metered(tmp_path, {name: {"gpu": 300.0} for name in ("a", "b")}, infos=infos)
    length, _ = of_kind(record, "length")
    assert length.metrics["energy_per_utterance_gross"].value == pytest.approx(150)
    assert length.metrics["energy_per_utterance_gross"].note.startswith("gpu")
    # What only the GPU meters says nothing of an engine on the processor.
    mixed = metered(tmp_path, {name: {"gpu": 300.0} for name in ("a", "b")}, infos={"a": info("a"), "b": infos["b"]})
    length, _ = of_kind(mixed, "length")
    assert length.metrics["energy_per_utterance_gross"].value is None
    assert length.metrics["energy_per_utterance_gross"].note == "no meter: cpu and cuda: not metered; metered: gpu"


def cross_checked(tmp_path: Path, share: float, *, resolution: dict[str, object] | None = None) -> Record:
    """Return the run of a GPU whose sampled power adds up to this share of its counter."""
    pieces = energy_pieces({name: {"gpu": 300.0} for name in ("a", "b")}, call_s=0.5)
    for piece in pieces:
        for window in piece.data["windows"]:
            window["sampled_joules"] = {"gpu": share * window["joules"]["gpu"]}
    data = {"source": "NVML", "missing": [], "grains": {} if resolution is None else {"gpu": resolution}}
    infos = {name: info(name, device="cuda") for name in ("a", "b")}
    options = {"frames": [100], "energy": True, "rounds": 3, "samples": 6, "infos": infos}
    return made_up(tmp_path, twice, more=[Piece(key=["meters"], status="ok", data=data), *pieces], **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(("share", "doubted"), [(1.0, False), (0.91, False), (1.09, False), (0.85, True), (1.2, True)])
def test_sampled_power_cross_checks_the_counter(share: float, doubted: bool, tmp_path: Path) -> None:
    """More than a tenth apart is a warning."""
    length, _ = of_kind(cross_checked(tmp_path, share), "length")
    assert length.params["of"] == "a"
    assert length.metrics["sampled_to_counter"].value == pytest.approx(share)
    messages = [warning.message for warning in length.warnings if warning.code == "meters-disagree"]
    assert len(messages) == doubted
    assert all(f"{100 * share:.0f} % of its counter" in message for message in messages)


def test_the_counter_resolution_is_shown_with_its_numbers(tmp_path: Path) -> None:
    resolution = {"step_j": 7.74, "interval_s": 0.1004, "note": "seen in 10 steps while idle"}
    record = cross_checked(tmp_path, 0.98, resolution=resolution)
    length, _ = of_kind(record, "length")
    assert (length.metrics["counter_step"].value, length.metrics["counter_interval"].value) == (7.74, 0.1004)
    printed = " ".join(command("report", record.path, "--all").stdout.split())
    assert "energy: gpu by bench (steps of 7.7 J or more, every 100 ms)" in printed
    assert "sampled / counted* 0.98" in printed


@pytest.mark.parametrize(("step_j", "lost"), [(579.0, False), (581.0, True)])
def test_net_energy_below_the_counter_resolution_is_a_warning(step_j: float, lost: bool, tmp_path: Path) -> None:
    """A window of 2 s at 300 W is 580 J above 10 W idling; one of b is twice as long."""
    record = cross_checked(tmp_path, 1.0, resolution={"step_j": step_j, "interval_s": 0.1, "note": ""})
    messages = [warning.message for warning in engine(record, "a").warnings if warning.code == "net-too-small"]
    assert len(messages) == lost
    assert all("gpu: at 100 frames" in message for message in messages)
    assert "net-too-small" not in [warning.code for warning in engine(record, "b").warnings]


def test_a_counter_alone_has_no_cross_check(tmp_path: Path) -> None:
    record = metered(tmp_path, {name: {"gpu": 60.0, "cpu package": 40.0} for name in ("a", "b")})
    length, _ = of_kind(record, "length")
    for metric in ("sampled_to_counter", "sampled_to_counter_gpu"):
        assert length.metrics[metric].value is None
        assert length.metrics[metric].note == "gpu: no cross-check of the counter"


def test_no_meter_is_said_with_the_reason_and_the_rest_is_measured(tmp_path: Path) -> None:
    meters = Piece(key=["meters"], status="ok", data={"source": None, "missing": ["RAPL: none here"]})
    record = made_up(tmp_path, twice, frames=[100], energy=True, more=[meters])
    result = engine(record, "a")
    energy = result.metrics["energy_per_audio_s_gross"]
    assert (energy.note, energy.code) == ("no meter: RAPL: none here", "no-meter")
    assert verdict(record, "energy_per_audio_s_gross").change.code == "no-meter"
    assert result.metrics["rtf"].value is not None
    printed = " ".join(command("report", record.path).stdout.split())
    # One row for all that a meter would tell.
    assert printed.count("no meter no meter") == 1
    assert "energy and power no meter no meter" in printed
    assert "RAPL: none here" in printed


def log_of(path: Path, watts: float, *, seconds: float = 80, gap_at: int | None = None) -> Path:
    moments = [BEGIN_S - 5 + index / 2 for index in range(round(2 * seconds))]
    kept = [moment for index, moment in enumerate(moments) if gap_at is None or not gap_at <= index < gap_at + 6]
    path.write_text("timestamp,watts\n" + "".join(f"{moment},{watts}\n" for moment in kept))
    return path


def test_an_external_log_is_integrated_over_the_windows(tmp_path: Path) -> None:
    """80 W throughout: 40 J for half a second of a, net of as much idling nothing."""
    path = log_of(tmp_path / "meter.csv", 80.0)
    record = metered(tmp_path, {name: {} for name in ("a", "b")}, meter_csv=str(path))
    length_a, length_b = of_kind(record, "length")
    assert length_a.metrics["energy_per_utterance_gross"].value == pytest.approx(40)
    assert length_a.metrics["energy_per_utterance_net"].value == pytest.approx(0, abs=1e-6)
    assert length_b.metrics["energy_per_utterance_gross"].value == pytest.approx(80)
    assert length_a.metrics["energy_per_utterance_gross"].note.startswith("external meter")
    assert length_a.metrics["mean_power"].value == pytest.approx(80)


@pytest.mark.parametrize(
    ("gap_at", "seconds", "reason", "lost", "kept"),
    [(20, 80, "a gap of 3.5 s", 2, (7, 9)), (None, 12, "outside the meter log", 21, (2, 0))],
)
def test_windows_that_the_log_does_not_cover_are_left_out_and_counted(
    gap_at: int | None, seconds: float, reason: str, lost: int, kept: tuple[int, int], tmp_path: Path
) -> None:
    path = log_of(tmp_path / "meter.csv", 80.0, seconds=seconds, gap_at=gap_at)
    record = metered(tmp_path, {name: {} for name in ("a", "b")}, meter_csv=str(path))
    (warning,) = (warning for warning in engine(record, "a").warnings if warning.code == "meter-log")
    assert warning.message.startswith(f"{lost} of 24 windows are left out: ")
    assert reason in warning.message
    estimates = [length.metrics["energy_per_utterance_gross"] for length in of_kind(record, "length")]
    for estimate, windows, joules in zip(estimates, kept, (40, 80), strict=True):
        assert (estimate.n, estimate.value) == ((windows, pytest.approx(joules)) if windows else (0, None))
        assert windows or reason in estimate.note
    assert command("report", record.path).code == 0


def test_a_missing_log_is_a_warning(tmp_path: Path) -> None:
    record = metered(tmp_path, {name: {} for name in ("a", "b")}, meter_csv=str(tmp_path / "none.csv"))
    codes = {warning.code: warning.message for warning in engine(record, "a").warnings}
    assert "none.csv" in codes["meter-log"]


def test_a_stored_log_needs_no_file(tmp_path: Path) -> None:
    moments = [BEGIN_S - 5 + index for index in range(80)]
    log = Piece(key=["meter-log"], status="ok", data={"times_s": moments, "watts": [80.0] * 80})
    pieces = [*energy_pieces({name: {} for name in ("a", "b")}), log]
    record = made_up(
        tmp_path,
        twice,
        frames=[100],
        energy=True,
        rounds=3,
        samples=6,
        more=pieces,
        meter_csv=str(tmp_path / "none.csv"),
    )
    assert engine(record, "a").metrics["energy_per_audio_s_gross"].value == pytest.approx(40)


def test_every_metric_has_a_definition_with_its_unit(tmp_path: Path) -> None:
    record = metered(tmp_path, {name: {"gpu": 60.0, "cpu package": 40.0} for name in ("a", "b")})
    for result in stopwav.results(record):
        for name, estimate in result.metrics.items():
            definition = DEFINITIONS.find(name)
            assert definition is not None, name
            assert definition.unit == estimate.unit, name
    assert DEFINITIONS.find("nothing") is None


def test_markdown_csv_and_narrow_terminals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"engine-with-a-long-name,option={index}" for index in range(6)]
    record = made_up(tmp_path, lambda name, frames, index: 1.0 + 0.01 * index, engines=names, frames=FRAMES, rounds=3)
    monkeypatch.setenv("COLUMNS", "80")
    printed = command("report", record.path).stdout
    assert all(len(line) <= 80 for line in printed.splitlines() if not line.startswith("run file"))
    assert "F  engine-with-a-long-name,option=5" in printed
    markdown = command("report", record.path, "--markdown").stdout
    tables = [block.splitlines() for block in markdown.split("\n\n") if block.startswith("|")]
    assert len(tables) == 3
    assert all(
        line.count("|") == after.count("|") for lines in tables for line, after in pairwise(lines) if after[0] == "|"
    )
    rows = list(csv.DictReader(io.StringIO(command("report", record.path, "--csv").stdout)))
    assert {row["metric"] for row in rows if row["name"] == f"{names[0]} 100 frames"} >= {"latency", "rtf"}
    assert command("report", record.path, "--all").code == 0
    assert command("report", record.path, "--html", tmp_path / "page.html").code == 0


def test_only_a_comparison_has_a_card(tmp_path: Path) -> None:
    record = made_up(tmp_path, twice, frames=[100], rounds=1)
    record.header.study = "grid"
    with pytest.raises(StopwavError, match="only a run of 'compare' has a card"):
        stopwav.card(record)


def test_results_are_computed_once_for_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For the tables, the page and the card that both show."""
    record = made_up(tmp_path, twice, frames=[100, 200], rounds=2)
    calls: list[Record] = []

    def results(record: Record) -> list[Result]:
        calls.append(record)
        return compare_results(record)

    monkeypatch.setattr(compare, "STUDY", replace(compare.STUDY, results=results))
    assert command("report", record.path, "--html", tmp_path / "page.html").code == 0
    assert len(calls) == 1
