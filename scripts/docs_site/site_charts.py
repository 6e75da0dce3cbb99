"""The charts of the guides: from stored runs, as images wherever the sources are read, and alive on the site."""

import re
from functools import cache
from html import escape
from pathlib import Path

from hybrid_charts import CURVES, hybrid_chart

from stopwav.record import Record
from stopwav.report.assets import as_json
from stopwav.report.chart import Chart
from stopwav.studies.study import StudyRun

RUNS = Path(__file__).parent.parent.parent / "docs" / "runs"
# The name of the image in docs/images, the run file in docs/runs, and the chart of that run.
CHARTS = {
    "word-latency-parts": ("latency.jsonl", "waterfall"),
    "word-latency-positions": ("latency.jsonl", "positions"),
    "grid-rtfx": ("grid.jsonl", "rtfx"),
    "load-curve": ("load.jsonl", "curve-final_latency_p95"),
    "compare-length": ("compare.jsonl", "latency"),
}
_IMAGE = re.compile(r'<img alt="[^"]*" src="[^"]*images/([\w-]+)\.svg"[^>]*>')


@cache
def _charts(run: str) -> dict[str, Chart]:
    return dict(StudyRun(Record.read(RUNS / run)).charts)


def chart_of_image(name: str) -> Chart:
    """Return the chart that an image of the guides shows."""
    if name in CURVES:
        return hybrid_chart(name)
    run, chart = CHARTS[name]
    return _charts(run)[chart]


def live_charts(html: str) -> str:
    """Return a page in which each image of a chart is a chart that a script draws; without one it stays an image."""

    def live(image: re.Match[str]) -> str:
        if image[1] not in {**CHARTS, **CURVES}:
            return image[0]
        chart = chart_of_image(image[1])
        keys = "".join(f'<li><i style="background: {key.colour}"></i>{escape(key.label)}</li>' for key in chart.legend)
        return (
            f'<span class="stopwav-chart" role="img" aria-label="{escape(chart.description)}">{image[0]}'
            f'<script type="application/json">{as_json(chart.spec)}</script></span>'
            f'<ul class="stopwav-legend" aria-hidden="true">{keys}</ul>'
        )

    return _IMAGE.sub(live, html)
