"""A comparison as page and charts, and beside runs of other studies, from made-up rounds whose numbers are known."""

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
from stopwav.report.charts import Chart, chart_svg, charts_of
from stopwav.report.compare_findings import compare_findings
from stopwav.report.compare_layout import arrange
from stored_runs import FAILURES

import stopwav
from stopwav.errors import Caution
from stopwav.record import Piece, Record, Result
from stopwav.report.csv_table import csv_table
from stopwav.report.palette import COLOURS

RING = f'stroke="{COLOURS["ink"][0]}"'
HOSTILE = "</script><script>alert(1)</script>|<img src=x onerror=alert(1)>\x1b[31m\u202e"


def charts(record: Record) -> dict[str, Chart]:
    return charts_of("compare", {"card": stopwav.card(record)}, stopwav.results(record))


def findings(record: Record) -> list[str]:
    return compare_findings(arrange(stopwav.results(record)), stopwav.card(record))


def page_of(*records: Record) -> str:
    """The page, its scripts left out."""
    page = records[0].path.with_name("page.html")
    done = command("report", *(record.path for record in records), "--html", page)
    assert "page:" in done.stderr
    return re.sub(r"<script\b.*?</script>", "", page.read_text(), flags=re.DOTALL)


def drawn(chart: Chart, mark: str) -> list[dict[str, object]]:
    """The rows that the last layer of that mark draws."""
    layer = [one for one in chart.spec["layer"] if one["mark"]["type"] == mark][-1]
    return list(chart.spec["datasets"][layer.get("data", chart.spec.get("data"))["name"]])


def test_the_page_has_the_card_verdicts_hypotheses_and_curves(tmp_path: Path) -> None:
    html = page_of(whole(tmp_path, expect=["small faster large", "large smaller small"]))
    for told in (
        "Compare of small and large",
        "<td><bdi>10,000,000</bdi></td>",
        "slower 2×",
        "✓ small faster large: supported",
        "✗ large smaller small: not supported",
        "Of what was expected before the run: 1 supported, 1 not supported.",
        "Pareto set in word errors, pace, energy: A small, B large.",
        "time ≈",
        "B encoder: 9,000,000 (90.0 %)",
        "A 100 frames",
    ):
        assert told in html, told
    assert html.count('class="plot"') == 4
    assert "could not be measured" not in html


def test_charts_follow_the_schema_and_are_drawn(tmp_path: Path) -> None:
    record = whole(tmp_path)
    found = charts(record)
    assert list(found) == ["pareto", "latency", "energy", "parameters"]
    for chart in found.values():
        altair.LayerChart.from_dict(json.loads(json.dumps(dict(chart.spec))))
        assert len(chart.description) > 40
        # The legend of a file names the engines.
        assert "A small" in chart_svg(chart.spec)
    command("report", record.path, "--charts", tmp_path / "charts")
    names = {path.name for path in (tmp_path / "charts").iterdir()}
    assert names == {f"{record.path.stem}-{name}.{kind}" for name in found for kind in ("svg", "png")}


def test_curves_hold_the_numbers_of_the_results(tmp_path: Path) -> None:
    record = whole(tmp_path)
    by_length = {
        (one.params["of"], one.params["frames"]): one for one in stopwav.results(record) if "frames" in one.params
    }
    for name, metric, scale in (("latency", "latency", 1e3), ("energy", "energy_per_utterance_gross", 1.0)):
        rows = drawn(charts(record)[name], "point")
        assert len(rows) == 8
        for row in rows:
            engine = {"A": "small", "B": "large"}[str(row["engine"])[0]]
            one = by_length[engine, round(100 * float(str(row["length_s"])))].metrics[metric]
            assert (one.value, one.low, one.high) == pytest.approx(
                tuple(float(str(row[end])) / scale for end in ("value", "low", "high"))
            )
    assert "A: 10.1 [9.9–10.4] J for 1 s, 80.8 [78.8–82.8] J for 8 s." in charts(record)["energy"].description


def test_a_length_that_was_lost_is_not_bridged_and_told(tmp_path: Path) -> None:
    def time_s(name: str, frames: int, index: int) -> float | str:
        return "crashed" if (name, frames) == ("b", 200) else frames / 1000 * (1 + 0.01 * index)

    chart = charts(made_up(tmp_path, time_s, frames=[100, 200, 400]))["latency"]
    (lost,) = (row for row in drawn(chart, "line") if row["length_s"] == 2 and str(row["engine"]).startswith("B"))
    assert lost["value"] is None
    assert "nothing for 2 s" in chart.description


@pytest.mark.parametrize(("lost", "longest"), [((), 400), (("a",), 400), (("a", "b"), 200)])
def test_the_card_tells_of_the_longest_input_that_any_engine_was_measured_at(
    lost: tuple[str, ...], longest: int, tmp_path: Path
) -> None:
    def time_s(name: str, frames: int, index: int) -> float | str:
        return "crashed" if frames == 400 and name in lost else frames / 1000 * (1 + 0.01 * index)

    record = made_up(tmp_path, time_s, frames=[100, 200, 400])
    assert f"* for an input of {longest} frames" in command("report", record.path).stdout


def test_without_a_meter_the_page_says_why_and_without_asking_how(tmp_path: Path) -> None:
    meters = Piece(key=["meters"], status="ok", data={"source": None, "missing": ["RAPL: none here"]})
    record = whole(tmp_path, more=[meters])
    assert "energy" not in charts(record)
    assert "Energy could not be measured: no meter: RAPL: none here." in page_of(record)
    assert "Energy was not measured: --energy asks for it." in page_of(whole(tmp_path, more=[], energy=False))


def test_the_set_is_ringed_and_the_beaten_are_not(tmp_path: Path) -> None:
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
    assert chart.title == "Word errors against pace"
    assert "beaten: B b" in chart.description
    # Nobody has word errors: size takes their place, and an engine that tells none has no place.
    infos = {name: info(name, parameters=n, untrained=True) for name, n in (("a", 10), ("b", 100), ("c", None))}
    untrained = made_up(tmp_path, lambda *_: 0.1, engines=["a", "b", "c"], infos=infos, frames=[100])
    found = charts(untrained)
    assert list(found) == ["pareto", "parameters"]
    assert found["pareto"].title == "Parameters against pace"
    assert len(drawn(found["pareto"], "point")) == 2
    assert found["parameters"].description == "A whole model 10; B whole model 100. Not told: C c."


def test_only_the_largest_modules_are_drawn(tmp_path: Path) -> None:
    counted = {"a": modules(**{f"layer{index}": index + 1 for index in range(15)})}
    record = made_up(tmp_path, lambda *_: 0.1, counted=counted, frames=[100])
    chart = charts(record)["parameters"]
    assert [row["parameters"] for row in drawn(chart, "bar")] == list(range(4, 16))
    assert "Not drawn: 3 smaller modules." in chart.description
    assert "A layer0: 1 (0.8 %)" in page_of(record)


def test_an_engine_alone_and_one_that_was_lost_have_their_pages(tmp_path: Path) -> None:
    alone = made_up(tmp_path, lambda *_: 0.1, engines=["a"], frames=[100])
    assert findings(alone) == ["a: 10.00 times faster than real time, 100 ms for an input at the median"]
    html = page_of(alone)
    assert "Verdicts" not in html
    assert "Who is not beaten" not in html
    lost = whole(tmp_path, engines=("a", "b", "gone"))
    html = page_of(lost)
    assert "gone: skipped; nothing was measured" in html
    assert "message of crashed" in html
    assert "C 100 frames, C 200 frames" in html


def test_many_pairs_are_not_all_told_on_top(tmp_path: Path) -> None:
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
    assert pareto.startswith("Pareto set in word errors, pace: A engine0")
    assert pairs == "Each of 10 pairs has a line in the table of verdicts"
    html = page_of(record)
    assert "E against D" in html
    assert "Compare of 5 engines" in html


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


def test_beside_other_studies_no_row_is_wrong(tmp_path: Path) -> None:
    compared = whole(tmp_path)
    loss = loss_runs.made_up(tmp_path, lambda *_: 0.01, checks={"exact": loss_runs.checked()})
    html = page_of(compared, Record.read(FAILURES), loss)
    table = html[html.index('aria-label="Comparison of runs"') : html.index('id="s0-run"')]
    assert "These runs differ in study" in html
    assert [name for name in ("small", "large", "exact") if f"<td><bdi>{name}</bdi></td>" in table] == [
        "small",
        "large",
    ]
    assert "100 frames" not in table
    assert "latency over length" not in table
    assert 'title="not measured by compare"' in table
    assert '<td data-sort="0.15">15' in table
    assert f"Not in the table: <bdi>{loss.path.stem}</bdi>, of training" in table
    # Losses alone have no table at all.
    assert "Comparison of runs" not in page_of(loss, loss)


def test_history_keeps_studies_apart_and_leaves_losses_out(tmp_path: Path) -> None:
    whole(tmp_path)
    loss = loss_runs.made_up(tmp_path, lambda *_: 0.01, checks={"exact": loss_runs.checked()})
    for path in list(tmp_path.glob("*.jsonl")):
        path.with_suffix(".html").write_text("page")
    done = command("history", tmp_path)
    assert done.code == 0
    assert "large 800 frames" in done.stdout
    assert "exact" not in done.stdout
    assert f"left out {loss.path}: a loss run is not followed" in done.stderr
    html = (tmp_path / "history.html").read_text()
    assert "compare, made up (20 utterances" in html
    assert "<h2>parameters, count</h2>" in html
    assert "step_time" not in html
    studies = [run["study"] for run in json.loads(command("history", tmp_path, "--json").stdout)["runs"]]
    assert sorted(studies) == ["compare", "loss"]
    alone = tmp_path / "losses"
    alone.mkdir()
    loss_runs.made_up(alone, lambda *_: 0.01, checks={"exact": loss_runs.checked()})
    assert "holds no run to show" in command("history", alone).stderr


def test_csv_tells_why_an_engine_never_loaded(tmp_path: Path) -> None:
    record = made_up(tmp_path, lambda *_: 0.1, frames=[100], rounds=1, samples=1)
    doubts = (Caution("engine", "a note"), Caution("model-crashed", "no model file"))
    table = csv_table([(record, [Result("gone", {"kind": "engine"}, "crashed", {}, doubts)])])
    (lost,) = csv.DictReader(io.StringIO(table))
    assert lost["note"] == "crashed: no model file"
