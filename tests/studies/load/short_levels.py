"""The command line with levels of a second: `python short_levels.py load …`."""

import sys

from stopwav.studies.load import plan, schedule

STEADY_S = 1.0
RAMP_S = 0.5


def shorten() -> None:
    """Make levels of fixed plans short; a run is resumed with the same ones."""
    plan.THOROUGH_S = plan.PATIENCE_S = STEADY_S
    schedule.SHORTEST_RAMP_S = RAMP_S


if __name__ == "__main__":
    from stopwav.cli import main

    shorten()
    sys.argv[0] = "stopwav"
    main()
