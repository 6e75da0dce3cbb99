"""`stopwav doctor`: what this machine is, what it can measure with, and what would spoil a measurement on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stopwav.cli.options import Json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from stopwav.errors import Caution
    from stopwav.measure.health import Sensor, Steadiness
    from stopwav.measure.machine import Machine


def doctor(
    json: Json = False,
) -> None:
    """Say what this machine is, what it can measure with, and what would spoil a measurement."""
    from stopwav.measure.health import health, list_sensors, steadiness

    cautions = health()

    from stopwav.measure.machine import describe

    steady = steadiness()
    machine, sensors = describe(), list_sensors()
    cautions += steady.cautions() + _without_fft(machine)
    if json:
        _print_json(machine, steady, sensors, cautions)
    else:
        from stopwav.report.terminal import open_console

        rows = [*_machine_rows(machine), ("steadiness", f"the same work took {steady}")]
        _print_text(open_console(), rows, sensors, cautions)


def _without_fft(machine: Machine) -> list[Caution]:
    """A warning where PyTorch has no FFT, as in some builds for small boards; stopwav works all the same."""
    if "torch" not in machine.packages:
        return []
    from stopwav.errors import Caution

    try:
        from stopwav.models.features import has_fft
    except (ImportError, OSError):  # a PyTorch that does not load is another matter
        return []
    if has_fft():
        return []
    message = (
        f"PyTorch {machine.packages['torch']} was built without MKL or another FFT, so torch.stft fails here: our own "
        "models compute features by a matrix product, the same in more time; other toolkits may fail"
    )
    return [Caution("no-fft", message)]


def _print_json(machine: Machine, steady: Steadiness, sensors: Sequence[Sensor], cautions: Sequence[Caution]) -> None:
    """Print everything as one JSON object."""
    import dataclasses
    import json

    result: dict[str, Any] = {
        "stopwav": machine.packages.get("stopwav"),
        "machine": machine.as_dict(),
        "steadiness": dataclasses.asdict(steady),
        "sensors": [dataclasses.asdict(sensor) for sensor in sensors],
        "warnings": [dataclasses.asdict(caution) for caution in cautions],
    }
    print(json.dumps(result, indent=2, ensure_ascii=False))


def _print_text(
    console: Console, rows: Sequence[tuple[str, str]], sensors: Sequence[Sensor], cautions: Sequence[Caution]
) -> None:
    """Print everything for a person, the verdict last."""
    _print_section(console, "Machine", rows)
    _print_section(
        console,
        "Sensors",
        [(sensor.name, sensor.detail if sensor.available else f"none: {sensor.detail}") for sensor in sensors],
    )
    if cautions:
        _print_section(console, "Warnings", [(caution.code, caution.message) for caution in cautions])
        noun = "warning" if len(cautions) == 1 else "warnings"
        console.print(f"usable, with {len(cautions)} {noun}", style="bold yellow")
    else:
        console.print("ready", style="bold green")


def _print_section(console: Console, title: str, rows: Sequence[tuple[str, str]]) -> None:
    """Print a heading and, under it, names with what belongs to them."""
    import textwrap

    from rich.text import Text

    console.print(title, style="bold")
    column = max(len(name) for name, _ in rows) + 4  # two before the name, two after it
    for name, detail in rows:
        lines = textwrap.wrap(detail, max(20, console.width - column), break_on_hyphens=False)
        console.print(Text(f"  {name}".ljust(column) + ("\n" + " " * column).join(lines)), soft_wrap=True)
    console.print()


def _machine_rows(machine: Machine) -> list[tuple[str, str]]:
    """The machine, in lines for a person."""
    cores = f"{machine.logical_cores} logical"
    if machine.physical_cores:
        cores += f", {machine.physical_cores} physical"
    if machine.usable_cores < machine.logical_cores:
        cores += f", {machine.usable_cores:g} usable by this process"
    memory = _gib(machine.memory_bytes)
    if machine.memory_limit_bytes is not None and machine.memory_limit_bytes < machine.memory_bytes:
        memory += f", limited to {_gib(machine.memory_limit_bytes)}"
    rows = [("cpu", machine.cpu), ("cores", cores), ("memory", memory), ("system", machine.system)]
    hidden = {"virtual": machine.virtual_machine, "container": machine.container}
    rows += [(label, text) for label, text in hidden.items() if text]
    rows.append(("python", machine.python + (", debug build" if machine.debug_build else "")))
    for gpu in machine.gpus:
        size = "" if gpu.memory_bytes is None else f", {_gib(gpu.memory_bytes)}"
        rows.append(("gpu", f"{gpu.name}{size}, driver {gpu.driver}"))
    if machine.packages:
        rows.append(("packages", ", ".join(f"{name} {version}" for name, version in machine.packages.items())))
    if machine.threads:
        rows.append(("threads", ", ".join(f"{name}={value}" for name, value in machine.threads.items())))
    rows.append(("fingerprint", machine.fingerprint))
    return rows


def _gib(size_bytes: int) -> str:
    """A size in GiB with one decimal."""
    return f"{size_bytes / 2**30:.1f} GiB"
