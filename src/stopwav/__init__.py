"""stopwav, the stopwatch for speech recognition.

    import stopwav

    stopwav.measure(lambda: sorted(data))        # rounds in fresh processes, with an interval
    stopwav.race(old, new).verdict               # interleaved and paired: faster, slower, same, … or undecided
    with stopwav.stage("features"): ...          # mark a part of a call
    @stopwav.profile                             # any function or block: time, stages, memory, a table at exit
    stopwav.latency(["pocketsphinx"])            # how long a listener waits for each word, and why
    stopwav.grid("pocketsphinx")                 # real-time factor and peak memory over duration × batch size
    stopwav.compare(["pocketsphinx", "moonshine"])   # size, latency, energy, word errors; `card` has the verdicts
    stopwav.load(["pocketsphinx"])      # how many streams it carries, under an objective
    stopwav.loss(["torch", "torchaudio"])        # which transducer loss: right, fast, small, on realistic shapes
    stopwav.step("conformer-transducer")         # where a training step goes, module by module
    stopwav.corpus("recordings/")                # what is in a corpus, before anything is measured
    stopwav.serve("moonshine")                   # an engine behind four protocols, until Ctrl-C
    stopwav.run("plan.yaml")                     # the studies that a file describes
    stopwav.compare_baseline("run.jsonl")        # is a run worse than the stored one of this machine?
    stopwav.gate_race("base.py:Mine", "change.py:Mine")   # is a change worse? Both take turns in one run

Importing it imports neither torch nor any engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

# `measure` is a package and, for the user, the function in it: bound here, after the package, the function wins.
from stopwav.errors import Caution, StopwavError
from stopwav.measure.plan import COMPARISON, QUICK, REPORT, FunctionWorkload, Plan, Workload
from stopwav.measure.rounds import Measurement, Race, Round, measure, race
from stopwav.measure.stages import stage

if TYPE_CHECKING:
    from stopwav.engines.protocol import BatchingEngine, Engine, EngineInfo, Knob, Session, StreamingEngine
    from stopwav.measure.training_step import TrainingBatch
    from stopwav.profiling.analysis import TraceAnalysis, analyse
    from stopwav.profiling.calls import profile, profiles
    from stopwav.profiling.profile import Profile
    from stopwav.profiling.schedule import Schedule
    from stopwav.profiling.steps import Steps, profile_steps
    from stopwav.profiling.trace_diff import TraceDiff, diff_traces
    from stopwav.profiling.trace_merge import MergedTrace, merge_traces
    from stopwav.record import Record, Result
    from stopwav.servers.serve.background import BackgroundServer
    from stopwav.servers.serve.options import ServeOptions
    from stopwav.servers.serve.server import serve
    from stopwav.speech.audio import Audio
    from stopwav.speech.corpus import load_corpus
    from stopwav.speech.events import Hypothesis
    from stopwav.stats import Estimate, Verdict
    from stopwav.studies.compare.card import Card, card
    from stopwav.studies.compare.run import compare
    from stopwav.studies.corpus_description import CorpusDescription, corpus
    from stopwav.studies.diff.baseline import compare_baseline, list_baselines, save_baseline
    from stopwav.studies.diff.diff import diff, diff_runs
    from stopwav.studies.diff.gate import gate
    from stopwav.studies.diff.race import gate_race
    from stopwav.studies.diff.requirements import gate_conditions
    from stopwav.studies.grid.run import grid
    from stopwav.studies.latency.explain import explanation
    from stopwav.studies.latency.run import latency
    from stopwav.studies.load.run import load
    from stopwav.studies.loss.run import loss
    from stopwav.studies.plan.run import run
    from stopwav.studies.step.run import step
    from stopwav.studies.study import results
    from stopwav.testing.requirement import require

__version__ = "0.1.0"

# Names that bring numpy, pydantic or more with them: imported when first used, so that `stopwav --help` is quick.
_LAZY = {
    "Audio": "stopwav.speech.audio",
    "BackgroundServer": "stopwav.servers.serve.background",
    "BatchingEngine": "stopwav.engines.protocol",
    "Card": "stopwav.studies.compare.card",
    "CorpusDescription": "stopwav.studies.corpus_description",
    "Engine": "stopwav.engines.protocol",
    "Estimate": "stopwav.stats",
    "EngineInfo": "stopwav.engines.protocol",
    "Hypothesis": "stopwav.speech.events",
    "Knob": "stopwav.engines.protocol",
    "MergedTrace": "stopwav.profiling.trace_merge",
    "Profile": "stopwav.profiling.profile",
    "Record": "stopwav.record",
    "Result": "stopwav.record",
    "Schedule": "stopwav.profiling.schedule",
    "ServeOptions": "stopwav.servers.serve.options",
    "Session": "stopwav.engines.protocol",
    "Steps": "stopwav.profiling.steps",
    "StreamingEngine": "stopwav.engines.protocol",
    "TraceAnalysis": "stopwav.profiling.analysis",
    "TraceDiff": "stopwav.profiling.trace_diff",
    "TrainingBatch": "stopwav.measure.training_step",
    "Verdict": "stopwav.stats",
    "analyse": "stopwav.profiling.analysis",
    "card": "stopwav.studies.compare.card",
    "compare": "stopwav.studies.compare.run",
    "compare_baseline": "stopwav.studies.diff.baseline",
    "corpus": "stopwav.studies.corpus_description",
    "load": "stopwav.studies.load.run",
    "diff": "stopwav.studies.diff.diff",
    "diff_runs": "stopwav.studies.diff.diff",
    "diff_traces": "stopwav.profiling.trace_diff",
    "explanation": "stopwav.studies.latency.explain",
    "gate": "stopwav.studies.diff.gate",
    "gate_conditions": "stopwav.studies.diff.requirements",
    "gate_race": "stopwav.studies.diff.race",
    "grid": "stopwav.studies.grid.run",
    "latency": "stopwav.studies.latency.run",
    "list_baselines": "stopwav.studies.diff.baseline",
    "load_corpus": "stopwav.speech.corpus",
    "loss": "stopwav.studies.loss.run",
    "merge_traces": "stopwav.profiling.trace_merge",
    "profile": "stopwav.profiling.calls",
    "profile_steps": "stopwav.profiling.steps",
    "profiles": "stopwav.profiling.calls",
    "require": "stopwav.testing.requirement",
    "results": "stopwav.studies.study",
    "run": "stopwav.studies.plan.run",
    "save_baseline": "stopwav.studies.diff.baseline",
    "serve": "stopwav.servers.serve.server",
    "step": "stopwav.studies.step.run",
}

__all__ = [
    "COMPARISON",
    "QUICK",
    "REPORT",
    "Audio",
    "BackgroundServer",
    "BatchingEngine",
    "Card",
    "Caution",
    "CorpusDescription",
    "Engine",
    "EngineInfo",
    "Estimate",
    "FunctionWorkload",
    "Hypothesis",
    "Knob",
    "Measurement",
    "MergedTrace",
    "Plan",
    "Profile",
    "Race",
    "Record",
    "Result",
    "Round",
    "Schedule",
    "ServeOptions",
    "Session",
    "Steps",
    "StopwavError",
    "StreamingEngine",
    "TraceAnalysis",
    "TraceDiff",
    "TrainingBatch",
    "Verdict",
    "Workload",
    "__version__",
    "analyse",
    "card",
    "compare",
    "compare_baseline",
    "corpus",
    "diff",
    "diff_runs",
    "diff_traces",
    "explanation",
    "gate",
    "gate_conditions",
    "gate_race",
    "grid",
    "latency",
    "list_baselines",
    "load",
    "load_corpus",
    "loss",
    "measure",
    "merge_traces",
    "profile",
    "profile_steps",
    "profiles",
    "race",
    "require",
    "results",
    "run",
    "save_baseline",
    "serve",
    "stage",
    "step",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'stopwav' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_LAZY[name]), name)
