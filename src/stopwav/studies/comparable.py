"""How two runs of a study are compared: by values per round of each item, and by errors per utterance."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from stopwav.record import Record
from stopwav.stats import Estimate, Rule
from stopwav.stats.change import Quantity, Question, ask_errors, ask_estimates, ask_nothing, ask_ratio
from stopwav.studies.engine_names import engine_settings


@dataclass(frozen=True)
class NoValue:
    """Why there is no value, for people and as a code."""

    reason: str
    code: str = ""


@dataclass(frozen=True)
class RoundMetric:
    """A metric that is compared: its name in results, its unit, and what less and more of it are called."""

    name: str
    unit: str
    quantity: Quantity


# The values of a metric, one per round, or one number of the whole run, such as a count; and the errors of each
# utterance, mean over rounds, with its length.
Values = list[float] | Estimate | NoValue
Errors = tuple[list[float], list[int]] | NoValue


@dataclass(frozen=True)
class ComparableItem:
    """An item of one run, such as an engine, a loss, or a row of a training step.

    Rounds are fresh processes and independent of each other, chunks and words are not; so a round gives one value.
    """

    # The values of a metric over these utterances.
    values: Callable[[RoundMetric, set[str]], Values]
    # The utterances that completed in every round, with their transcripts (None for one without); None for an item that
    # has no utterances.
    utterances: Mapping[str, str | None] | None = None
    # The errors of an error rate in these utterances, of those that have a transcript.
    errors: Callable[[str, Sequence[str]], Errors] | None = None
    rounds: int = 0
    # Rounds that stopped before their last utterance; they are not used.
    unfinished_rounds: int = 0
    # The names of its metrics; None for all of the study's.
    metrics: tuple[str, ...] | None = None
    # Of an item that is a part of another one, such as a module of a step, its name beneath it; "" for a whole one.
    part: str = ""
    # How deep a part stands in the tree of parts.
    depth: int = 0
    # Whether another run may be without it and nothing is lost, such as a module that has another name there.
    optional: bool = False


@dataclass(frozen=True)
class Comparable:
    """How runs of a study are compared."""

    # What an item is called, such as "engine".
    noun: str
    metrics: tuple[RoundMetric, ...]
    items: Callable[[Record], dict[str, ComparableItem]]
    # The settings of a run that must be equal, by what they are called.
    settings: Callable[[Record], Mapping[str, object]] = lambda record: {}
    # The same of one item, as far as the run knows them.
    item_settings: Callable[[Record, str], Mapping[str, object]] = lambda record, name: {}
    # The models of a run: the setting of each, by the name with which the names of its items begin.
    models: Callable[[Record], Mapping[str, str]] = lambda record: engine_settings(record.header.spec)
    # Those of `item_settings` that a model brings with it: they may differ where it does.
    model_settings: tuple[str, ...] = ()
    # Whether its items are engines that can take turns in one run, for a race.
    races: bool = False
    # The metrics that mean something else where a setting differs, by that setting.
    bound_metrics: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # The rates of errors that are compared by utterance, such as "wer".
    error_rates: tuple[str, ...] = ()
    # Whether further rounds bring further utterances, so that they may decide an error rate.
    rounds_add_utterances: bool = False
    # What an item is measured on, where that is not an utterance.
    sample: str = "utterance"

    @property
    def metric_names(self) -> tuple[str, ...]:
        """The names of everything that is compared."""
        return (*(metric.name for metric in self.metrics), *self.error_rates)

    def counted(self, count: int) -> str:
        """Return a number of samples in words."""
        return f"{count} {self.sample}{'' if count == 1 else 'es' if self.sample.endswith('ch') else 's'}"

    def metrics_of(self, a: ComparableItem, b: ComparableItem) -> tuple[RoundMetric, ...]:
        """Return the metrics that an item has in one of two runs or in both."""
        if a.metrics is None or b.metrics is None:
            return self.metrics
        return tuple(metric for metric in self.metrics if metric.name in (*a.metrics, *b.metrics))


def ask_metric(
    metric: RoundMetric, a: Values, b: Values, threshold: float, *, paired: bool = False, rule: Rule = "fixed"
) -> Question:
    """Return the question whether a metric differs; without data where a or b has no value."""
    for values in (a, b):
        if isinstance(values, NoValue):
            return ask_nothing(metric.name, metric.unit, threshold, values.reason, values.code)
        if isinstance(values, Estimate) and values.value is None:
            return ask_nothing(metric.name, metric.unit, threshold, values.note, values.code)
    assert not isinstance(a, NoValue)
    assert not isinstance(b, NoValue)
    if isinstance(a, Estimate) or isinstance(b, Estimate):
        assert isinstance(a, Estimate)
        assert isinstance(b, Estimate)
        return ask_estimates(metric.name, metric.unit, metric.quantity, a, b, threshold)
    return ask_ratio(metric.name, metric.unit, metric.quantity, a, b, threshold, paired=paired, rule=rule)


def ask_error_rate(metric: str, a: Errors, b: Errors, threshold: float) -> Question:
    """Return the question whether an error rate differs; without data where a or b has none."""
    for errors in (a, b):
        if isinstance(errors, NoValue):
            return ask_nothing(metric, "", threshold, errors.reason, errors.code)
    return ask_errors(metric, a[0], b[0], a[1], threshold)  # type: ignore[index]
