"""The settings of `stopwav loss`."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from stopwav.errors import StopwavError
from stopwav.measure.plan import Plan
from stopwav.speech.shapes import SUBSAMPLING
from stopwav.studies.budget import BudgetedSpec
from stopwav.studies.shape_settings import Frames, ShapeSource, SizeChoice, Subsampling, Tokenizer
from stopwav.studies.spec import Option, PythonOnly
from stopwav.studies.traces import ScheduleText

# The published experiment: batches of 30, 500 symbols, outputs of 512.
BATCH_SIZE, VOCAB, DIM = 30, 500, 512
# A batch takes few values, as there are many batches: what differs between them is more than what differs within one.
BATCHES = 10
LOSS_PLAN = Plan(min_values=5, max_values=30, warmup_s=0.2, min_values_s=0.2, max_values_s=5.0)
# The schedule that older tables of losses were measured under.
PROFILE_SCHEDULE = "wait=10,warmup=10,active=20,repeat=2"

Precision = Literal["float32", "tf32", "bfloat16", "float16", "float64"]
Order = Literal["shuffled", "file", "sorted", "longest-first", "columns-independently"]
Sort = Literal["pairs", "columns-independently", False]
# The order that each value of the older --sort stands for.
_SORT_ORDERS: dict[Sort, Order] = {"pairs": "sorted", "columns-independently": "columns-independently"}


class LossSpec(BudgetedSpec):
    """The settings of a loss run."""

    losses: Annotated[
        list[str],
        Option(
            "Losses, as NAME[,key=value…] or your own as my_loss.py:my_loss; without any, all that are installed.",
            positional=True,
            metavar="NAME",
        ),
    ] = Field(default_factory=list)
    shapes: ShapeSource = "librispeech"
    tokenizer: Tokenizer = None
    frames: Frames = None
    subsampling: Subsampling = SUBSAMPLING
    size: SizeChoice = None
    # One, or several that are compared; kept in rising order, each once.
    batch_size: Annotated[
        list[int] | None, Option("Utterances per batch, published 30; several, with commas, are compared.")
    ] = Field(default=None, min_length=1)
    max_frames: Annotated[int | None, Option("Frames per batch before padding, instead of --batch-size.")] = Field(
        default=None, gt=0
    )
    order: Annotated[
        Order | None,
        Option(
            "How utterances are ordered before batches are cut: `shuffled`, the default, as in the `file`, `sorted` by "
            "length, or `longest-first`. `columns-independently` sorts frames and tokens separately, longest first: "
            "the mistake of older tables, whose (T, U) pairs mostly exist in no utterance."
        ),
    ] = None
    sort: Annotated[
        Sort,
        Option(
            "The same as --order sorted; `--sort columns-independently` as --order columns-independently.",
            metavar="[ORDER]",
            bare="pairs",
        ),
    ] = False
    buckets: Annotated[int | None, Option("Batch within this many equally filled ranges of length.")] = Field(
        default=None, gt=0
    )
    batches: Annotated[int | None, Option("Batches to measure, over the whole range of lengths; published 10.")] = (
        Field(default=None, gt=0)
    )
    first: Annotated[int | None, Option("Measure the first batches, this many, instead of --batches.")] = Field(
        default=None, gt=0
    )
    skip: Annotated[int, Option("Batches to leave out before --first.")] = Field(default=0, ge=0)
    vocab: Annotated[list[int], Option("Symbols, blank included; several, with commas, are compared.")] = Field(
        default=[VOCAB], min_length=1
    )
    dim: Annotated[int, Option("Size of the outputs of encoder and predictor.")] = Field(default=DIM, gt=0)
    blank: Annotated[int, Option("The index of the blank symbol.")] = Field(default=0, ge=0)
    dtype: Annotated[
        Precision, Option("float32, tf32, float64, or bfloat16 or float16 for the joiner under autocast.")
    ] = "float32"
    device: Annotated[str, Option("cpu, cuda or cuda:N.")] = "cpu"
    largest_batch: Annotated[bool, Option("Find the largest batch that fits, by bisection.")] = False
    profile: Annotated[
        bool, Option("Profile each loss once more afterwards, for Perfetto; no number comes from it.", stored=False)
    ] = False
    profile_schedule: Annotated[
        ScheduleText, Option("Steps to wait, warm up and record under --profile, and repetitions.", stored=False)
    ] = PROFILE_SCHEDULE
    time_limit_s: Annotated[float, Option("Seconds that one batch of a loss may take in a round.")] = Field(
        default=300.0, gt=0
    )
    memory_limit_gb: Annotated[
        float | None, Option("GB of host memory that a process may use before it counts as out of memory.")
    ] = Field(default=None, gt=0)
    seed: Annotated[int, Option("Seed of shapes, batches and inputs.")] = Field(default=0, ge=0)
    # How a round is measured, where it is not as the default plan says.
    plan: Annotated[Plan | None, PythonOnly()] = None

    @field_validator("losses", mode="before")
    @classmethod
    def _each_once(cls, names: Any) -> Any:
        return list(dict.fromkeys(names or ()))

    @field_validator("shapes", mode="before")
    @classmethod
    def _as_text(cls, path: Any) -> str:
        return str(path)

    @field_validator("batch_size", "vocab", mode="before")
    @classmethod
    def _several(cls, value: Any) -> Any:
        return [value] if isinstance(value, int) else value

    @field_validator("batch_size", "vocab")
    @classmethod
    def _rising(cls, values: list[int] | None, field: ValidationInfo) -> list[int] | None:
        if values is None:
            return None
        # A vocabulary is a blank and one more symbol at the least.
        least = 2 if field.field_name == "vocab" else 1
        if min(values) < least:
            raise ValueError(f"each must be {least} or more")
        return sorted(set(values))

    @field_validator("sort", mode="before")
    @classmethod
    def _flag(cls, value: Any) -> Any:
        # In a file it may stand as the flag does.
        return "pairs" if value is True else value or False

    @model_validator(mode="after")
    def _one_size(self) -> LossSpec:
        names = ("batch_size", "max_frames", "batches", "first")
        given = [name for name in names if getattr(self, name) is not None]
        given += [name for name, usual in (("vocab", [VOCAB]), ("dim", DIM)) if getattr(self, name) != usual]
        if self.size == "fit" and given:
            flag = given[0].replace("_", "-")
            raise ValueError(f"--size fit chooses the size of batches, and --{flag} gives it: leave out one of them")
        self.size = self.size or ("published" if given or not self.is_budgeted else "fit")
        return self

    @model_validator(mode="after")
    def _one_order(self) -> LossSpec:
        if self.sort:
            order = _SORT_ORDERS[self.sort]
            if self.order not in (None, order):
                raise ValueError(f"--sort is --order {order}, and --order is {self.order}: give --order alone")
            self.order = order
        self.order = self.order or "shuffled"
        self.sort = next((sort for sort, order in _SORT_ORDERS.items() if order == self.order), False)
        return self

    @model_validator(mode="after")
    def _one_choice(self) -> LossSpec:
        if self.first is None:
            if self.skip:
                raise ValueError(f"--skip {self.skip}: needs --first, the number of batches to measure after these")
            self.batches = self.batches or (None if self.is_fitted else BATCHES)
            return self
        if self.batches not in (None, self.first):
            raise ValueError("--first and --batches: give one of them, not both")
        self.batches = self.first
        return self

    @model_validator(mode="after")
    def _one_batching(self) -> LossSpec:
        if self.max_frames is not None and self.batch_size is not None:
            raise ValueError("--max-frames and --batch-size: give one of them, not both")
        if self.max_frames is None and self.batch_size is None and not self.is_fitted:
            self.batch_size = [BATCH_SIZE]
        return self

    @property
    def is_fitted(self) -> bool:
        """Whether the size of batches is chosen for the machine: the header of the run then says which it is."""
        return self.size == "fit"


def plan_of(spec: LossSpec) -> Plan:
    """Return how the rounds of a run are measured."""
    return replace(spec.plan or LOSS_PLAN, rounds=spec.rounds or 1, time_limit_s=spec.time_limit_s, seed=spec.seed)


def check_settings(spec: LossSpec) -> None:
    """Raise where the settings do not go together."""
    from stopwav.engines.toolkit import check_torch_device

    if not spec.losses:
        raise StopwavError(
            "no loss is installed here: pip install 'stopwav[torch]'; `stopwav loss --list` has them all"
        )
    if spec.profile and any(name.partition(",")[0] == "oracle" for name in spec.losses):
        raise StopwavError(
            "--profile with oracle: it computes one cell at a time, and a trace of that is gigabytes; "
            "leave oracle out, or profile `torch`, which computes the same"
        )
    if spec.device != "cpu":
        check_torch_device("loss", spec.device)
    elif spec.dtype == "tf32":
        raise StopwavError("--dtype tf32: only CUDA devices have it; give float32, or --device cuda")
    if spec.blank >= min(spec.vocab):
        raise StopwavError(f"--blank {spec.blank}: has to be one of the {min(spec.vocab)} symbols of --vocab")
