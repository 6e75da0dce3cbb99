"""Options of any form, as `range=--5`: a value or an error in one line, and never a traceback."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields

import pytest
from command_line import command
from hypothesis import example, given
from hypothesis import strategies as st

from stopwav.engines.registry import parse_spec
from stopwav.errors import StopwavError
from stopwav.losses import adapters
from stopwav.losses.registry import check_name, split_name
from stopwav.profiling.schedule import parse_schedule
from stopwav.report.tracker import parse_target
from stopwav.servers.registry import available, make_server
from stopwav.studies.budget import parse_time
from stopwav.studies.diff.condition import parse_condition
from stopwav.studies.launch.destination import parse_destination
from stopwav.studies.limit import parse_limit
from stopwav.studies.load.objective import parse_objective
from stopwav.studies.plan.plan_file import parse_override
from stopwav.studies.step.reference import Sizes, parse_sizes

# Signs, digits of other scripts, and what begins a value of JSON or of YAML.
VALUES = st.text(alphabet="-+.,=:0159²٣eExXnaNtrue∞ _[]{}\"'%&*!|>#\\\t\n", max_size=12)
DEEP, LONG = "[" * 50_000, "1" * 5_000


def loss_options(value: str) -> object:
    check_name(f"k2-pruned,range={value}")
    _, options = split_name(f"k2-pruned,range={value}")
    number = options.get("range")
    # Whole numbers from 2 would go on to the package.
    return None if isinstance(number, int) and number >= 2 else adapters.k2_pruned(**options)


def step_options(value: str) -> list[object]:
    return [parse_sizes(parse_spec(f"conformer-transducer,{field.name}={value}").options) for field in fields(Sizes)]


def server_options(value: str) -> list[object]:
    addresses = [entry.example for entry in available() if entry.installed]
    return [make_server(f"{address},{key}={value}") for address in addresses for key in ("rate", "language", "model")]


PARSERS: dict[str, Callable[[str], object]] = {
    "loss": loss_options,
    "engine": lambda value: parse_spec(f"fake,beam={value}"),
    "step": step_options,
    "server": server_options,
    "time": parse_time,
    "limit": lambda value: parse_limit(f"word_latency_p95<{value}"),
    "objective": lambda value: parse_objective(f"word_latency_p{value}<{value}"),
    "condition": lambda value: parse_condition(f"step_time < {value} of torch"),
    "schedule": lambda value: parse_schedule(f"wait={value}"),
    "override": lambda value: parse_override(f"limit={value}"),
    "destination": lambda value: parse_destination("slurm", f"cpu={value}"),
    "tracker": parse_target,
}


@pytest.mark.parametrize("name", PARSERS)
@given(value=VALUES)
@example(value="--5")
@example(value="-")
@example(value="²")
@example(value="1e999")
@example(value="nan")
@example(value=DEEP)
@example(value=LONG)
def test_any_value_is_taken_or_refused_in_words(name: str, value: str) -> None:
    # A setting's own check raises ValueError, which becomes an error of its flag.
    with suppress(ValueError if name == "time" else StopwavError):
        PARSERS[name](value)


@pytest.mark.parametrize(
    "arguments",
    [
        ("loss", "torch,range=--5"),
        ("loss", "k2-pruned,range=--5"),
        ("latency", "fake,beam=--5"),
        ("compare", "fake,beam=--5"),
        ("grid", "fake,beam=--5"),
        ("step", "conformer-transducer,symbols=--5"),
        ("step", "conformer-transducer,layers=--5"),
        ("loss", "torch", "--budget", "--5"),
        ("loss", "torch", "--batch-size", "--5"),
        ("loss", "torch", "--profile-schedule", "wait=--5"),
    ],
)
def test_the_command_says_it_in_a_line(arguments: tuple[str, ...], tmp_path: object) -> None:
    pytest.importorskip("torch")
    done = command(*arguments, *("--save", tmp_path))
    assert done.code != 0
    assert "Traceback" not in done.stdout + done.stderr
    assert "--5" in done.stderr or "k2" in done.stdout + done.stderr
