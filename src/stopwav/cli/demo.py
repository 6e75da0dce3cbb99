"""`stopwav demo`."""

from __future__ import annotations

from stopwav.cli.options import Json, NoHtml, Save
from stopwav.studies.spec import DEFAULT_FOLDER

# Recognisers whose package contains a trained model: what a newcomer can run at once.
PACKAGED = ("pocketsphinx", "moonshine")


def demo(
    save: Save = DEFAULT_FOLDER,
    no_html: NoHtml = False,
    json: Json = False,
) -> None:
    """Measure the packaged recognisers on the bundled corpus, in about two minutes."""
    import sys

    from stopwav.cli.output import print_run, progress_bar
    from stopwav.engines.registry import BUILT_IN
    from stopwav.studies.study import find_study

    packaged = [listed for listed in BUILT_IN if listed.name in PACKAGED]
    for listed in packaged:
        if listed.version is None:
            print(f"without {listed.name}: {listed.install}", file=sys.stderr)
    engines = [listed.name for listed in packaged if listed.version]
    with progress_bar() as progress:
        # One round: the point is to see it work; `stopwav latency` takes three.
        record = find_study("latency").run(engines, rounds=1, save=save, progress=progress)
    print_run(record, as_json=json, page=not no_html)
