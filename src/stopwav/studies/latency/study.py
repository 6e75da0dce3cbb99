"""The Study object of `stopwav latency`: its settings, what measures it, and how its runs are shown."""

from __future__ import annotations

from stopwav.studies.latency.comparable import COMPARABLE
from stopwav.studies.latency.definitions import DEFINITIONS
from stopwav.studies.latency.document import latency_document
from stopwav.studies.latency.explain import explanation
from stopwav.studies.latency.forecast import forecast, problems, speeds
from stopwav.studies.latency.pairs import engine_verdicts
from stopwav.studies.latency.results import latency_results, latency_texts
from stopwav.studies.latency.run import latency
from stopwav.studies.latency.spec import LatencySpec
from stopwav.studies.latency.stored_pieces import latency_pieces, missing_keys
from stopwav.studies.latency.stream_trace import stream_trace
from stopwav.studies.latency.view import latency_view
from stopwav.studies.study import Study, lazily

STUDY = Study(
    name="latency",
    question="How long does a listener wait for each word of a streaming recogniser, and why?",
    spec=LatencySpec,
    run=latency,
    results=latency_results,
    document=latency_document,
    charts=lazily("stopwav.studies.latency.charts", "latency_charts"),
    definitions=DEFINITIONS,
    pieces=latency_pieces,
    missing=missing_keys,
    example={"engines": ["pocketsphinx"]},
    forecast=forecast,
    speeds=speeds,
    problems=problems,
    extras={
        "explanation": lambda run: explanation(run.record),
        "verdicts": lambda run: engine_verdicts(run.record),
    },
    view=latency_view,
    comparable=COMPARABLE,
    texts=latency_texts,
    trace=stream_trace,
    failure_codes=("stream-",),
    followed=("engine",),
)
