"""`@stopwav.profile` on a class: which methods it takes, and that they stay what they were."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import pytest

import stopwav
from fake_clock import FakeClock


def profiled(cls: type) -> set[str]:
    """The names of the methods that a class has of its own and that are profiled."""
    members = {name: getattr(member, "__func__", member) for name, member in vars(cls).items()}
    return {name for name, member in members.items() if isinstance(getattr(member, "profile", None), stopwav.Profile)}


def calls(method: Any) -> int:
    profile: stopwav.Profile = method.profile
    return profile.calls


@stopwav.profile(report=False)
class Recogniser:
    """Its own words."""

    factor = 3

    def __init__(self, loaded: bool = True) -> None:
        self.loaded = loaded

    def __call__(self, value: int) -> int:
        return self.transcribe(value)

    def transcribe(self, value: int) -> int:
        return self.factor * value

    def _search(self) -> int:
        return 1

    def chunks(self) -> Iterator[int]:
        yield 1

    async def answer(self) -> str:
        return "done"

    @property
    def state(self) -> int:
        return 1

    @cached_property
    def slow_state(self) -> int:
        return 2

    @staticmethod
    def plain(value: int) -> int:
        return value

    @classmethod
    def of(cls, value: int) -> tuple[type, int]:
        return cls, value

    class Inner:
        def method(self) -> int:
            return 1

    run = transcribe


def test_public_methods_and_call_are_profiled_and_nothing_else() -> None:
    assert profiled(Recogniser) == {"__call__", "transcribe", "answer", "plain", "of", "run"}
    assert profiled(Recogniser.Inner) == set()
    assert Recogniser.__doc__ == "Its own words."


def test_every_kind_of_method_still_works_and_is_counted() -> None:
    engine = Recogniser()
    before = {name: calls(getattr(Recogniser, name)) for name in ("__call__", "transcribe", "plain", "of", "answer")}
    assert (engine(2), engine.plain(5), Recogniser.plain(6)) == (6, 5, 6)
    assert engine.of(1) == Recogniser.of(1) == (Recogniser, 1)
    assert (asyncio.run(engine.answer()), engine.state, engine.slow_state) == ("done", 1, 2)
    assert list(engine.chunks()) == [1]
    assert (Recogniser.Inner().method(), engine._search()) == (1, 1)
    counted = {name: calls(getattr(Recogniser, name)) - count for name, count in before.items()}
    # One call of __call__, which calls transcribe.
    assert counted == {"__call__": 1, "transcribe": 1, "plain": 2, "of": 2, "answer": 1}
    assert pickle.loads(pickle.dumps(engine)).loaded is True


def test_a_function_of_two_names_is_one() -> None:
    profile: stopwav.Profile = Recogniser.transcribe.profile  # type: ignore[attr-defined]
    assert Recogniser.run.profile is profile  # type: ignore[attr-defined]
    assert profile.name == f"{__name__}.Recogniser.transcribe"
    assert stopwav.profiles()[profile.name] is profile


def test_a_method_that_a_class_inherits_is_its_bases() -> None:
    clock = FakeClock()

    class Base:
        def fit(self) -> None:
            clock.advance(2)

        def evaluate(self) -> None:
            clock.advance(1)

    @stopwav.profile(report=False, clock=clock)
    class Derived(Base):
        def evaluate(self) -> None:
            super().evaluate()
            clock.advance(3)

    Derived().fit()
    Derived().evaluate()
    assert (profiled(Base), profiled(Derived)) == (set(), {"evaluate"})
    assert Derived.evaluate.profile.walls_s == (4,)  # type: ignore[attr-defined]


def test_named_methods_may_be_inherited_or_private_and_the_base_stays_as_it_is() -> None:
    clock = FakeClock()

    class Base:
        def fit(self) -> None:
            clock.advance(2)

        @classmethod
        def of(cls) -> type:
            return cls

    @stopwav.profile("brain", report=False, clock=clock, methods=["fit", "_step", "of"])
    class Derived(Base):
        def _step(self) -> None:
            clock.advance(1)

        def other(self) -> None: ...

    Derived().fit()
    Derived()._step()
    Base().fit()
    assert Derived.of() is Derived
    assert (profiled(Base), profiled(Derived)) == (set(), {"fit", "_step", "of"})
    assert Derived.fit.profile.walls_s == (2,)  # type: ignore[attr-defined]
    assert Derived.fit.profile.name == "brain.fit"  # type: ignore[attr-defined]


def test_a_method_that_is_decorated_itself_is_left_alone() -> None:
    @stopwav.profile(report=False)
    class Twice:
        @stopwav.profile("its own name", report=False)
        def run(self) -> None: ...

    Twice().run()
    assert Twice.run.profile.name == "its own name"  # type: ignore[attr-defined]
    assert calls(Twice.run) == 1


def test_the_forward_of_a_module_is_profiled() -> None:
    torch = pytest.importorskip("torch")

    @stopwav.profile(report=False)
    class Net(torch.nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(4, 2)

        def forward(self, x: Any) -> Any:
            with stopwav.stage("linear"):
                return self.linear(x)

    net = Net()
    assert net(torch.ones(3, 4)).shape == (3, 2)
    assert profiled(Net) == {"forward"}
    assert Net.forward.profile.stages["linear"].calls == 1
    assert set(net.state_dict()) == {"linear.weight", "linear.bias"}


def test_what_cannot_be_is_said() -> None:
    class Empty:
        size = 1

        def _hidden(self) -> None: ...

    with pytest.raises(stopwav.StopwavError, match="Empty has no public method of its own; name them: methods="):
        stopwav.profile(Empty)
    with pytest.raises(stopwav.StopwavError, match="has no method 'transcibe'; did you mean 'transcribe'"):
        stopwav.profile(Recogniser, methods=["transcibe"])
    with pytest.raises(stopwav.StopwavError, match="has no method 'state'"):
        stopwav.profile(Recogniser, methods=["state"])
    with pytest.raises(
        stopwav.StopwavError, match=r"methods='fit' is one text; give a list, such as methods=\['fit'\]"
    ):
        stopwav.profile(Recogniser, methods="fit")
    with pytest.raises(stopwav.StopwavError, match=r"methods= is for classes, and .*profiled is none"):
        stopwav.profile(profiled, methods=["x"])
