"""The pytest plugin. It is imported in every session where stopwav is installed, so it imports nothing that is slow."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from stopwav.testing.alone import turn
from stopwav.testing.measuring import Measuring

FIXTURE = "stopwav"
# The name of a note among a test's properties, which pytest carries from worker to controller and into JUnit's XML.
NOTE = "stopwav"
# Where the controller of xdist tells its workers the folder of the locks.
LOCKS = "stopwav_locks"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for where runs are saved."""
    group = parser.getgroup("stopwav")
    group.addoption(
        "--stopwav-save",
        metavar="DIR",
        help="Folder for the runs that tests measure; default: the ini setting stopwav_save, else stopwav-runs.",
    )
    parser.addini("stopwav_save", "Folder for the runs that tests measure, from the root of the tests.", default="")


def pytest_configure(config: pytest.Config) -> None:
    """Keep what this plugin needs for the session."""
    config.pluginmanager.register(_Session(config), "stopwav-session")


@pytest.fixture(scope="session")
def stopwav(request: pytest.FixtureRequest) -> Measuring:
    """The functions of stopwav. A test with this fixture runs alone, and its runs are saved and listed."""
    session = request.config.pluginmanager.get_plugin("stopwav-session")
    assert isinstance(session, _Session)
    return Measuring(session.save, session.note)


class _Session:
    """What a session, or under xdist a worker, keeps of the tests that measure."""

    def __init__(self, config: pytest.Config) -> None:
        given = config.getoption("--stopwav-save") or config.getini("stopwav_save") or "stopwav-runs"
        # Of an option from where the command was given, of a setting from the root: as pytest has it elsewhere.
        base = config.invocation_params.dir if config.getoption("--stopwav-save") else config.rootpath
        self.save = base / given
        self.item: pytest.Item | None = None
        self.measures = False
        self.locks: Path | None = None
        worker: dict[str, Any] | None = getattr(config, "workerinput", None)
        if worker is not None and LOCKS in worker:
            self.locks = Path(worker[LOCKS])

    def note(self, text: str) -> None:
        """Add a line to what the test in progress measured."""
        if self.item is not None:
            self.item.user_properties.append((NOTE, text))

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """See whether any test measures: where none does, no test waits for another."""
        self.measures = any(_measures(item) for item in items)

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Run a test that measures alone; outside of everything else, so that no time limit counts the waiting."""
        alone = turn(self.locks, alone=_measures(item)) if self.locks and self.measures else nullcontext()
        with alone:
            self.item = item
            yield
            self.item = None

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a worker of xdist where the locks are."""
        if self.locks is None:
            self.locks = Path(tempfile.mkdtemp(prefix="stopwav-"))
        node.workerinput[LOCKS] = str(self.locks)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """List what each test measured, and how it was judged."""
        notes: dict[str, dict[str, None]] = {}
        for reports in terminalreporter.stats.values():
            for report in reports:
                for name, text in getattr(report, "user_properties", ()):
                    if name == NOTE:
                        notes.setdefault(report.nodeid, {})[text] = None
        if notes:
            terminalreporter.section("stopwav")
        for nodeid, lines in notes.items():
            terminalreporter.write_line(nodeid)
            for text in lines:
                terminalreporter.write_line(f"  {text}")

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        """Remove the locks that this process made."""
        if self.locks is not None and not hasattr(config, "workerinput"):
            shutil.rmtree(self.locks, ignore_errors=True)


def _measures(item: pytest.Item) -> bool:
    return FIXTURE in getattr(item, "fixturenames", ())
