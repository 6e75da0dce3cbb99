"""Engines by name: `NAME[:SOURCE][,key=value…]`, a file of the user's own, or an entry point of another package."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any

from stopwav.engines.protocol import Engine, StreamingEngine
from stopwav.errors import StopwavError, suggestion

ENTRY_POINTS = "stopwav.engines"


@dataclass(frozen=True)
class Listed:
    """An engine that can be named: where its class is, which package it needs, and how to get that."""

    name: str
    target: str
    package: str
    install: str
    summary: str

    @property
    def version(self) -> str | None:
        """The installed version of its package, `None` where it is missing."""
        try:
            return importlib.metadata.version(self.package)
        except importlib.metadata.PackageNotFoundError:
            return None


BUILT_IN = (
    Listed(
        "pocketsphinx",
        "stopwav.engines.pocketsphinx:PocketSphinx",
        "pocketsphinx",
        "pip install stopwav",
        "CMU PocketSphinx, US English, model in the package",
    ),
    Listed(
        "moonshine",
        "stopwav.engines.moonshine:Moonshine",
        "moonshine-voice",
        "pip install 'stopwav[moonshine]'",
        "Moonshine tiny, English, model in the package",
    ),
    Listed(
        "emformer-rnnt",
        "stopwav.engines.emformer_rnnt:EmformerRnnt",
        "torch",
        "pip install 'stopwav[torch]'",
        "Emformer RNN-T base, a streaming transducer; random weights without a checkpoint",
    ),
    Listed(
        "conformer-hybrid",
        "stopwav.engines.hybrid_recogniser:conformer_hybrid",
        "torch",
        "pip install 'stopwav[torch]'",
        "Conformer with CTC and attention, 116 M parameters; random weights without a checkpoint",
    ),
    Listed(
        "lstm-hybrid",
        "stopwav.engines.hybrid_recogniser:lstm_hybrid",
        "torch",
        "pip install 'stopwav[torch]'",
        "LSTM with CTC and attention, 8 M parameters; random weights without a checkpoint",
    ),
    Listed(
        "transformers",
        "stopwav.engines.transformers_asr:Transformers",
        "transformers",
        "pip install 'stopwav[transformers]'",
        "Hugging Face models by folder or Hub name: CTC, encoder-decoder, transducer",
    ),
    Listed(
        "speechbrain",
        "stopwav.engines.speechbrain_asr:SpeechBrain",
        "speechbrain",
        "pip install 'stopwav[speechbrain]'",
        "SpeechBrain models by folder or Hub name",
    ),
    Listed(
        "faster-whisper",
        "stopwav.engines.faster_whisper_asr:FasterWhisper",
        "faster-whisper",
        "pip install 'stopwav[faster-whisper]'",
        "Whisper models that CTranslate2 converted, by folder",
    ),
    Listed(
        "sherpa-onnx",
        "stopwav.engines.sherpa_onnx_asr:sherpa_onnx",
        "sherpa-onnx",
        "pip install 'stopwav[sherpa-onnx]'",
        "ONNX models by folder, offline and streaming; Moonshine tiny without one",
    ),
    Listed(
        "vosk",
        "stopwav.engines.vosk_asr:Vosk",
        "vosk",
        "pip install 'stopwav[vosk]'",
        "Kaldi models by folder",
    ),
    Listed(
        "fake",
        "stopwav.engines.fake:Fake",
        "stopwav",
        "pip install stopwav",
        "scripted times and texts, to check the instrument",
    ),
)


@dataclass(frozen=True)
class EngineSpec:
    """An engine as the user named it, taken apart."""

    text: str
    name: str
    source: str | None
    options: dict[str, Any]


def parse_spec(text: str) -> EngineSpec:
    """The parts of `NAME[:SOURCE][,key=value…]`."""
    head, *pairs = text.split(",")
    name, _, source = head.partition(":")
    if not name:
        raise StopwavError(f"engine {text!r} has no name; write NAME[:SOURCE][,key=value…], such as pocketsphinx")
    options = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.isidentifier():
            raise StopwavError(f"engine {text!r}: {pair!r} is not key=value")
        options[key] = _value(value)
    return EngineSpec(text, name, source or None, options)


def available() -> list[Listed]:
    """Every engine that can be named here: our own, and those of installed packages."""
    points = importlib.metadata.entry_points(group=ENTRY_POINTS)
    theirs = [
        Listed(
            point.name,
            point.value,
            point.dist.name if point.dist else point.module,
            f"pip install {point.dist.name}" if point.dist else "",
            f"from package {point.dist.name}" if point.dist else "",
        )
        for point in points
    ]
    return [*BUILT_IN, *theirs]


def find_class(spec: EngineSpec) -> Callable[..., object]:
    """What makes the engine; nothing is imported before it is named."""
    if spec.name.endswith(".py"):
        return _from_file(spec)
    listed = next((one for one in available() if one.name == spec.name), None)
    if listed is None:
        names = [one.name for one in available()]
        hint = suggestion(spec.name, names, ", or your own my_engine.py:Class")
        if spec.name.endswith((".yaml", ".yml")):
            hint = "a recipe of SpeechBrain's is read by the command `stopwav grid FILE` and in plan files alone"
        raise StopwavError(f"unknown engine {spec.name!r}: {hint}")
    if listed.version is None:
        raise StopwavError(f"engine {spec.name!r} needs {listed.package}, which is not installed: {listed.install}")
    module, _, attribute = listed.target.partition(":")
    try:
        return _attribute(importlib.import_module(module), attribute, spec.text)
    except ImportError as error:  # a package that its package needs
        raise StopwavError(f"engine {spec.name!r} does not import ({error}): {listed.install}") from error


def is_streaming(listed: Listed) -> bool | None:
    """Whether the engine streams; `None` where its package is missing or does not import, or it is up to the model."""
    if listed.version is None:
        return None
    module, _, attribute = listed.target.partition(":")
    try:
        maker = getattr(importlib.import_module(module), attribute)
    except Exception:  # a third party's module may fail in any way; the list is printed all the same
        return None
    if isinstance(maker, partial):  # one class for several names
        maker = maker.func
    return hasattr(maker, "open") if isinstance(maker, type) else None


def prepare(text: str) -> Callable[[], object]:
    """A call that makes the engine that a spec names; whatever is wrong with the spec itself is raised here."""
    spec = parse_spec(text)
    factory = find_class(spec)
    arguments = dict(spec.options)
    if spec.source is not None and not spec.name.endswith(".py"):
        arguments["source"] = spec.source
    _check_arguments(spec, factory, arguments)
    return partial(factory, **arguments)


@cache
def takes(text: str, option: str) -> bool:
    """Whether the engine that a spec names has such an option."""
    parameters = inspect.signature(find_class(parse_spec(text))).parameters.values()
    return any(one.name == option or one.kind is one.VAR_KEYWORD for one in parameters)


def make(text: str) -> Engine | StreamingEngine:
    """The engine that a spec names, loaded and ready."""
    engine = prepare(text)()
    if not isinstance(engine, (Engine, StreamingEngine)):
        lacks = "no `info`" if not hasattr(engine, "info") else "neither open() nor transcribe()"
        name = type(engine).__name__
        raise StopwavError(f"engine {text!r}: {name} has {lacks}; see docs/guides/your-own-engine.md")
    return engine


def make_streaming(text: str) -> StreamingEngine:
    """The streaming engine that a spec names, loaded and ready."""
    engine = make(text)
    if not isinstance(engine, StreamingEngine):
        raise StopwavError(f"engine {text!r} does not stream (it has no open()); latency needs one that does")
    return engine


def _check_arguments(spec: EngineSpec, factory: Callable[..., object], arguments: dict[str, Any]) -> None:
    signature = inspect.signature(factory)
    try:
        signature.bind(**arguments)
    except TypeError as error:
        names = [name for name in signature.parameters if name != "source"]
        takes = f"takes {', '.join(names)}" if names else "takes no options"
        raise StopwavError(f"engine {spec.text!r}: {error}; it {takes}") from error


def _from_file(spec: EngineSpec) -> Callable[..., object]:
    path = Path(spec.name)
    if not path.is_file():
        raise StopwavError(f"engine {spec.text!r}: no file {spec.name!r}; write path/to/my_engine.py:MyEngine")
    if spec.source is None:
        raise StopwavError(f"engine {spec.text!r}: which class? write {spec.name}:MyEngine")
    found = importlib.util.spec_from_file_location(path.stem, path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    try:
        found.loader.exec_module(module)
    except Exception as error:
        raise StopwavError(f"engine {spec.text!r}: {spec.name} failed to import: {error!r}") from error
    return _attribute(module, spec.source, spec.text)


def _attribute(module: ModuleType, name: str, text: str) -> Callable[..., object]:
    factory = getattr(module, name, None)
    if not callable(factory):
        own = (value for value in vars(module).values() if getattr(value, "__module__", "") == module.__name__)
        classes = [value.__name__ for value in own if isinstance(value, type)]
        raise StopwavError(f"engine {text!r}: no class {name!r}; the file has {', '.join(classes) or 'no classes'}")
    return factory  # type: ignore[no-any-return]


def _value(text: str) -> Any:
    """The value of an option: a JSON number or boolean where it reads as one, otherwise the text itself."""
    try:
        value = json.loads(text.lower() if text.lower() in ("true", "false") else text)
    except ValueError:
        return text
    return value if isinstance(value, (int, float, bool)) else text
