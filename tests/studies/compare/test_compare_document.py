"""A comparison as page and charts, and next to runs of other studies, from made-up rounds of known numbers."""

import csv
import io
import json
import re
from pathlib import Path

import altair
import loss_runs
import pytest
from command_line import command
from compare_runs import info, made_up, modules, whole

import stopwav
from stopwav.errors import Caution
from stopwav.piece import Piece
from stopwav.record import Record, Result
from stopwav.report.chart import COLOURS, Chart, chart_svg
from stopwav.report.csv_table import csv_table
from stopwav.report.document import Detail
from stopwav.studies.compare.study import STUDY
from stopwav.studies.study import StudyRun

RING = f'stroke="{COLOURS["ink"][0]}"'
HOSTILE = "</script><script>alert(1)</script>|<img src=x onerror=alert(1)>\x1b[31m\u202e"


def charts(record: Record) -> dict[str, Chart]:
    return dict(StudyRun(record).charts)


def findings(record: Record) -> list[str]:
    return list(StudyRun(record).document(Detail()).findings)


def page_of(*records: Record) -> str:
    """Return the page without its scripts."""
    page = records[0].path.with_name("page.html")
    done = command("report", *(record.path for record in records), "--html", page)
    assert "page:" in done.stderr
    return re.sub(r"<script\b.*?</script>", "", page.read_text(), flags=re.DOTALL)


def drawn(chart: Chart, mark: str) -> list[dict[str, object]]:
    """Return the rows that the last layer of that mark draws."""
    layer = [layer for layer in chart.spec["layer"] if layer["mark"]["type"] == mark][-1]
    return list(chart.spec["datasets"][layer.get("data", chart.spec.get("data"))["name"]])


def test_the_page_has_summary_verdicts_hypotheses_and_curves(tmp_path: Path) -> None:
    html = page_of(whole(tmp_path, expect=["small faster large", "large smaller small"]))
    for text in (
        "Comparison of small and large",
        ">10,000,000</button>",
        "slower 2×",
        "✓ small faster large: supported",
        "✗ large smaller small: not supported",
        "Hypotheses: 1 supported, 1 not supported.",
        "Pareto front in WER, RTF, energy: A small, B large.",
        "time ≈",
        "B encoder: 9,000,000 (90.0 %)",
        "A 100 frames",
    ):
        assert text in html, text
    assert html.count('class="plot"') == 4
    assert "could not be measured" not in html


def test_charts_follow_the_schema_and_are_drawn(tmp_path: Path) -> None:
    record = whole(tmp_path)
    by_name = charts(record)
    assert list(by_name) == ["pareto", "latency", "energy", "parameters"]
    for chart in by_name.values():
        altair.LayerChart.from_dict(json.loads(json.dumps(dict(chart.spec))))
        assert len(chart.description) > 40
        # The legend of a file names the engines.
        assert "A small" in chart_svg(chart.spec)
    command("report", record.path, "--charts", tmp_path / "charts")
    names = {path.name for path in (tmp_path / "charts").iterdir()}
    assert names == {f"{record.path.stem}-{name}.{kind}" for name in by_name for kind in ("svg", "png")}


def test_curves_hold_the_numbers_of_the_results(tmp_path: Path) -> None:
    record = whole(tmp_path)
    lengths = [result for result in stopwav.results(record) if result.kind == "length"]
    by_length = {(result.params["of"], result.params["frames"]): result for result in lengths}
    for name, metric, scale in (("latency", "latency", 1e3), ("energy", "energy_per_utterance_gross", 1.0)):
        rows = drawn(charts(record)[name], "point")
        assert len(rows) == 8
        for row in rows:
            engine = {"A": "small", "B": "large"}[str(row["engine"])[0]]
            estimate = by_length[engine, round(100 * float(str(row["length_s"])))].metrics[metric]
            assert (estimate.value, estimate.low, estimate.high) == pytest.approx(
                tuple(float(str(row[end])) / scale for end in ("value", "low", "high"))
            )
    assert "A: 10.1 ≈[9.9–10.4] J for 1 s, 80.8 ≈[78.8–82.8] J for 8 s." in charts(record)["energy"].description


def test_no_line_is_drawn_across_a_length_that_failed(tmp_path: Path) -> None:
    def time_s(name: str, frames: int, index: int) -> float | str:
        return "crashed" if (name, frames) == ("b", 200) else frames / 1000 * (1 + 0.01 * index)

    chart = charts(made_up(tmp_path, time_s, frames=[100, 200, 400]))["latency"]
    (lost,) = (row for row in drawn(chart, "line") if row["length_s"] == 2 and str(row["engine"]).startswith("B"))
    assert lost["value"] is None
    assert "nothing for 2 s" in chart.description


@pytest.mark.parametrize(("lost", "longest"), [((), 400), (("a",), 400), (("a", "b"), 200)])
def test_the_summary_is_of_the_longest_input_at_which_any_engine_was_measured(
    lost: tuple[str, ...], longest: int, tmp_path: Path
) -> None:
    def time_s(name: str, frames: int, index: int) -> float | str:
        return "crashed" if frames == 400 and name in lost else frames / 1000 * (1 + 0.01 * index)

    record = made_up(tmp_path, time_s, frames=[100, 200, 400])
    assert f"* for an input of {longest} frames" in command("report", record.path, "--all").stdout


def test_without_energy_the_page_says_why(tmp_path: Path) -> None:
    meters = Piece(key=["meters"], status="ok", data={"source": None, "missing": ["RAPL: none here"]})
    record = whole(tmp_path, more=[meters])
    assert "energy" not in charts(record)
    assert "Energy could not be measured: no meter: RAPL: none here." in page_of(record)
    assert "Energy was not measured: --energy asks for it." in page_of(whole(tmp_path, more=[], energy=False))


def test_the_pareto_front_is_ringed_and_beaten_engines_are_not(tmp_path: Path) -> None:
    """b is slower, and worse in every utterance."""
    record = made_up(
        tmp_path,
        lambda name, frames, index: (0.1 if name == "a" else 0.2) * (1 + 0.001 * index),
        errors=lambda name, place: 1 if name == "a" else 5,
        frames=[100],
    )
    chart = charts(record)["pareto"]
    assert [(row["letter"], row["member"]) for row in drawn(chart, "point")] == [("A", True), ("B", False)]
    assert chart_svg(chart.spec).count(RING) == 1
    assert chart.title == "Word error rate against RTFx"
    assert "beaten: B b" in chart.description
    # Without word errors, size takes their place, and an engine without a parameter count has none.
    infos = {name: info(name, parameters=n, untrained=True) for name, n in (("a", 10), ("b", 100), ("c", None))}
    untrained = made_up(tmp_path, lambda *_: 0.1, engines=["a", "b", "c"], infos=infos, frames=[100])
    by_name = charts(untrained)
    assert list(by_name) == ["pareto", "parameters"]
    assert by_name["pareto"].title == "Parameters against RTFx"
    assert len(drawn(by_name["pareto"], "point")) == 2
    description = "A whole model 10; B whole model 100. Unknown: C c (no parameter count reported)."
    assert by_name["parameters"].description == description


def test_only_the_largest_modules_are_drawn(tmp_path: Path) -> None:
    counted = {"a": modules(**{f"layer{index}": index + 1 for index in range(15)})}
    record = made_up(tmp_path, lambda *_: 0.1, counted=counted, frames=[100])
    chart = charts(record)["parameters"]
    assert [row["parameters"] for row in drawn(chart, "bar")] == list(range(4, 16))
    assert "Not drawn: 3 smaller modules." in chart.description
    assert "A layer0: 1 (0.8 %)" in page_of(record)


def test_a_single_engine_and_one_that_failed_have_their_pages(tmp_path: Path) -> None:
    alone = made_up(tmp_path, lambda *_: 0.1, engines=["a"], frames=[100])
    assert findings(alone) == ["a: RTF 0.1000, RTFx 10.00; median latency 100 ms"]
    html = page_of(alone)
    assert "Verdicts" not in html
    assert "Pareto front" not in html
    html = page_of(whole(tmp_path, engines=("a", "b", "gone")))
    assert "gone: skipped; nothing was measured" in html
    assert "message of crashed" in html
    assert "C 100 frames, C 200 frames" in html


def test_many_pairs_are_left_to_the_table(tmp_path: Path) -> None:
    names = [f"engine{index}" for index in range(5)]
    record = made_up(
        tmp_path,
        lambda name, frames, index: (1 + int(name[-1])) * (1 + 0.001 * index),
        engines=names,
        frames=[100],
        rounds=5,
        samples=5,
    )
    pareto, pairs = findings(record)
    assert pareto.startswith("Pareto front in WER, RTF: A engine0")
    assert pairs == "Each of 10 pairs has a row in the table of verdicts"
    html = page_of(record)
    assert "E against D" in html
    assert "Comparison of 5 engines" in html


def test_names_from_outside_do_nothing(tmp_path: Path) -> None:
    record = whole(tmp_path, engines=(HOSTILE, f"{'w' * 5000}1", f"{'w' * 5000}2"))
    html = page_of(record)
    assert "<img" not in html
    assert "alert(1)</script>" not in html
    assert "&lt;/script&gt;" in html
    assert not re.search("[\x1b\u202e]", html)
    whole_page = record.path.with_name("page.html").read_text()
    assert "<script>alert" not in whole_page
    # Two that begin alike keep a name and a colour each.
    assert len({key.label for key in charts(record)["latency"].legend}) == 2
    assert "\x1b" not in chart_svg(charts(record)["latency"].spec)


def test_the_table_of_several_runs_has_engines_and_no_lengths(tmp_path: Path) -> None:
    compared = whole(tmp_path)
    loss = loss_runs.made_up(tmp_path, lambda *_: 0.01, checks={"exact": loss_runs.checked()})
    html = page_of(compared, loss)
    table = html[html.index('aria-label="Comparison of runs"') : html.index('id="s0-run"')]
    assert "These runs differ in study" in html
    names = ("small", "large", "exact")
    assert [name for name in names if f"<bdi>{name}</bdi></td>" in table] == ["small", "large"]
    assert "100 frames" not in table
    assert "latency over length" not in table
    assert '<td data-sort="0.15">' in table
    assert f"Not in the table: {loss.path.stem}: runs of training" in table
    # Losses alone have no table at all.
    assert "Comparison of runs" not in page_of(loss, loss)


def test_history_keeps_studies_apart(tmp_path: Path) -> None:
    whole(tmp_path)
    loss_runs.made_up(tmp_path, lambda *_: 0.01, checks={"exact": loss_runs.checked()})
    for path in list(tmp_path.glob("*.jsonl")):
        path.with_suffix(".html").write_text("page")
    done = command("history", tmp_path)
    assert done.code == 0
    assert "large 800 frames" in done.stdout
    assert "exact" in done.stdout
    html = (tmp_path / "history.html").read_text()
    assert "compare, made up (20 utterances" in html
    assert "loss, shapes" in html
    assert "<figcaption>parameters</figcaption>" in html
    assert "<figcaption>step time, ms</figcaption>" in html
    studies = [run["study"] for run in json.loads(command("history", tmp_path, "--json").stdout)["runs"]]
    assert sorted(studies) == ["compare", "loss"]


def test_csv_says_why_an_engine_never_loaded(tmp_path: Path) -> None:
    record = made_up(tmp_path, lambda *_: 0.1, frames=[100], rounds=1, samples=1)
    warnings = (Caution("engine", "a note"), Caution("model-crashed", "no model file"))
    table = csv_table([(record, [Result("gone", {}, "crashed", {}, warnings)], STUDY.failure_codes)])
    (row,) = csv.DictReader(io.StringIO(table))
    assert row["note"] == "crashed: no model file"


def test_times_of_few_utterances_stay_above_zero_and_are_marked(tmp_path: Path) -> None:
    """Three utterances in turn, of 0.1, 0.2 and 2 s of compute: on a linear scale the mean would reach 0."""

    def seconds(name: str, frames: int, index: int) -> float:
        return (0.1, 0.2, 2.0)[index % 3]

    record = made_up(tmp_path, seconds, engines=("a",), rounds=3, samples=3, utterances=3, frames=[100])
    metrics = next(result for result in stopwav.results(record) if result.kind == "engine").metrics
    rtf, rtfx, mean = metrics["rtf"], metrics["rtfx"], metrics["latency_mean"]
    assert rtf.low is not None
    assert rtf.high is not None
    assert (rtfx.low, rtfx.high) == (1 / rtf.high, 1 / rtf.low)
    assert mean.low is not None
    assert mean.low > 0
    assert mean.rough
    shown = command("report", record.path).stdout
    row = next(line for line in shown.splitlines() if "latency, mean" in line)
    assert re.search(r"≈\[0\.\d*[1-9]|≈\[[1-9]", row), row
    assert "rough interval: from fewer than 5 utterances, rounds" in shown
