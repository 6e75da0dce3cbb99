"""`stopwav demo`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from stopwav.cli.options import Json, NoHtml, Save
from stopwav.studies.budget import QUICK_S
from stopwav.studies.spec import DEFAULT_FOLDER

# Recognisers whose package contains a trained model: what a newcomer can run at once.
PACKAGED = ("pocketsphinx", "moonshine")


def demo(
    quick: Annotated[
        bool, typer.Option("--quick", help="Two utterances in one round, in some seconds: only to see that it works.")
    ] = False,
    save: Save = DEFAULT_FOLDER,
    no_html: NoHtml = False,
    json: Json = False,
) -> None:
    """Measure the packaged recognisers on the bundled corpus, in a minute."""
    import sys

    from stopwav.cli.live import Stopped, follow
    from stopwav.cli.output import print_run
    from stopwav.engines.registry import BUILT_IN
    from stopwav.studies.study import find_study

    packaged = [listed for listed in BUILT_IN if listed.name in PACKAGED]
    for listed in packaged:
        if listed.version is None:
            print(f"without {listed.name}: {listed.install}", file=sys.stderr)
    engines = [listed.name for listed in packaged if listed.version]
    code = None
    latency = find_study("latency")
    amount: dict[str, Any] = {"limit": 2, "rounds": 1} if quick else {"budget_s": QUICK_S}
    try:
        record = follow(lambda display: latency.run(engines, **amount, save=save, progress=display))
    except Stopped as stopped:
        record, code = stopped.record, stopped.code
    print_run(record, as_json=json, page=not no_html, code=code)
