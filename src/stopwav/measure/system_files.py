"""The files in which Linux describes itself, and what they say of this process's control group: limits, throttling."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

# Version 1 writes "no limit" as the largest page-aligned 64-bit number.
UNLIMITED_BYTES = 2**60


def read_text(path: Path) -> str:
    """Return a file's text, stripped; empty where the file is missing or unreadable."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def cpu_quota(root: Path = Path("/")) -> float | None:
    """Return the number of cores that the tightest group allows, or None without a quota."""
    quotas = []
    for group in _groups(root, "cpu"):
        if words := _words(group, "cpu.max"):  # version 2: "200000 100000" or "max 100000"
            quota, period = words[0], words[1]
        else:
            quota_words, period_words = _words(group, "cpu.cfs_quota_us"), _words(group, "cpu.cfs_period_us")
            quota = quota_words[0] if quota_words else "-1"
            period = period_words[0] if period_words else "100000"
        if quota not in ("max", "-1"):
            quotas.append(int(quota) / int(period))
    return min(quotas, default=None)


def memory_limit_bytes(root: Path = Path("/")) -> int | None:
    """Return the bytes that the tightest group allows, or None without a limit."""
    limits = []
    for group in _groups(root, "memory"):
        words = _words(group, "memory.max") or _words(group, "memory.limit_in_bytes")
        if words and words[0] != "max" and int(words[0]) < UNLIMITED_BYTES:
            limits.append(int(words[0]))
    return min(limits, default=None)


def quota_throttle_count(root: Path = Path("/")) -> int | None:
    """Return how often this group or a parent exhausted its CPU quota, or None where that is not counted."""
    counts = []
    for group in _groups(root, "cpu"):
        words = _words(group, "cpu.stat")
        if "nr_throttled" in words:
            counts.append(int(words[words.index("nr_throttled") + 1]))
    return sum(counts) if counts else None


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """Yield the folders of this process's group and its parents that have the controller, innermost first."""
    mount = root / "sys/fs/cgroup"
    for line in read_text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        # An empty list of controllers is version 2, mounted at the top, or under "unified" next to version 1.
        names = [controllers, controller] if controllers else [".", "unified"]
        base = next((mount / name for name in names if (mount / name / "cgroup.procs").exists()), None)
        if base is None:
            continue
        # Inside a container the path may name folders that only the host sees: missing ones are skipped.
        group = base / path.strip("/")
        chain = [group, *group.parents]
        yield from (folder for folder in chain[: chain.index(base) + 1] if folder.is_dir())


def _words(group: Path, name: str) -> list[str]:
    """Return the words of a group's file, none where it cannot be read."""
    return read_text(group / name).split()
