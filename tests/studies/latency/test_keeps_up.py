"""Whether an engine keeps up: by hand, and `undecided` wherever it is shown."""

import csv
import io
import json
import re
from pathlib import Path

import pytest
from command_line import command
from synthetic_runs import saved, synthetic_run

from stopwav.stats import Estimate
from stopwav.studies.latency.metrics import keeps_up

FLAT = Estimate(0.0, -0.01, 0.01)
ALONE = "no interval: only 1 independent sample"


@pytest.mark.parametrize(
    ("rtf", "slope", "value", "note"),
    [
        # Surely below 1, and not growing; streams under 2 s have no slope.
        (Estimate(0.5, 0.4, 0.6), FLAT, 1, ""),
        (Estimate(0.5, 0.4, 0.6), Estimate(None), 1, "judged by real-time factor alone"),
        (Estimate(0.5, 0.4, 0.6), Estimate(-0.1, note=ALONE), 1, ""),
        # Surely above 1, or surely growing.
        (Estimate(1.5, 1.1, 2.0), FLAT, 0, ""),
        (Estimate(0.5, 0.4, 0.6), Estimate(0.03, 0.01, 0.05), 0, ""),
        (Estimate(0.82, 0.34, 1.16), Estimate(0.03, 0.01, 0.05), 0, ""),
        # Neither.
        (Estimate(0.82, 0.34, 1.16), FLAT, None, "undecided: the interval of RTF includes 1; more utterances would"),
        (Estimate(1.2, 0.9, 1.6), FLAT, None, "undecided: the interval of RTF includes 1"),
        (Estimate(0.1, note=ALONE), Estimate(0.0, note=ALONE), None, f"undecided: RTF has {ALONE}; more utterances"),
        (Estimate(2.0, note=ALONE), Estimate(None), None, f"undecided: RTF has {ALONE}"),
        (Estimate(0.5, 0.4, 0.6), Estimate(0.1, note=ALONE), None, f"undecided: the backlog grows, with {ALONE}"),
        (Estimate(None, note="no values"), FLAT, None, "undecided: RTF has no values"),
    ],
)
def test_the_intervals_decide(rtf: Estimate, slope: Estimate, value: float | None, note: str) -> None:
    verdict = keeps_up(rtf, slope)
    assert verdict.value == value
    assert verdict.note.startswith(note)
    assert (verdict.unit, verdict.code) == ("bool", "undecided" if value is None else "")


@pytest.fixture
def undecided(tmp_path: Path) -> Path:
    """A run of six utterances with an RTF of about 1; the two engines take the same."""
    return saved(synthetic_run(1, rounds=3, slowdown=3.6, names=("first", "second")), tmp_path / "run.jsonl")


def test_undecided_is_said_wherever_it_is_shown(undecided: Path) -> None:
    why = "undecided: the interval of RTF includes 1; more utterances would decide"
    metrics = json.loads(command("report", undecided, "--json").stdout)["results"][0]["metrics"]
    rtf, rtfx, verdict = (metrics[name] for name in ("rtf", "rtfx", "keeps_up"))
    assert rtf["low"] < 1 < rtf["high"]
    assert (rtfx["low"], rtfx["high"]) == (1 / rtf["high"], 1 / rtf["low"])
    assert (verdict["value"], verdict["note"]) == (None, why)
    rows = list(csv.DictReader(io.StringIO(command("report", undecided, "--csv").stdout)))
    assert [(row["value"], row["note"]) for row in rows if row["metric"] == "keeps_up"] == [("", why)] * 2
    printed = " ".join(command("report", undecided, "--all").stdout.split())
    assert re.search(r"keeps up undecided undecided", printed)
    assert f"{why}: keeps up" in printed
    assert re.search(rf"first: whether it keeps up is {why} \(RTF [\d.]+ \[", printed)
    written = command("report", undecided, "--markdown").stdout
    assert "| keeps up | undecided | undecided |" in written
    assert f"- first: whether it keeps up is {why}" in written
    page = undecided.with_name("page.html")
    command("report", undecided, "--html", page)
    assert 'data-interval="undecided"' in page.read_text()


def test_what_rests_on_three_processes_is_rough_in_every_medium(undecided: Path, tmp_path: Path) -> None:
    legend = "rough interval: from fewer than 5 utterances, rounds"
    metrics = json.loads(command("report", undecided, "--json").stdout)["results"][0]["metrics"]
    assert metrics["load_time"]["rough"] is True  # of 3 processes
    assert metrics["rtf"]["rough"] is False  # of 6 utterances
    rows = list(csv.DictReader(io.StringIO(command("report", undecided, "--csv").stdout)))
    assert {row["rough"] for row in rows if row["metric"] == "load_time"} == {"true"}
    assert {row["rough"] for row in rows if row["metric"] == "rtf"} == {"false"}
    assert legend in command("report", undecided, "--all").stdout  # of the verdicts between the two engines
    alone = saved(synthetic_run(1, rounds=3, names=("first",)), tmp_path / "alone.jsonl")
    assert legend not in command("report", alone).stdout  # no such number is shown
    for option in [(), ("--markdown",)]:
        shown = command("report", undecided, "--all", *option).stdout
        assert re.search(r"load_time[ |]+[\d.]+[ |]+≈\[", shown)
        assert " ".join(shown.split()).count(legend) == 1
    page = tmp_path / "page.html"
    command("report", undecided, "--html", page)
    assert page.read_text().count(legend) == 1
    other = saved(synthetic_run(2, rounds=3, names=("first", "second")), tmp_path / "other.jsonl")
    shown = command("diff", undecided, other).stdout
    assert re.search(r"real-time factor .* ≈\[", shown)
    assert " ".join(shown.split()).count(legend) == 1
    changes = json.loads(command("diff", undecided, other, "--json").stdout)["results"][0]["changes"]
    assert {change["metric"]: change["rough"] for change in changes}["rtf"] is True
    enough = saved(synthetic_run(3, rounds=10), tmp_path / "enough.jsonl")
    assert legend not in command("report", enough, "--all").stdout
