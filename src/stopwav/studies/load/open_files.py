"""How many files a process may have open: each stream takes one, and systems allow 256 or 1,024 unless asked."""

from __future__ import annotations

import contextlib
import resource


def allow_open_files() -> int:
    """Raise the limit of this process to the most that it may have; return it."""
    soft, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    # macOS says "no limit" and then refuses more than this.
    wanted = 10_240 if most == resource.RLIM_INFINITY else most
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
