"""What a machine has to have in common with the one that drives a run: packages, folder, threads, and files."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from stopwav.measure.machine import THREAD_VARIABLES
from stopwav.plugins import entry_points
from stopwav.studies.digests import changed_file, missing_file

# So many files are read again on a machine, evenly from all of them: of the rest it is looked whether they are there.
# A corpus of 1,000 hours takes a quarter of an hour to read.
READ_FILES = 200
# Packages that add engines, servers or studies do so by these entry points.
GROUPS = ("stopwav.engines", "stopwav.servers", "stopwav.studies")
# More differences than this are a machine that was set up by another list altogether.
MOST_NAMED = 4
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class Environment:
    """What matters of the place in which a command was given."""

    folder: str
    # Where modules are looked for.
    path: tuple[str, ...]
    threads: Mapping[str, str]
    # The version of Python, of stopwav, and of every package that an engine of stopwav may need.
    packages: Mapping[str, str]


@dataclass(frozen=True)
class Welcome:
    """What a machine says of itself before it is measured on, and what it lacks."""

    # As the header of a run holds it.
    machine: Mapping[str, Any]
    problems: tuple[str, ...]


def current_environment() -> Environment:
    """Return that of this process."""
    threads = {name: os.environ[name] for name in THREAD_VARIABLES if name in os.environ}
    return Environment(os.getcwd(), tuple(sys.path), threads, installed_packages())


def installed_packages() -> dict[str, str]:
    """Return the version of Python, of stopwav, and of each installed package that it or an engine's package names."""
    requirements = metadata.requires("stopwav") or []
    names = [match[0] for text in requirements if (match := _NAME.match(text))]
    names += [point.dist.name for group in GROUPS for point in entry_points(group) if point.dist]
    versions = {"Python": platform.python_version()}
    for name in dict.fromkeys(["stopwav", *names]):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def adopt(environment: Environment) -> list[str]:
    """Make this process, and those it starts, work as the one that drives the run does; return what is amiss."""
    problems = list(_differences(environment.packages, installed_packages()))
    try:
        os.chdir(environment.folder)
    except OSError as error:
        problems.append(f"folder {environment.folder} is not there ({error.strerror})")
    sys.path += [entry for entry in environment.path if entry not in sys.path]
    for name in THREAD_VARIABLES:  # Ray sets one of them
        os.environ.pop(name, None)
    os.environ.update(environment.threads)
    return problems


def file_problem(digests: Mapping[str, str]) -> str:
    """Return the first file of a run that is not here, or not the same; "" where there is none."""
    if (missing := missing_file(digests)) is not None:
        return f"{missing} is not there"
    step = max(1, len(digests) // READ_FILES)
    read = dict(list(digests.items())[::step])
    return "" if (changed := changed_file(read)) is None else f"{changed} is not the same file there"


def _differences(here: Mapping[str, str], there: Mapping[str, str]) -> Iterator[str]:
    """A machine may have more packages, but none less, and each in the same version."""
    different = [
        f"{name} {version} here, {there.get(name, 'none')} there"
        for name, version in here.items()
        if there.get(name) != version
    ]
    yield from different[:MOST_NAMED]
    if len(different) > MOST_NAMED:
        yield f"{len(different) - MOST_NAMED} more packages differ"
