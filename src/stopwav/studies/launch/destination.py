"""Where a run is to measure, as the command line says it: the cluster, the machine in it, and whether it is shared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from stopwav.errors import StopwavError, suggestion

Scheduler = Literal["ray", "slurm"]


@dataclass(frozen=True)
class Destination:
    """A cluster, and which of its machines: `wanted` are resources by name, as `gpu` with the type H200."""

    scheduler: Scheduler
    # Of Ray: where its cluster is; "" for that of this machine. Of Slurm: "" or `local`, which starts jobs here.
    address: str = ""
    wanted: Mapping[str, str] = field(default_factory=dict)
    # Whether other work may run on the machine at the same time.
    shared: bool = False

    def __str__(self) -> str:
        return self.scheduler + (f":{self.address}" if self.address else "")


def parse_destination(on: str, place: str | None = None, shared: bool = False) -> Destination:
    """Return the destination that `--on`, `--place` and `--shared` name."""
    name, _, address = on.partition(":")
    for scheduler in get_args(Scheduler):
        if name == scheduler:
            return Destination(scheduler, address, _wanted(place or ""), shared)
    raise StopwavError(f"--on {on}: {suggestion(name, get_args(Scheduler))}")


def _wanted(place: str) -> dict[str, str]:
    wanted: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in place.split(","))):
        name, equals, value = (text.strip() for text in part.partition("="))
        if not (name and equals and value):
            raise StopwavError(f"--place {place}: write NAME=VALUE[,NAME=VALUE…], such as gpu=H200")
        wanted[name] = value
    return wanted
