"""`diff` and `gate` of trainings, comparisons and loads: what is compared of each, and what fails."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import compare_runs
import loss_runs
import pytest
from load_runs import MadeLevel, load_run
from simulated_pairs import SIMULATED
from stored_runs import DATA

import stopwav
from stopwav.piece import Piece
from stopwav.record import Record
from stopwav.report.markdown import render_markdown
from stopwav.stats.change import Change
from stopwav.studies.diff.diff import Diff
from stopwav.studies.diff.document import diff_document
from stopwav.studies.study import LISTED, find_study


def verdicts(compared: Diff) -> dict[tuple[str, str], str]:
    return {(item.name, change.metric): change.verdict for item in compared.items for change in item.changes}


def change_of(compared: Diff, name: str, metric: str) -> Change:
    return next(
        change for item in compared.items for change in item.changes if (item.name, change.metric) == (name, metric)
    )


def runs(study: str, folder: Path, rounds: int = 6) -> tuple[Record, Record]:
    made = []
    for side in (0, 1):
        place = folder / str(side)
        place.mkdir()
        made.append(SIMULATED[study](place, side, 0.0, rounds))
    return made[0], made[1]


def with_pieces(record: Record, change: Any) -> Record:
    """The run with some of its pieces changed."""
    pieces = [Piece(list(piece.key), piece.status, data=change(piece)) for piece in record.pieces]
    return Record(record.path, record.header, pieces, complete=True)


@pytest.mark.parametrize("study", LISTED)
def test_every_study_is_compared_and_all_it_compares_is_defined(study: str) -> None:
    found = find_study(study)
    assert found.comparable is not None
    for metric in found.comparable.metric_names:
        assert found.definitions.find(metric) is not None, metric


def test_a_slow_module_is_found_in_the_tree_of_a_step(tmp_path: Path) -> None:
    before, after = runs("step", tmp_path, rounds=10)

    def slowed(piece: Piece) -> Any:
        data = piece.data
        if piece.key[0] == "step":
            extra = sum(part[2] for part in data["watched"]["parts"] if part[0] == "encoder.conv")
            for part in data["watched"]["parts"]:
                part[2] *= 2 if part[0] == "encoder.conv" else 1
            data["clean"]["wall_s"] += extra
        if piece.key[0] == "memory":
            data = {**data, "held": {**data["held"], "encoder.conv": 1000}}
        return data

    compared = stopwav.diff(before, with_pieces(after, slowed))
    said = verdicts(compared)
    for name in ("encoder.conv", "encoder", "model"):
        assert said[name, "total_time"] == "slower", name
    assert said["encoder.conv", "share"] == "larger"
    assert said["encoder.conv", "held_bytes"] == said["encoder", "held_bytes"] == "bigger"
    assert said["joiner", "held_bytes"] == "same"
    assert {said[name, "total_time"] for name in ("encoder.attention", "predictor", "joiner")} <= {
        "undecided",
        "same",
        "small difference",
    }
    assert said["step", "step_time"] == "slower"
    assert change_of(compared, "encoder.conv", "total_time").value == pytest.approx(2, rel=0.05)
    parts = {item.name: (item.part, item.depth) for item in compared.items if item.part}
    assert parts["encoder.conv"] == ("conv", 2)
    assert parts["encoder"] == ("encoder", 1)
    failed = stopwav.gate(before, with_pieces(after, slowed))
    # A larger share is no worse: something has to be the largest.
    assert {failure.condition for failure in failed.failures} == {"slower", "bigger"}
    text = render_markdown(diff_document(compared))
    assert "\u2003\u2003conv" in text
    assert "encoder.conv: slower in time; bigger in saved activations; larger in share" in text
    assert "5 of 6 parts: the outermost, and those that changed" in text


def test_a_module_that_is_gone_is_named_and_not_missing(tmp_path: Path) -> None:
    before, after = runs("step", tmp_path)

    def renamed(piece: Piece) -> Any:
        data = piece.data
        if piece.key[0] == "ready":
            names = dict.fromkeys(("path", "folded"), "joint")
            rows = [{**row, **names} if row["path"] == "joiner" else row for row in data["modules"]]
            data = {**data, "modules": rows}
        if piece.key[0] == "step":
            for part in data["watched"]["parts"]:
                part[0] = part[0].replace("joiner", "joint")
        return data

    other = with_pieces(after, renamed)
    compared = stopwav.diff(before, other)
    assert (compared.only_a, compared.only_b) == (("joiner",), ("joint",))
    assert stopwav.gate(before, other).passed


def test_other_batches_are_refused_and_another_model_by_a_gate(tmp_path: Path) -> None:
    before, after = runs("step", tmp_path)

    def other(setting: str, value: object) -> Record:
        header = after.header.model_copy(update={"spec": {**after.header.spec, setting: value}})
        return Record(after.path, header, after.pieces, complete=True)

    with pytest.raises(stopwav.StopwavError, match="other batches"):
        stopwav.diff(before, other("seed", 7))
    with pytest.raises(stopwav.StopwavError, match="other model"):
        stopwav.gate(before, other("model", "another"))
    compared = stopwav.diff(before, other("model", "another"))
    assert [pair.setting_b for pair in compared.models] == ["another"]
    assert any("another in b" in remark for remark in compared.remarks)


def test_a_loss_that_became_wrong_fails(tmp_path: Path) -> None:
    before, after = runs("loss", tmp_path)

    def wrong(piece: Piece) -> Any:
        return loss_runs.checked(0.5) if piece.key == ["check", "fused"] else piece.data

    judged = stopwav.gate(before, with_pieces(after, wrong))
    assert [(failure.condition, failure.name, failure.metric) for failure in judged.failures] == [
        ("wrong", "fused", "correct")
    ]
    back = verdicts(stopwav.diff(with_pieces(after, wrong), before))
    assert (back["fused", "correct"], back["torch", "correct"]) == ("better", "same")


def test_a_loss_that_fails_on_a_batch_has_lost_it(tmp_path: Path) -> None:
    before, after = runs("loss", tmp_path)
    pieces = [
        Piece(list(piece.key), "oom", "no memory left")
        if piece.key[0] == "step" and (piece.key[2], piece.key[4]) == ("fused", 1)
        else piece
        for piece in after.pieces
    ]
    judged = stopwav.gate(before, Record(after.path, after.header, pieces, complete=True))
    assert [(failure.condition, failure.name, failure.message) for failure in judged.failures] == [
        ("missing", "fused", "1 batch lost that completed in the baseline")
    ]
    # The others are compared: 0.1 and 0.3 s, and not 0.2.
    step = change_of(judged.diff, "fused", "step_time")
    assert step.a == pytest.approx(0.2, rel=0.05)
    assert step.b == pytest.approx(0.2, rel=0.05)


def test_losses_of_other_batches_are_refused(tmp_path: Path) -> None:
    place = tmp_path / "other"
    place.mkdir()
    before, after = (
        loss_runs.made_up(
            folder, lambda name, number, index: 0.1, checks={"torch": loss_runs.checked()}, rounds=3, seed=seed
        )
        for folder, seed in ((tmp_path, 0), (place, 1))
    )
    with pytest.raises(stopwav.StopwavError, match=r"other batches of torch \(b2 v12, 3 of seed 0.*--force"):
        stopwav.diff(before, after)


def test_of_a_comparison_energy_parameters_and_lengths_are_compared(tmp_path: Path) -> None:
    before = compare_runs.whole(tmp_path)
    grown = {name: compare_runs.modules(encoder=10**6 * (2 + place)) for place, name in enumerate(("small", "large"))}
    after = compare_runs.whole(tmp_path, counted=grown)
    compared = stopwav.diff(before, after)
    said = verdicts(compared)
    assert said["small", "parameters"] == "bigger"
    assert change_of(compared, "small", "parameters").value == pytest.approx(2)
    assert ("small", "energy_per_audio_s_gross") in said
    assert ("small 400 frames", "latency") in said
    assert ("small 400 frames", "energy_per_utterance_gross") in said
    assert said["small", "wer"] == "same"
    parts = [item.part for item in compared.items if item.part]
    assert parts[0] == "small, 100 frames"
    assert {failure.condition for failure in stopwav.gate(before, after).failures} == {"bigger"}


def test_a_run_without_energy_is_not_asked_for_it(tmp_path: Path) -> None:
    runs = [compare_runs.made_up(tmp_path, lambda name, frames, index: 0.01 * frames) for _ in range(2)]
    metrics = {metric for _, metric in verdicts(stopwav.diff(*runs))}
    assert not [metric for metric in metrics if metric.startswith("energy")]
    assert "parameters" not in metrics  # which neither engine reports


def test_a_smaller_capacity_fails_where_the_intervals_do_not_touch() -> None:
    quick, slow = MadeLevel(1, sessions=200), MadeLevel(1, sessions=200, final_s=2.0)

    def carries(streams: int) -> Record:
        levels = [replace(quick if count <= streams else slow, streams=count) for count in (1, 2, 4, 8)]
        return load_run(levels, rounds=2)

    # 4 streams surely, and surely not 8; then 1, and surely not 2.
    judged = stopwav.gate(carries(4), carries(1), fail_on=["fewer"])
    capacity = change_of(judged.diff, "fake", "capacity")
    assert (capacity.a, capacity.b, capacity.verdict) == (4, 1, "fewer")
    assert [failure.metric for failure in judged.failures] == ["capacity"]
    assert stopwav.gate(carries(1), carries(4), fail_on=["fewer"]).passed
    assert change_of(stopwav.diff(carries(4), carries(4)), "fake", "capacity").verdict == "undecided"


def test_a_capacity_of_at_least_something_has_a_lower_end() -> None:
    record = load_run([MadeLevel(count, sessions=200) for count in (1, 2, 4)], rounds=2)
    for condition, outcome in (("capacity >= 4", "holds"), ("capacity < 3", "fails"), ("capacity >= 5", "undecided")):
        assert stopwav.gate_conditions(record, [condition]).outcome == outcome, condition


def test_conditions_are_asked_of_every_kind_of_result(tmp_path: Path) -> None:
    """Of losses `correct`, of a step its peak, of a grid each cell but those that were left out on purpose."""
    loss, _ = runs("loss", tmp_path)
    judged = stopwav.gate_conditions(loss, ["correct >= 1", "gradient_deviation < 1e-3", "step_time < 10ms of torch"])
    assert [(o.name, o.outcome) for o in judged.outcomes] == [
        ("torch", "holds"),
        ("fused", "holds"),
        ("torch", "holds"),
        ("fused", "holds"),
        ("torch", "fails"),
    ]
    grid = stopwav.gate_conditions(DATA / "grid-failures.jsonl", ["rtf < 1000"], allow_incomplete=True)
    cells = {result.name: result for result in stopwav.results(Record.read(DATA / "grid-failures.jsonl"))}
    for outcome in grid.outcomes:
        assert (outcome.outcome == "absent") == (cells[outcome.name].status != "ok"), outcome
