"""Engines by name: `NAME[:SOURCE][,key=value…]`, a class in the user's own file, or an entry point of a package."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import inspect
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any, get_args, get_type_hints

from stopwav.engines.label import check_label, read_label
from stopwav.engines.protocol import AudioProcessor, DescriptionError, Engine, EngineInfo, Knob, StreamingEngine
from stopwav.errors import StopwavError, suggestion
from stopwav.plugins import entry_points

ENTRY_POINTS = "stopwav.engines"
# Built-in engines of these packages import PyTorch with their module; the others import their toolkit when they load.
_ON_TORCH = ("torch", "transformers", "speechbrain")


@dataclass(frozen=True)
class EngineEntry:
    """An engine that can be named: where its class is, which package it needs, and how to install that."""

    name: str
    target: str
    package: str
    install: str
    summary: str
    # The model that its name has to give: a "folder", which may also be on the Hub, a "file", or else a file that is in
    # every model folder of the toolkit, also on the Hub. With a question mark the engine has one of its own.
    model: str = ""

    @property
    def version(self) -> str | None:
        """The installed version of its package, `None` where it is missing."""
        try:
            return importlib.metadata.version(self.package)
        except importlib.metadata.PackageNotFoundError:
            return None

    @property
    def is_light(self) -> bool:
        """Whether importing its class runs code of stopwav's own alone, or what this process has imported already."""
        return self in BUILT_IN and (self.package not in _ON_TORCH or "torch" in sys.modules)


def _built_in(name: str, target: str, package: str, extra: str, summary: str, model: str = "") -> EngineEntry:
    install = f"pip install 'stopwav[{extra}]'" if extra else "pip install stopwav"
    return EngineEntry(name, f"stopwav.engines.{target}", package, install, summary, model)


# Name, class, package, extra, summary, and the model to be named.
BUILT_IN = (
    _built_in(
        "pocketsphinx", "pocketsphinx:PocketSphinx", "pocketsphinx", "",
        "CMU PocketSphinx, US English, model in the package",
    ),
    _built_in(
        "moonshine", "moonshine:Moonshine", "moonshine-voice", "moonshine",
        "Moonshine tiny, English, model in the package",
        "folder?",
    ),
    _built_in(
        "emformer-rnnt", "emformer_rnnt:EmformerRnnt", "torch", "torch",
        "Emformer RNN-T base, a streaming transducer; `:torchaudio` for its weights, random without",
        "file?",
    ),
    _built_in(
        "conformer-hybrid", "hybrid_recogniser:conformer_hybrid", "torch", "torch",
        "Conformer with CTC and attention, 116 M parameters; random weights without a checkpoint",
        "file?",
    ),
    _built_in(
        "lstm-hybrid", "hybrid_recogniser:lstm_hybrid", "torch", "torch",
        "LSTM with CTC and attention, 8 M parameters; random weights without a checkpoint",
        "file?",
    ),
    _built_in(
        "transformers", "transformers_asr:Transformers", "transformers", "transformers",
        "Hugging Face models by folder or Hub name: CTC, encoder-decoder, transducer",
        "config.json",
    ),
    _built_in(
        "speechbrain", "speechbrain_asr:speechbrain", "speechbrain", "speechbrain",
        "SpeechBrain models by folder or Hub name; for grid also classifiers, VAD and separation",
        "hyperparams.yaml",
    ),
    _built_in(
        "faster-whisper", "faster_whisper_asr:FasterWhisper", "faster-whisper", "faster-whisper",
        "Whisper models that CTranslate2 converted, by folder or Hub name",
        "folder",
    ),
    _built_in(
        "sherpa-onnx", "sherpa_onnx_asr:sherpa_onnx", "sherpa-onnx", "sherpa-onnx",
        "ONNX models by folder or Hub name, offline and streaming; Moonshine tiny without one",
        "folder?",
    ),
    _built_in("vosk", "vosk_asr:Vosk", "vosk", "vosk", "Kaldi models by folder or Hub name", "folder"),
    _built_in("fake", "fake:Fake", "stopwav", "", "scripted times and texts, to check the instrument"),
)  # fmt: skip


@dataclass(frozen=True)
class EngineSpec:
    """The parts of an engine's name as the user wrote it, apart from its label."""

    text: str
    name: str
    source: str | None
    options: dict[str, Any]


def parse_spec(text: str) -> EngineSpec:
    """Parse `[LABEL=]NAME[:SOURCE][,key=value…]`."""
    check_label(text)
    head, *pairs = read_label(text).setting.split(",")
    name, _, source = head.partition(":")
    if not name:
        raise StopwavError(f"engine {text!r} has no name; write NAME[:SOURCE][,key=value…], such as pocketsphinx")
    options = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.isidentifier():
            raise StopwavError(f"engine {text!r}: {pair!r} is not key=value")
        options[key] = _parse_value(value)
    return EngineSpec(text, name, source or None, options)


def available() -> list[EngineEntry]:
    """Return every engine that can be named here: our own, and those of installed packages."""
    external = [
        EngineEntry(
            point.name,
            point.value,
            point.dist.name if point.dist else point.module,
            f"pip install {point.dist.name}" if point.dist else "",
            f"from package {point.dist.name}" if point.dist else "",
        )
        for point in entry_points(ENTRY_POINTS)
    ]
    return [*BUILT_IN, *external]


def find_entry(spec: EngineSpec) -> EngineEntry | None:
    """Return the entry that a spec names, None for a class in a user's own file; nothing is imported.

    A name that no engine has, a package that is not installed, and a file that is not there are errors.
    """
    if spec.name.endswith(".py"):
        if not Path(spec.name).is_file():
            raise StopwavError(f"engine {spec.text!r}: no file {spec.name!r}; write path/to/my_engine.py:MyEngine")
        if spec.source is None:
            raise StopwavError(f"engine {spec.text!r}: which class? write {spec.name}:MyEngine")
        return None
    entry = next((entry for entry in available() if entry.name == spec.name), None)
    if entry is None:
        otherwise = "`stopwav engines` lists them; one of your own is my_engine.py:Class"
        hint = suggestion(spec.name, [entry.name for entry in available()], otherwise)
        if spec.name.endswith((".yaml", ".yml")):
            hint = "a SpeechBrain recipe is read by `stopwav grid FILE`, `stopwav run FILE` and in plan files"
        raise StopwavError(f"unknown engine {spec.name!r}: {hint}")
    if entry.version is None:
        raise StopwavError(f"engine {spec.name!r} needs {entry.package}, which is not installed: {entry.install}")
    return entry


def find_class(spec: EngineSpec) -> Callable[..., object]:
    """Return the class or function that makes the engine; its module is imported here, and no other's.

    That may end or block the process: code of others is imported in a process of its own alone.
    """
    entry = find_entry(spec)
    if entry is None:
        return _from_file(spec)
    return _get_class(_import(entry), entry.target.partition(":")[2], spec.text)


def is_streaming(entry: EngineEntry) -> bool | None:
    """Whether the engine streams; `None` where its package is missing, or where the model decides."""
    if entry.version is None:
        return None
    return streams(_get_class(_import(entry), entry.target.partition(":")[2], entry.name))


def streams(factory: Callable[..., object]) -> bool | None:
    """Whether the engines that a class or function makes stream; `None` where only a loaded one tells."""
    if isinstance(factory, partial):  # one class for several names
        factory = factory.func
    made = factory if isinstance(factory, type) else get_type_hints(factory).get("return")
    streaming = {_has_open(kind) for kind in get_args(made) or (made,) if isinstance(kind, type)}
    return streaming.pop() if len(streaming) == 1 else None


def _has_open(kind: type) -> bool | None:
    if hasattr(kind, "open"):
        return True
    # A method may be made when the engine loads, or be looked up then.
    known = (hasattr(kind, "transcribe") or hasattr(kind, "process")) and not hasattr(kind, "__getattr__")
    return False if known else None


def _import(entry: EngineEntry) -> ModuleType:
    try:
        return importlib.import_module(entry.target.partition(":")[0])
    except ImportError as error:  # a package that its package needs
        raise StopwavError(f"engine {entry.name!r} does not import ({error}): {entry.install}") from error
    except (MemoryError, DescriptionError):
        raise
    except (Exception, SystemExit) as error:  # an exit would pass for a good end
        raise StopwavError(f"engine {entry.name!r} does not import ({error!r})") from error


def prepare(text: str) -> partial[object]:
    """Return a call that makes the engine; errors in the spec itself are raised here."""
    spec = parse_spec(text)
    factory = find_class(spec)
    arguments = dict(spec.options)
    if spec.source is not None and not spec.name.endswith(".py"):
        arguments["source"] = spec.source
    _check_arguments(spec, factory, arguments)
    return partial(factory, **arguments)


def make(text: str) -> Engine | StreamingEngine | AudioProcessor:
    """Return the engine that a spec names, loaded and ready."""
    engine = prepare(text)()
    if not isinstance(engine, (Engine, StreamingEngine, AudioProcessor)):
        missing = "no `info`" if not hasattr(engine, "info") else "neither open(), transcribe() nor process()"
        name = type(engine).__name__
        raise StopwavError(f"engine {text!r}: {name} has {missing}; see docs/guides/your-own-engine.md")
    if not isinstance(engine.info, EngineInfo):
        raise StopwavError(f"engine {text!r}: its info is {engine.info!r:.60}, not an EngineInfo")
    return engine


def make_streaming(text: str) -> StreamingEngine:
    """Return the streaming engine that a spec names, loaded and ready."""
    engine = make(text)
    if not isinstance(engine, StreamingEngine):
        raise not_streaming(text)
    return engine


def not_streaming(text: str) -> StopwavError:
    """Return the error of an engine that takes whole utterances only."""
    return StopwavError(f"engine {text!r} does not stream (it has no open()), and a streaming engine is needed here")


def list_knobs(text: str) -> list[Knob]:
    """Return the settings that an engine's class offers to try: the result of its optional method `variants`."""
    spec = parse_spec(text)
    factory = find_class(spec)
    variants = getattr(factory, "variants", None)
    if variants is None:
        raise StopwavError(
            f"engine {text!r} offers no settings to try: it has no variants(); see docs/guides/your-own-engine.md"
        )
    defaults: dict[str, Any] = {
        name: None if parameter.default is parameter.empty else parameter.default
        for name, parameter in inspect.signature(factory).parameters.items()
    }
    try:
        knobs = list(variants({**defaults, **spec.options}))
    except Exception as error:  # a third party's method may fail in any way
        raise StopwavError(f"engine {text!r}: its variants() failed: {error!r}") from error
    wrong = next((knob for knob in knobs if not isinstance(knob, Knob)), None)
    if wrong is not None:
        raise StopwavError(f"engine {text!r}: its variants() returned {wrong!r} where a Knob is expected")
    return knobs


def with_knob(text: str, knob: Knob) -> str:
    """Return the spec with the knob's options in place of its own, and without its label; new ones come last."""
    head, *pairs = read_label(text).setting.split(",")
    options = dict(pair.split("=", 1) for pair in [*pairs, *knob.text.split(",")])
    return ",".join([head, *(f"{key}={value}" for key, value in options.items())])


def _check_arguments(spec: EngineSpec, factory: Callable[..., object], arguments: dict[str, Any]) -> None:
    signature = inspect.signature(factory)
    try:
        signature.bind(**arguments)
    except TypeError as error:
        names = [name for name in signature.parameters if name != "source"]
        options = ", ".join(names) or "no options"
        raise StopwavError(f"engine {spec.text!r}: {error}; it takes {options}") from error


def _from_file(spec: EngineSpec) -> Callable[..., object]:
    path = Path(spec.name)
    assert spec.source is not None
    try:
        module = _module(path.absolute(), path.stat().st_mtime_ns)
    except (MemoryError, DescriptionError):
        raise
    except (Exception, SystemExit) as error:  # an exit would pass for a good end
        raise StopwavError(f"engine {spec.text!r}: {spec.name} failed to import: {error!r}") from error
    return _get_class(module, spec.source, spec.text)


@cache
def _module(path: Path, changed_ns: int) -> ModuleType:
    """The module of a user's file, imported once: many a file may not be run twice in a process."""
    module_spec = importlib.util.spec_from_file_location(path.stem, path)
    assert module_spec is not None
    assert module_spec.loader is not None
    module = importlib.util.module_from_spec(module_spec)
    module_spec.loader.exec_module(module)
    return module


def _get_class(module: ModuleType, name: str, text: str) -> Callable[..., object]:
    factory = getattr(module, name, None)
    if not callable(factory):
        values = [value for value in vars(module).values() if getattr(value, "__module__", "") == module.__name__]
        classes = [value.__name__ for value in values if isinstance(value, type)]
        raise StopwavError(f"engine {text!r}: no class {name!r}; the file has {', '.join(classes) or 'no classes'}")
    return factory  # type: ignore[no-any-return]


def _parse_value(text: str) -> Any:
    """Return the value of an option: a number or boolean if it is one in JSON, otherwise the text itself."""
    try:
        value = json.loads(text.lower() if text.lower() in ("true", "false") else text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, (int, float, bool)) else text
