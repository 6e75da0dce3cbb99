"""Modules with names that no model should have, and some do: a run and its report end without an error."""

import json
from pathlib import Path
from typing import Any

import torch
from command_line import command
from step_jobs import run_steps
from torch import nn

import stopwav
from stopwav.studies.step.tree import StepTree

# By what they could be taken for: repeated layers, stages, phases, labels, the model itself, a path, nothing.
NAMES = (
    "*", "a*b", "?", "[a", "a:b", "a/b", ":", "(loss)", "(rest)", "(instrument)", "@label", "model", "0", "1",
    "</script>|`x`", "=1+1", "\x1b[31m\u202e", "lone \ud800", "line\nbreak", "\x1f", "n" * 10_000, "名" * 50, " ",
)  # fmt: skip
# PyTorch refuses these, and a model may have them all the same.
FORCED = ("", ".", "a.b", "..", "x.")


class Odd(nn.Module):
    """Layers of all those names, at the top and inside a list."""

    def __init__(self, names: tuple[str, ...], forced: tuple[str, ...]) -> None:
        super().__init__()
        for name in names:
            self.add_module(name, nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)))
        for name in forced:
            self._modules[name] = nn.Linear(4, 4)
        self.inner = nn.ModuleDict({name: nn.Linear(4, 4) for name in names if not hasattr(nn.ModuleDict, name)})
        self.labels = dict.fromkeys(names, "label")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for name, module in self._modules.items():
            for layer in module.values() if name == "inner" else (module,):
                x = layer(x)
        return x


def reports(path: Path, folder: Path) -> dict[str, Any]:
    """Show a run in every way; return its results as JSON."""
    for options in (("--all", "--unfold"), ("--labels", "label"), ("--markdown",), ("--csv",)):
        done = command("report", path, *options)
        assert done.code == 0, done.stderr
        assert "Traceback" not in done.stderr
    assert command("report", path, "--html", folder / "page.html").code == 0
    found: dict[str, Any] = json.loads(command("report", path, "--json").stdout)
    return {row["name"]: row for row in found["results"]}


def test_any_name_is_measured_and_shown(tmp_path: Path) -> None:
    data = torch.randn(2, 4)
    model = Odd(NAMES, FORCED)
    options = {"steps": 2, "profile": True, "modules": ["*", "[a", "inner.[*]"]}
    record = run_steps(model, lambda _: (data, None), lambda y, _: y.sum(), tmp_path, **options)
    rows = reports(record.path, tmp_path)
    assert all(name in rows for name in ("*", "a*b", "model", "n" * 10_000, "a.b"))
    # A star in a name is no sum of layers.
    assert [name for name, row in rows.items() if row["params"]["kind"] == "layers" and name in NAMES] == []


def test_a_module_called_model_has_its_own_row_below_the_model(tmp_path: Path) -> None:
    class Wrapper(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.model(x)

    data = torch.randn(2, 4)
    record = run_steps(Wrapper(), lambda _: (data, None), lambda y, _: y.sum(), tmp_path, steps=2)
    shown = StepTree(stopwav.results(record)).shown()
    rows = [(row.depth, row.name) for row in shown if row.result.kind != "phase"]
    assert rows == [(0, "model Wrapper"), (1, "model"), (2, "0"), (2, "1")]
