"""`stopwav doctor`: what this machine is, what it can measure with, and what would spoil a measurement on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from stopwav.cli.options import Json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from stopwav.measure.machine import Machine
    from stopwav.studies.launch.checkup import Checkup, NodeCheckup


def doctor(
    on: Annotated[
        str | None,
        typer.Option(metavar="CLUSTER", help="Look at every machine of a cluster: ray, ray:HOST:PORT, or slurm."),
    ] = None,
    place: Annotated[
        str | None, typer.Option(metavar="RESOURCES", help="With --on slurm, how its jobs are submitted.")
    ] = None,
    json: Json = False,
) -> None:
    """Say what this machine is, what it can measure with, and what would spoil a measurement."""
    from stopwav.studies.launch.checkup import check_up

    if on is not None:
        _look_at_cluster(on, place, as_json=json)
        return
    checkup = check_up()
    if json:
        _print_json(_to_json(checkup))
    else:
        from stopwav.report.terminal import open_console

        _print_checkup(open_console(), checkup)


def _look_at_cluster(on: str, place: str | None, *, as_json: bool) -> None:
    """Print the checkup of each machine of a cluster; the exit code says whether all of them can be used."""
    from stopwav.cli.output import EXIT_PARTLY
    from stopwav.report.terminal import open_console
    from stopwav.studies.launch.checkup import check_up_cluster
    from stopwav.studies.launch.destination import parse_destination
    from stopwav.studies.launch.run import open_cluster

    cluster = open_cluster(parse_destination(on, place, shared=True))
    nodes = []
    try:
        for node in check_up_cluster(cluster):
            nodes.append(node)
            if not as_json:
                _print_node(open_console(), node)
    finally:
        cluster.close()
    if as_json:
        _print_json({"nodes": [_node_to_json(node) for node in nodes]})
    if not nodes or any(node.problems for node in nodes):
        raise typer.Exit(EXIT_PARTLY)


def _print_json(result: dict[str, Any]) -> None:
    """Print everything as one JSON object."""
    import json

    print(json.dumps(result, indent=2, ensure_ascii=False))


def _to_json(checkup: Checkup) -> dict[str, Any]:
    import dataclasses

    return {
        "stopwav": checkup.machine.packages.get("stopwav"),
        "machine": checkup.machine.as_dict(),
        "steadiness": dataclasses.asdict(checkup.steady),
        "sensors": [dataclasses.asdict(sensor) for sensor in checkup.sensors],
        "warnings": [dataclasses.asdict(caution) for caution in checkup.cautions],
    }


def _node_to_json(node: NodeCheckup) -> dict[str, Any]:
    checkup = {} if node.checkup is None else _to_json(node.checkup)
    return {"node": node.node, "problems": list(node.problems), **checkup}


def _print_node(console: Console, node: NodeCheckup) -> None:
    """Print the checkup of a machine of a cluster under its name, and whether it is set up as this one."""
    from rich.text import Text

    console.print(Text(node.node), style="bold reverse")
    if node.checkup is not None:
        _print_checkup(console, node.checkup)
    if node.problems:
        console.print(Text(f"cannot be used from here: {'; '.join(node.problems)}"), style="bold red", soft_wrap=True)
    else:
        console.print("the same stopwav, packages and folder as here", style="bold green")
    console.print()


def _print_checkup(console: Console, checkup: Checkup) -> None:
    """Print everything for a person, the verdict last."""
    rows = [*_machine_rows(checkup.machine), ("steadiness", f"the same work took {checkup.steady}")]
    _print_section(console, "Machine", rows)
    _print_section(
        console,
        "Sensors",
        [(sensor.name, sensor.detail if sensor.available else f"none: {sensor.detail}") for sensor in checkup.sensors],
    )
    if cautions := checkup.cautions:
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
