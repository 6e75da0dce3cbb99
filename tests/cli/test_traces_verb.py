"""`stopwav traces analyse`, as a user meets it."""

import csv
import io
import json
from pathlib import Path

import pytest
from command_line import command as stopwav

DATA = Path(__file__).parent.parent / "data"
CUDA = DATA / "traces" / "cuda.json.gz"


def test_a_trace_becomes_tables_of_host_and_device() -> None:
    done = stopwav("traces", "analyse", CUDA, "--top", 3)
    assert done.code == 0
    for text in ("1 trace, 2 steps", "Operators on the host", "Kernels", "launched it", "Allocated memory", "idle"):
        assert text in done.stdout
    assert "51 others" in done.stdout
    assert "| ProfilerStep |" in stopwav("traces", "analyse", CUDA, "--markdown").stdout


def test_json_and_csv_have_every_row_unless_fewer_are_asked_for() -> None:
    shown = json.loads(stopwav("traces", "analyse", CUDA, "--json").stdout)
    assert (len(shown["operators"]), len(shown["kernels"]), shown["steps"]) == (54, 20, 2)
    assert shown["kernels"][0].keys() == {"name", "kind", "calls", "self_s", "total_s"}
    assert {line["device"] for line in shown["memory"]} == {"cpu", "cuda:0"}
    rows = list(csv.DictReader(io.StringIO(stopwav("traces", "analyse", CUDA, "--csv").stdout)))
    assert [row["table"] for row in rows].count("operators") == 54
    assert float(rows[0]["self_s"]) == shown["operators"][0]["self_s"]
    few = json.loads(stopwav("traces", "analyse", CUDA, "--json", "--top", 2, "--sort", "calls").stdout)
    assert [row["calls"] for row in few["operators"]] == sorted((r["calls"] for r in shown["operators"]), reverse=True)[
        :2
    ]


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("text.json", b"hello", "not JSON"),
        ("killed.json", b'{"traceEvents": [{"ph": "X", "na', "truncated"),
        ("killed.json.gz", CUDA.read_bytes()[:5000], "truncated"),
        ("none.json", b'{"traceEvents": []}', "no events"),
        ("run.jsonl", (DATA / "grid-emformer.jsonl").read_bytes(), "run file"),
    ],
)
def test_bad_input_is_one_line_that_says_what_it_is(tmp_path: Path, name: str, content: bytes, text: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    done = stopwav("traces", "analyse", path)
    assert done.code == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert text in done.stderr
    assert name in done.stderr
    # With a good one the rest is shown, the bad one named, and the exit code says that something is missing.
    beside = stopwav("traces", "analyse", CUDA, path)
    assert beside.code == 1
    assert text in " ".join(beside.stdout.split())


def test_a_missing_file_and_a_wrong_order_are_errors() -> None:
    assert "'nowhere.json' does not exist" in stopwav("traces", "analyse", "nowhere.json").stderr
    assert "did you mean 'total'" in stopwav("traces", "analyse", CUDA, "--sort", "totl").stderr
