"""The description of an engine holds plain values, whatever its author put there, and refuses what cannot be."""

import json
from enum import IntEnum
from pathlib import Path

import numpy as np
import pytest

from stopwav.engines.protocol import EngineInfo
from stopwav.errors import StopwavError


class Unprintable:
    """A value that cannot even be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no")


class Size(IntEnum):
    """A number of a type that another process does not have."""

    SMALL = 5


def test_numbers_and_names_of_other_types_become_plain() -> None:
    info = EngineInfo(
        name=Path("my/model"),  # type: ignore[arg-type]
        version=np.float32(1.5),  # type: ignore[arg-type]
        sample_rate_hz=np.int64(8000),  # type: ignore[arg-type]
        chunk_s=np.float32(0.5),  # type: ignore[arg-type]
        parameters=np.int64(7),  # type: ignore[arg-type]
        notes=[Path("a"), 3],  # type: ignore[arg-type]
        untrained=np.bool_(True),  # type: ignore[arg-type]
    )
    shown = json.loads(json.dumps(info.to_json()))
    assert shown["name"] == "my/model"
    assert (shown["sample_rate_hz"], shown["chunk_s"], shown["parameters"]) == (8000, 0.5, 7)
    assert (shown["notes"], shown["untrained"], shown["version"]) == (["a", "3"], True, "1.5")
    assert EngineInfo("x", "1", notes="one note").notes == ("one note",)  # type: ignore[arg-type]
    assert EngineInfo("x", "1", notes={"a": {"b": 1}}).notes == ("{'a': {'b': 1}}",)  # type: ignore[arg-type]
    assert EngineInfo("x", "1", notes=np.array(["a", "b"])).notes == ("a", "b")  # type: ignore[arg-type]
    assert EngineInfo(b"x", "1", notes=None).to_json()["notes"] == []  # type: ignore[arg-type]
    assert EngineInfo(b"x", "1").name == "x"  # type: ignore[arg-type]
    assert type(EngineInfo("x", "1", parameters=Size.SMALL).parameters) is int


def test_what_was_changed_since_is_checked_again() -> None:
    info = EngineInfo("x", "1")
    object.__setattr__(info, "chunk_s", np.float32(0.5))
    assert type(info.to_json()["chunk_s"]) is float
    object.__setattr__(info, "lookahead_s", float("nan"))
    with pytest.raises(StopwavError, match="lookahead_s is nan"):
        info.to_json()


def test_what_torch_calls_a_device_and_a_size_is_plain_too() -> None:
    torch = pytest.importorskip("torch")
    info = EngineInfo("x", "1", device=torch.device("cpu"), precision=torch.float16, parameters=torch.tensor(5))
    assert (info.device, info.precision, info.parameters) == ("cpu", "torch.float16", 5)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("lookahead_s", -0.1),
        ("lookahead_s", float("nan")),
        ("chunk_s", float("inf")),
        ("chunk_s", 0),
        ("chunk_s", "0.1"),
        ("sample_rate_hz", 16_000.5),
        ("sample_rate_hz", -1),
        ("sample_rate_hz", None),
        ("parameters", "many"),
        ("parameters", -1),
        ("name", None),
        ("lookahead_s", 10**400),
        ("lookahead_s", np.array([0.1, 0.2])),
        ("parameters", 10**400),
        ("parameters", np.array([1, 2])),
        ("parameters", True),
        ("parameters", {"encoder": 1}),
        ("sample_rate_hz", b"16000"),
        ("untrained", "no"),
        ("untrained", np.array([True, False])),
        ("notes", [None]),
        ("model", Unprintable()),
    ],
)
def test_what_cannot_be_is_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(StopwavError, match=field):
        EngineInfo(**{"name": "x", "version": "1", field: value})  # type: ignore[arg-type]
