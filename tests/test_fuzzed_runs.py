"""Run files edited at random go through `report`, `diff`, `gate` and `history`: shown, or refused in one line."""

import random
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from command_line import Done, command
from fuzzed_run import fuzzed

DATA = Path(__file__).parent / "data"
RUNS = sorted(DATA.glob("*.jsonl"))
# Far more than any of these files takes, also on a busy machine.
LIMIT_S = 60
MEDIA = (["--json"], ["--csv"], ["--markdown"], ["--all"], ["--print-texts"], ["--json", "--print-texts"])


@contextmanager
def time_limit(what: str) -> Iterator[None]:
    def stop(number: int, frame: object) -> None:
        raise AssertionError(f"{what}: no end within {LIMIT_S} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(LIMIT_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def outcome(done: Done, what: str) -> str:
    assert "Traceback" not in done.stderr, f"{what}: {done.stderr}"
    if done.code != 2:
        return "shown"
    lines = [line for line in done.stderr.splitlines() if not line.startswith("stopwav: skipped")]
    assert len(lines) <= 1, f"{what}: {done.stderr}"
    return "refused"


def commands(run: Path, original: Path, folder: Path, seed: int) -> Iterator[list[object]]:
    choice = random.Random(seed)
    media: list[object] = [*choice.choice(MEDIA)]
    if seed % 50 == 0:  # charts and pages take most of the time
        media = ["--html", folder / "page.html"]
    elif seed % 50 == 1 and run.name.startswith("latency"):
        media = ["--trace", folder / "trace.json"]
    yield ["report", run, *media]
    pair = [run, original] if choice.random() < 0.5 else [original, run]
    yield ["diff", *pair, *choice.choice(([], ["--force"], ["--json"]))]
    yield ["gate", *pair, *choice.choice(([], ["--force"], ["--allow-incomplete"]))]
    # Tables alone: a page has every chart of every run.
    yield ["history", folder / "runs", "--json"]


def check(seeds: range, folder: Path) -> Counter[str]:
    outcomes = Counter[str]()
    (folder / "runs").mkdir()
    for seed in seeds:
        original = RUNS[seed % len(RUNS)]
        run = folder / "runs" / original.name
        run.write_bytes(fuzzed(original.read_bytes(), seed))
        for arguments in commands(run, original, folder, seed):
            what = f"seed {seed}: {' '.join(map(str, arguments))}"
            with time_limit(what):
                try:
                    done = command(*arguments)
                except Exception as error:
                    raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error
            outcomes[f"{arguments[0]} {outcome(done, what)}"] += 1
        run.unlink()
    return outcomes


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seeds", [range(30), pytest.param(range(30, 10_030), marks=pytest.mark.soak)], ids=len)
def test_edited_runs_are_shown_or_refused_in_one_line(seeds: range, tmp_path: Path) -> None:
    outcomes = check(seeds, tmp_path)
    print(f"{len(seeds)} edited runs: {dict(sorted(outcomes.items()))}")
    assert outcomes["report refused"] > len(seeds) / 4
    assert outcomes["report shown"] > len(seeds) / 20
