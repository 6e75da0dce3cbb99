"""The models of two runs that are held against each other: those of one name, or the only one of each run."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from stopwav.record import Record
from stopwav.studies.comparable import Comparable


@dataclass(frozen=True)
class ModelPair:
    """A model of run a and one of run b: their names, with which the names of their items begin, and their settings."""

    a: str
    b: str
    setting_a: str
    setting_b: str

    @property
    def differ(self) -> bool:
        """Whether they are not the same model, or not the same setting of it."""
        return self.setting_a != self.setting_b

    @property
    def title(self) -> str:
        """The name of the pair; of two models both, of the only model of a study without names none."""
        return self.a if self.a == self.b else f"{self.a} → {self.b}"

    @property
    def remark(self) -> str:
        """What differs between them, where their names do not say so."""
        if not self.differ or (self.a, self.b) == (self.setting_a, self.setting_b):
            return ""
        return f"{self.title or 'model'}: {self.setting_a} in a, {self.setting_b} in b"

    def holds(self, item: str) -> bool:
        """Whether an item of run a is of this model."""
        return not self.a or item == self.a or item.startswith(f"{self.a} ")

    def name_in_b(self, item: str) -> str:
        """Return what an item of this model is called in run b."""
        return f"{self.b}{item.removeprefix(self.a)}"

    def title_of(self, item: str) -> str:
        """Return what an item of this model is called in the comparison."""
        return f"{self.title}{item.removeprefix(self.a)}"

    def to_json(self) -> dict[str, str]:
        """Return the pair as `--json` prints it."""
        return {"name": self.title, "a": self.setting_a, "b": self.setting_b}


def pair_models(a: Record, b: Record, comparable: Comparable, *, by_name: bool) -> list[ModelPair]:
    """Return the pairs of models; unless they are paired `by_name` alone, two single ones are a pair as well."""
    in_a, in_b = comparable.models(a), comparable.models(b)
    pairs = [ModelPair(name, name, in_a[name], in_b[name]) for name in in_a if name in in_b]
    if not pairs and not by_name and len(in_a) == len(in_b) == 1:
        ((name_a, setting_a),), ((name_b, setting_b),) = in_a.items(), in_b.items()
        pairs = [ModelPair(name_a, name_b, setting_a, setting_b)]
    return pairs


def match_items(
    in_a: Collection[str], in_b: Collection[str], models: Sequence[ModelPair]
) -> dict[str, tuple[str, ModelPair | None]]:
    """Return the items of run a that run b has too: what they are called there, and the model that they are of."""
    matched: dict[str, tuple[str, ModelPair | None]] = {}
    # The longest name first: one engine's name may begin with that of another.
    by_length = sorted(models, key=lambda pair: len(pair.a), reverse=True)
    for item in in_a:
        pair = next((pair for pair in by_length if pair.holds(item)), None)
        name = item if pair is None else pair.name_in_b(item)
        if name in in_b:
            matched[item] = name, pair
    return matched
