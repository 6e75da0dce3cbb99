"""Short comparisons of scripted engines, and comparisons made up from numbers."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import stopwav
from stopwav import Plan, Round
from stopwav.measure.sampler import Samples
from stopwav.piece import Piece
from stopwav.record import Header, Record
from stopwav.studies.compare.pieces import length_place
from stopwav.studies.compare.spec import CompareSpec
from stopwav.studies.stored_rounds import round_to_piece

# The rules of a full plan, small enough for a test.
FAST = Plan(min_values=3, max_values=5, warmup_s=0, min_values_s=0.01, max_values_s=0.2)
WORDS = "one two three four five six seven eight nine ten"

# A model with a tied embedding, as an engine.
TORCH_ENGINE = """
import torch
from stopwav import EngineInfo
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = torch.nn.Sequential(torch.nn.Linear(160, 8, bias=False), torch.nn.Linear(8, 8))
        self.embedding = torch.nn.Embedding(5, 8)
        self.output = torch.nn.Linear(8, 5, bias=False)
        self.output.weight = self.embedding.weight
        self.output.weight.requires_grad_(False)
class Tied:
    def __init__(self):
        self.network = Net().eval()
        self.info = EngineInfo(name='tied', version='1', untrained=True, language='de')
    def transcribe(self, batch):
        with torch.inference_mode():
            samples = torch.from_numpy(batch[0].samples)
            frames = samples[: len(samples) // 160 * 160].view(-1, 160)
            self.network.output(self.network.encoder(frames))
        self.emitted_tokens = [len(frames)]
        return ['noise']
"""


def run(engines: Sequence[str], save: Path, **options: Any) -> Record:
    """Return a quick comparison: one round, one short length, two inputs."""
    small = {"rounds": 1, "frames": [10], "samples": 2, "plan": FAST}
    return stopwav.compare(engines, save=save, **{**small, **options})


def torch_engine(folder: Path) -> str:
    """Return the name of an engine with a torch network of known size."""
    path = folder / "tied.py"
    path.write_text(TORCH_ENGINE)
    return f"{path}:Tied"


def info(name: str, **more: Any) -> dict[str, Any]:
    """Return the description of a made-up engine."""
    return {"name": name, "version": "1", "device": "cpu", "notes": [], "parameters": None, "untrained": False, **more}


def made_up(
    folder: Path,
    time_s: Callable[[str, int, int], float | str],
    *,
    errors: Callable[[str, int], int] = lambda name, place: 0,
    engines: Sequence[str] = ("a", "b"),
    infos: dict[str, dict[str, Any]] | None = None,
    counted: dict[str, dict[str, Any]] | None = None,
    rounds: int = 10,
    budgeted: bool = False,
    samples: int = 20,
    utterances: int = 20,
    more: Sequence[Piece] = (),
    **spec: Any,
) -> Record:
    """Return a run in which engine `name` takes `time_s(name, frames, round)`; samples last 100 frames.

    `counted` has the parameters of engines that are torch networks. A `budgeted` run has as many rounds as its budget
    had time for.
    """
    full = CompareSpec(engines=list(engines), rounds=None if budgeted else rounds, samples=samples, **spec)
    ids = [f"u{index}" for index in range(utterances)]
    header = Header(
        stopwav="0.1.0",
        study="compare",
        started="2026-01-01T00:00:00Z",
        spec=full.stored(),
        machine={"cpu": "made up", "fingerprint": "f" * 12},
        normaliser={"name": "stopwav-english", "version": 1},
        corpus={
            "name": "made up",
            "digest": "0" * 16,
            "problems": [],
            "cautions": [],
            "utterances": [_utterance(name) for name in ids],
            "inputs": [ids[place % utterances] for place in range(samples)],
        },
    )
    known = infos or {}
    with Record.create(folder / f"compare-{len(list(folder.glob('compare-*')))}.jsonl", header) as record:
        for name in engines:
            own = known.get(name, info(name))
            model = {"engine": own, "parameters": (counted or {}).get(name)}
            record.append(Piece(key=["model", name], status="ok", data=model))
            for index in range(rounds):
                for frames in full.frames:
                    round_ = _round(index, time_s(name, frames, index), own)
                    record.append(round_to_piece(length_place(name, frames).key(index, 0), round_))
                for place in range(index, samples, rounds):
                    seconds = time_s(name, 100, index)
                    if isinstance(seconds, float):
                        record.append(_sample(name, index, place, header.corpus["inputs"][place], seconds, errors))
        for piece in more:
            record.append(piece)
        record.finish()
    return record


def whole(folder: Path, engines: Sequence[str] = ("small", "large"), **options: Any) -> Record:
    """Return a run with everything that a comparison can have.

    The first engine has a tenth of the parameters, takes half as long, and gets three times as many words wrong; a
    third one crashes at every length and has no samples.
    """
    frames = [100, 200, 400, 800]
    place = {name: index for index, name in enumerate(engines)}

    def time_s(name: str, length: int, index: int) -> float | str:
        if place[name] == 2:
            return "crashed"
        drift = 1 + 0.1 * (index % 3) + 0.01 * ((index + place[name]) % 2)
        return (0.02 + 0.1 * length / 100) * drift * (1 + place[name])

    counted = {
        name: modules(encoder=9 * 10 ** (5 + index), decoder=10 ** (5 + index))
        for name, index in place.items()
        if index < 2
    }
    meters = Piece(key=["meters"], status="ok", data={"source": "bench", "missing": []})
    joules = [
        _energy(name, length, index, 10.0 * length / 100 * (1 + place[name]) * (1 + 0.01 * index))
        for name in engines[:2]
        for length in frames
        for index in range(3)
    ]
    full: dict[str, Any] = {"frames": frames, "energy": True, "more": [meters, *joules], "counted": counted}
    return made_up(
        folder,
        time_s,
        engines=engines,
        errors=lambda name, sample: (3 if place[name] == 0 else 1) if sample % 2 else 0,
        **{**full, **options},
    )


def modules(**counts: int) -> dict[str, Any]:
    """Return the parameters of a torch network with these modules, as a run stores them."""
    parts = [{"name": name, "parameters": n, "trainable": n, "bytes": 4 * n} for name, n in counts.items()]
    total = sum(counts.values())
    return {"parameters": total, "trainable": total, "bytes": 4 * total, "modules": parts, "shared": []}


def _energy(name: str, frames: int, index: int, joules: float) -> Piece:
    """The piece of a process in which an input takes these joules in each of three windows, and idling 10 W."""
    begin_s = 1.7e9 + 1000.0 * index
    windows = [
        {"begin_s": begin_s + 10 * k, "seconds": 2.0, "iterations": 4, "joules": {"cpu package": 4 * joules}}
        for k in (1, 2, 3)
    ]
    idle = {"begin_s": begin_s, "seconds": 2.0, "iterations": 1, "joules": {"cpu package": 20.0}}
    data = {"source": "bench", "tick_s": 0.1, "whole": ["cpu package"], "idle": idle, "windows": windows}
    return Piece(key=["energy", index, name, frames], status="ok", data=data)


def _utterance(name: str) -> dict[str, Any]:
    return {"id": name, "path": f"{name}.wav", "start_s": 0.0, "end_s": 1.0, "text": WORDS, "words": []}


def _round(index: int, outcome: float | str, engine: dict[str, Any]) -> Round:
    """A round that took these seconds, or ended with this status."""
    if isinstance(outcome, str):
        return Round(index, outcome, f"message of {outcome}")  # type: ignore[arg-type]
    samples = Samples(2 * outcome, (outcome,) * 3, 1, (outcome,) * 10, (), ({},) * 10, ())
    return Round(index, "ok", load_s=0.5, samples=samples, facts={"engine": engine})


def _sample(
    name: str, index: int, place: int, utterance: str, seconds: float, errors: Callable[[str, int], int]
) -> Piece:
    words = WORDS.split()
    text = " ".join([*["wrong"] * errors(name, place), *words[errors(name, place) :]])
    data = {"id": utterance, "seconds": seconds, "audio_s": 1.0, "text": text, "emitted_tokens": None}
    return Piece(key=["sample", index, name, place], status="ok", data=data)
