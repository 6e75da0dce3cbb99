"""`stopwav.diff_traces` and `stopwav traces diff`: changes on paper, a planted slow-down, and several traces a side."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from command_line import command as run

import stopwav

Event = dict[str, Any]


def span(name: str, start: float, length: float, cat: str = "cpu_op", thread: object = 1, **args: object) -> Event:
    return {"ph": "X", "cat": cat, "name": name, "pid": 9, "tid": thread, "ts": start, "dur": length, "args": args}


def step(number: int, start: float, length: float) -> Event:
    return span(f"ProfilerStep#{number}", start, length, "user_annotation")


def write(path: Path, events: Sequence[Event]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"traceEvents": events}))
    return path


# One step: linear [0, 50] holds addmm [10, 40]; gone [60, 70]; a kernel of 8.
BEFORE = [
    *(step(0, 0, 100), span("linear", 0, 50), span("addmm", 10, 30), span("gone", 60, 10)),
    *(span("gemm", 5, 8, "kernel", 7, device=0), span("encoder", 0, 50, "module", "modules")),
]
# Two steps: in each linear [0, 70] holds two addmm of 25; in the first one new of 4; a kernel of 12 in each.
AFTER = [
    *(step(0, 0, 100), span("linear", 0, 70), span("addmm", 10, 25), span("addmm", 40, 25), span("new", 80, 4)),
    *(step(1, 100, 100), span("linear", 100, 70), span("addmm", 110, 25), span("addmm", 140, 25)),
    *(span("gemm", 5, 12, "kernel", 7, device=0), span("gemm", 105, 12, "kernel", 7, device=0)),
    *(span("encoder", 0, 60, "module", "modules"), span("encoder", 100, 60, "module", "modules")),
]


def test_every_change_is_the_one_on_paper_per_step(tmp_path: Path) -> None:
    a, b = write(tmp_path / "a.json", BEFORE), write(tmp_path / "b.json", AFTER)
    diff = stopwav.diff_traces(a, b)
    assert (diff.per, diff.units_a, diff.units_b) == ("ProfilerStep", (1,), (2,))
    changes = {
        table: {
            row.name: (row.status, row.a.calls, row.b.calls, us(row.a.self_s), us(row.b.self_s), us(row.total_change_s))
            for row in rows
        }
        for table, rows in diff.tables.items()
    }
    assert changes == {
        "operators": {
            "addmm": ("both", 1, 2, 30, 50, 20),
            "gone": ("vanished", 1, 0, 10, 0, -10),
            "new": ("appeared", 0, 0.5, 0, 2, 2),
            "linear": ("both", 1, 1, 20, 20, 20),
        },
        # The own time of a step is what is in no operator.
        "labels": {"ProfilerStep": ("both", 1, 1, 40, 28, 0)},
        "kernels": {"gemm": ("both", 1, 1, 8, 12, 4)},
        "stages": {"encoder": ("both", 1, 1, 50, 60, 10)},
    }
    # By the change of own time, in either direction.
    assert [row.name for row in diff.tables["operators"]] == ["addmm", "gone", "new", "linear"]
    addmm = diff.tables["operators"][0]
    assert (us(addmm.a.self_per_call_s or 0), us(addmm.b.self_per_call_s or 0)) == (30, 25)
    assert addmm.self_ratio == pytest.approx(50 / 30)
    assert addmm.own is None
    assert not diff.decided
    assert any("no verdict" in note for note in diff.notes)


def us(seconds: float) -> float:
    return round(1e6 * seconds, 6)


def test_without_marks_on_both_sides_numbers_are_per_trace_and_that_is_said(tmp_path: Path) -> None:
    a = write(tmp_path / "a.json", [event for event in BEFORE if not event["name"].startswith("Profiler")])
    b = write(tmp_path / "b.json", AFTER)
    diff = stopwav.diff_traces(a, b)
    assert diff.per == "trace"
    assert any("per whole trace" in note for note in diff.notes)
    addmm = next(row for row in diff.tables["operators"] if row.name == "addmm")
    assert (us(addmm.a.self_s), us(addmm.b.self_s)) == (30, 100)
    # A span that both have says how much work there was.
    per_module = stopwav.diff_traces(a, b, per="encoder")
    assert (per_module.units_a, per_module.units_b) == ((1,), (2,))
    assert us(per_module.tables["operators"][0].b.self_s) == 50
    with pytest.raises(stopwav.StopwavError, match=r"per 'decoder': no span of that name in .*a\.json"):
        stopwav.diff_traces(a, b, per="decoder")


def test_several_traces_a_side_show_their_spread_and_get_verdicts(tmp_path: Path) -> None:
    for side, slow in (("a", 100.0), ("b", 150.0)):
        for number, factor in enumerate((1.0, 1.004, 0.996, 1.002)):
            events = [span("slow", 0, slow * factor), span("even", 200, 100 * factor), span("tiny", 400, 0.1 * factor)]
            write(tmp_path / side / f"{number}.json", events)
    diff = stopwav.diff_traces(tmp_path / "a", tmp_path / "b", threshold=0.05)
    rows = {row.name: row for row in diff.tables["operators"]}
    assert diff.decided
    assert [us(value) for value in rows["slow"].b.each_self_s] == [150, 150.6, 149.4, 150.3]
    assert rows["slow"].own is not None
    assert rows["slow"].own.verdict == "slower"
    assert rows["slow"].own.value == pytest.approx(1.5)
    assert rows["even"].own is not None
    assert rows["even"].own.verdict == "same"
    assert rows["tiny"].own is None  # below a hundredth of the time
    listed = stopwav.diff_traces(sorted((tmp_path / "a").iterdir()), [tmp_path / "b"], threshold=0.05)
    assert listed.tables == diff.tables
    done = run("traces", "diff", tmp_path / "a", tmp_path / "b", "--threshold", "5%")
    assert done.code == 0
    assert "slower" in done.stdout


def test_the_other_folder_of_a_side_is_noted(tmp_path: Path) -> None:
    for place in ("a/1/x.json", "a/2/x.json", "b/x.json"):
        write(tmp_path / place, BEFORE)
    notes = stopwav.diff_traces(tmp_path / "a", tmp_path / "b").notes
    assert any("a: traces of 2 folders are taken as repetitions" in note for note in notes)


def test_a_planted_slow_down_of_a_real_operator_comes_first(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    inputs = torch.randn(100, 300)

    def trace(name: str, size: int) -> Path:
        planted = torch.randn(size)

        def one_step() -> None:
            torch.relu(inputs @ inputs.t()).sum()
            torch.cumsum(planted, 0)

        path = tmp_path / f"{name}.json"
        schedule = torch.profiler.schedule(wait=0, warmup=1, active=3, repeat=1)
        export = lambda profiler: profiler.export_chrome_trace(str(path))  # noqa: E731
        with torch.profiler.profile(schedule=schedule, on_trace_ready=export) as profiler:
            for _ in range(4):
                one_step()
                profiler.step()
        return path

    before, after = trace("before", 1000), trace("after", 10_000_000)
    diff = stopwav.diff_traces(before, after)
    first = diff.tables["operators"][0]
    assert diff.per == "ProfilerStep"
    assert first.name == "aten::cumsum"
    assert (first.a.calls, first.b.calls) == (1, 1)
    assert first.self_change_s > 0
    done = run("traces", "diff", before, after)
    assert done.code == 0
    assert "operators: the own time of aten::cumsum changed most" in done.stdout


def test_the_verb_prints_tables_markdown_csv_and_json(tmp_path: Path) -> None:
    a, b = write(tmp_path / "a.json", BEFORE), write(tmp_path / "b.json", AFTER)
    printed = run("traces", "diff", a, b).stdout
    for text in ("per step", "addmm", "1 → 2", "30.0 µs", "50.0 µs", "+20.0 µs", "1.67", "vanished", "appeared"):
        assert text in printed
    assert "no verdict is given" in " ".join(printed.split())
    assert "| addmm |" in run("traces", "diff", a, b, "--markdown").stdout
    rows = list(csv.DictReader(io.StringIO(run("traces", "diff", a, b, "--csv").stdout)))
    first = rows[0]
    assert (first["table"], first["name"], first["calls_b"], first["status"]) == ("operators", "addmm", "2.0", "both")
    assert float(first["self_change_s"]) == pytest.approx(20e-6)
    shown = json.loads(run("traces", "diff", a, b, "--json", "--top", 1).stdout)
    assert [row["name"] for row in shown["operators"]] == ["addmm"]
    assert shown["operators"][0]["b"]["self_per_call_s"] == pytest.approx(25e-6)
    assert (shown["per"], shown["units_b"]) == ("ProfilerStep", [2])


def test_errors_name_the_file_and_the_way_out(tmp_path: Path) -> None:
    good = write(tmp_path / "a.json", BEFORE)
    torn = tmp_path / "torn.json"
    torn.write_text(good.read_text()[:-20])
    for place, text in ((torn, "truncated"), (tmp_path / "none.json", "does not exist")):
        done = run("traces", "diff", good, place)
        assert done.code == 2
        assert text in done.stderr
        assert place.name in done.stderr
    (tmp_path / "empty").mkdir()
    assert "no .json or .json.gz file" in run("traces", "diff", good, tmp_path / "empty").stderr
    assert "--json and --csv" in run("traces", "diff", good, good, "--json", "--csv").stderr
    assert "threshold" in run("traces", "diff", good, good, "--threshold", "much").stderr
