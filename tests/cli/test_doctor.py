"""`stopwav doctor`, as text for a person and as JSON for a program."""

from __future__ import annotations

import json

import pytest
import typer
from typer.testing import CliRunner

from stopwav.cli.doctor import doctor
from stopwav.measure import health
from stopwav.measure.machine import describe

app = typer.Typer()
app.command()(doctor)


@pytest.fixture(autouse=True)
def known_steadiness(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two seconds saved in each test."""
    monkeypatch.setattr(health, "steadiness", lambda: health.Steadiness(99, 0.001, 0.002, 0.003))


def test_doctor_prints_one_json_object() -> None:
    done = CliRunner().invoke(app, ["--json"])
    assert done.exit_code == 0
    result = json.loads(done.stdout)
    assert set(result) == {"stopwav", "machine", "steadiness", "sensors", "warnings"}
    assert result["machine"]["fingerprint"] == describe().fingerprint
    assert result["steadiness"] == {"values": 99, "p10_s": 0.001, "p50_s": 0.002, "p90_s": 0.003}
    assert "unsteady-core" in [warning["code"] for warning in result["warnings"]]
    assert all(set(sensor) == {"name", "available", "detail"} for sensor in result["sensors"])
    assert all(set(warning) == {"code", "message"} for warning in result["warnings"])


@pytest.mark.parametrize("missing", [False, True])
def test_a_pytorch_that_cannot_transform_is_a_caution(missing: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    features = pytest.importorskip("stopwav.models.features")
    monkeypatch.setattr(features, "has_fft", lambda: not missing)
    cautions = json.loads(CliRunner().invoke(app, ["--json"]).stdout)["warnings"]
    said = [caution["message"] for caution in cautions if caution["code"] == "no-fft"]
    assert len(said) == missing
    assert all("matrix product" in message for message in said)


@pytest.mark.parametrize("columns", ["80", "120"])
def test_doctor_fits_the_terminal_is_plain_without_colour_and_ends_in_a_verdict(columns: str) -> None:
    environ = {"NO_COLOR": "1", "COLUMNS": columns, "OMP_NUM_THREADS": "999999"}
    done = CliRunner().invoke(app, [], env=environ)
    lines = done.stdout.splitlines()
    assert done.exit_code == 0
    assert "\x1b" not in done.stdout
    assert max(map(len, lines)) <= int(columns)
    assert all(line == line.rstrip() for line in lines)
    assert [line for line in lines if line and not line.startswith(" ")][:3] == ["Machine", "Sensors", "Warnings"]
    assert lines[-1].startswith("usable, with ")
    assert "more-threads-than-cores" in done.stdout
    assert "1.00 to 3.00 ms" in done.stdout
