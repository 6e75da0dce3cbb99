"""Runs compared by label, two models of one study, more than two runs, and the page of a comparison."""

import json
import re
from pathlib import Path
from typing import Any

import altair
import pytest
from command_line import command
from synthetic_runs import saved, synthetic_run

import stopwav
from stopwav import StopwavError
from stopwav.piece import Piece
from stopwav.record import Record
from stopwav.report.chart import chart_svg
from stopwav.studies.diff.charts import diff_charts
from stopwav.studies.diff.diff import diff_runs
from stopwav.studies.diff.models import ModelPair

# No engine may do anything on a page by its name.
HOSTILE = "</script><script>alert(1)</script>|<img src=x onerror=alert(1)>"


def labelled(seed: int, setting: str, **planted: Any) -> Record:
    """A run of one engine labelled m."""
    run = synthetic_run(seed, names=["m"], **planted)
    header = run.header.model_copy(update={"spec": {**run.header.spec, "engines": [f"m={setting}"]}})
    return Record(run.path, header, run.pieces, complete=True)


def with_chunks(run: Record, chunk_s: float) -> Record:
    """The run with traces that say another size of chunk."""

    def changed(piece: Piece) -> Piece:
        if piece.key[0] != "stream":
            return piece
        return Piece(key=piece.key, status="ok", data={"trace": {**piece.data["trace"], "chunk_s": chunk_s}})

    return Record(run.path, run.header, [changed(piece) for piece in run.pieces], complete=True)


def test_two_settings_under_one_label_are_compared_and_named() -> None:
    before, after = labelled(1, "fake,beam=1"), labelled(2, "fake,beam=4", slowdown=0.5)
    compared = stopwav.diff(before, after)
    assert [item.name for item in compared.items] == ["m"]
    assert {change.metric: change.verdict for change in compared.items[0].changes}["rtf"] == "slower"
    assert "m: fake,beam=1 in a, fake,beam=4 in b" in compared.remarks
    assert compared.to_json()["models"] == [{"name": "m", "a": "fake,beam=1", "b": "fake,beam=4"}]
    assert not stopwav.gate(before, after).passed
    assert stopwav.gate(before, labelled(3, "fake,beam=2")).passed
    assert not stopwav.diff(before, labelled(4, "fake,beam=1")).models


def test_the_only_engines_of_two_runs_are_a_pair_for_diff_and_not_for_gate() -> None:
    before, after = synthetic_run(1, names=["x"]), synthetic_run(2, names=["y"], slowdown=0.5)
    compared = stopwav.diff(before, after)
    assert [item.name for item in compared.items] == ["x → y"]
    assert (compared.only_a, compared.only_b, compared.forced) == ((), (), ())
    # Their names say what they are.
    assert not any(" in a, " in remark and "x" in remark for remark in compared.remarks)
    with pytest.raises(StopwavError, match="no engine in common: x against y"):
        stopwav.gate(before, after)
    with pytest.raises(StopwavError, match="no engine in common: x, y against z"):
        stopwav.diff(synthetic_run(1, names=["x", "y"]), synthetic_run(2, names=["z"]))
    other_corpus = synthetic_run(3, names=["z"], corpus={"digest": "other"})
    with pytest.raises(StopwavError, match="other corpus"):
        stopwav.diff(before, other_corpus)


def test_with_other_chunks_chunk_latency_is_not_compared_and_word_latency_is() -> None:
    before = with_chunks(synthetic_run(1, names=["x"]), 0.1)
    after = with_chunks(synthetic_run(2, names=["y"]), 0.3)
    (item,) = stopwav.diff(before, after).items
    changes = {change.metric: change for change in item.changes}
    assert changes["chunk_lag_p50"].value is None
    assert "other chunk size" in changes["chunk_lag_p50"].note
    assert changes["word_latency_p50"].value is not None
    # Of one setting, another chunk size is an obstacle as ever.
    with pytest.raises(StopwavError, match="other chunk size"):
        stopwav.diff(with_chunks(synthetic_run(1), 0.1), with_chunks(synthetic_run(2), 0.3))


def test_a_name_that_begins_like_another_is_not_taken_for_it() -> None:
    short, long = ModelPair("m", "m", "a", "a"), ModelPair("m b", "m b", "c", "c")
    assert short.holds("m 1 s × 1")
    assert not short.holds("mine 1 s × 1")
    assert long.name_in_b("m b 1 s × 1") == "m b 1 s × 1"
    assert ModelPair("x", "y", "x", "y").name_in_b("x @ 4") == "y @ 4"
    assert ModelPair("x", "y", "x", "y").title_of("x @ 4") == "x → y @ 4"


def test_several_runs_are_held_against_the_first_and_decided_together(tmp_path: Path) -> None:
    runs = [synthetic_run(seed, slowdown=planted) for seed, planted in enumerate((0.0, 0.3, 0.0))]
    together = diff_runs(runs)
    alone = [stopwav.diff(runs[0], other) for other in runs[1:]]
    assert [one.study for one in together.diffs] == ["latency"] * 2
    for both, one in zip(together.diffs, alone, strict=True):
        for change, own in zip(both.items[0].changes, one.items[0].changes, strict=True):
            assert change.value == own.value
    # The clearest of more questions has to pass a higher confidence.
    most = [
        max(change.confidence for diff in diffs for change in diff.items[0].changes)
        for diffs in (alone, together.diffs)
    ]
    assert most[0] < most[1]
    found = [{change.metric: change.verdict for change in diff.items[0].changes} for diff in together.diffs]
    assert found[0]["rtf"] == "slower"
    assert found[1]["rtf"] in ("same", "undecided", "small difference")
    with pytest.raises(StopwavError, match="1 run to compare"):
        diff_runs(runs[:1])


def test_the_command_takes_several_runs_and_writes_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    paths = []
    for name, seed in (("base", 1), ("first", 2), ("second", 3)):
        run = synthetic_run(seed, slowdown=0.2 * (seed - 1), names=["one", HOSTILE])
        paths.append(saved(run, tmp_path / f"{name}.jsonl"))
    printed = command("diff", *paths)
    assert printed.code == 0, printed.stderr
    assert printed.stdout.startswith("b, one: ")
    assert "\nc, one: slower in " in printed.stdout
    assert "b / a" in printed.stdout
    assert "c / a" in printed.stdout
    told = json.loads(command("diff", *paths, "--json").stdout)
    assert [one["b"] for one in told["diffs"]] == [str(path) for path in paths[1:]]
    page = tmp_path / "changes.html"
    written = command("diff", *paths, "--html", page)
    assert (written.code, written.stdout) == (0, "")
    html = page.read_text()
    assert "Latency runs compared: base, first and second" in html
    assert "<script>alert" not in html
    assert html.count('class="plot"') == 2
    assert re.search(r"Content-Security-Policy", html)
    assert command("diff", *paths[:2], "--html", paths[0]).code == 2
    assert command("diff", paths[0]).code == 2


def test_charts_of_a_comparison_are_valid_and_say_what_they_show() -> None:
    charts = diff_charts(diff_runs([synthetic_run(1), synthetic_run(2, slowdown=0.3)]))
    assert list(charts) == ["ratios-0"]
    (chart,) = charts.values()
    altair.Chart.from_dict(dict(chart.spec), validate=True)
    assert "slower" in chart.description
    assert "<path" in chart_svg(chart.spec)
