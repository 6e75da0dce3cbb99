"""docs/reference/python.md: every public name, with its signature and its docstring."""

import inspect
from collections.abc import Iterator
from pathlib import Path

import stopwav
from reference.markdown import code, fenced, page
from reference.source import type_name
from stopwav.measure.energy import EnergyReading
from stopwav.measure.memory import CudaMemory, CudaPeak, HostPeak
from stopwav.measure.sampler import Samples
from stopwav.profiling.analysis import DeviceUse, MemoryTimeline
from stopwav.profiling.operators import Kernel, Operator
from stopwav.profiling.peaks import Peak
from stopwav.profiling.profile import CallSample, PeakTotal, StageTotal
from stopwav.profiling.steps import Step
from stopwav.profiling.trace_diff import NameChange, NameTimes
from stopwav.profiling.trace_merge import TraceSource
from stopwav.speech.corpus import Corpus, Problem, Utterance, Word
from stopwav.stats import Estimate, Outliers, Verdict
from stopwav.stats.outliers import ControlChart

INTRODUCTION = """
`import stopwav` gives these names. Importing it imports neither torch nor an engine. Every verb of the [command
line](cli.md) calls a function listed here.
"""

RETURNED = """
Classes that those functions return or take as well. Import these from the modules named.
"""

# Values that the public names return: users read them and do not make them.
RETURNED_CLASSES = (
    *(Estimate, Verdict, Outliers, Samples, HostPeak, CudaPeak, CudaMemory, EnergyReading),
    *(Corpus, Utterance, Word, Problem),
)
# The same of the tools for the user's own code.
PROFILED_CLASSES = (
    StageTotal,
    PeakTotal,
    Step,
    CallSample,
    Peak,
    ControlChart,
    Operator,
    Kernel,
    DeviceUse,
    MemoryTimeline,
    NameChange,
    NameTimes,
    TraceSource,
)


class _Bare(str):
    """An annotation that prints without quotes: the package postpones annotations, so they are strings."""

    def __repr__(self) -> str:
        return str(self)


def render() -> str:
    """Return the page."""
    public = {name: getattr(stopwav, name) for name in stopwav.__all__}
    functions = [_function(name, value) for name, value in public.items() if inspect.isfunction(value)]
    classes = [_class(f"stopwav.{name}", value) for name, value in public.items() if inspect.isclass(value)]
    constants = [
        f"### stopwav.{name}\n\n{code(value)}"
        for name, value in public.items()
        if not inspect.isfunction(value) and not inspect.isclass(value) and name != "__version__"
    ]
    version = "### stopwav.\\_\\_version\\_\\_\n\nThe version, as a string."
    returned = [
        _class(f"{kind.__module__}.{kind.__qualname__}", kind) for kind in (*RETURNED_CLASSES, *PROFILED_CLASSES)
    ]
    return page(
        "Python",
        INTRODUCTION,
        "## Functions",
        *functions,
        "## Classes",
        *classes,
        "## Constants",
        *constants,
        version,
        "## Returned values",
        RETURNED,
        *returned,
    )


def _function(name: str, function: object) -> str:
    return f"### stopwav.{name}\n\n{fenced(f'{name}{_signature(function)}', 'text')}\n{inspect.getdoc(function)}"


def _class(name: str, kind: type) -> str:
    parts = [f"### {name}", inspect.getdoc(kind) or ""]
    if not getattr(kind, "_is_protocol", False) and not issubclass(kind, Exception):
        parts.insert(1, fenced(f"{kind.__name__}{_signature(kind)}", "text").strip())
    elif fields := inspect.get_annotations(kind):
        parts.append(
            "\n".join(f"- `{field}: {annotation}`" for field, annotation in fields.items() if not field.startswith("_"))
        )
    members = list(_members(kind))
    if members:
        parts.append("\n".join(members))
    return "\n\n".join(parts)


def _members(kind: type) -> Iterator[str]:
    """The methods and properties that a class defines itself."""
    for name, member in vars(kind).items():
        if name.startswith("_"):
            continue
        inner = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        if isinstance(inner, property):
            yield f"- `{name}`{_first_line(inner)}"
        elif inspect.isfunction(inner):
            yield f"- `{name}{_signature(inner, bound=True)}`{_first_line(inner)}"


def _first_line(member: object) -> str:
    text = inspect.getdoc(member)
    return f": {' '.join(text.split())}" if text else ""


def _signature(callable_: object, bound: bool = False) -> str:
    """The signature, one parameter per line where it is long."""
    signature = inspect.signature(callable_)  # type: ignore[arg-type]
    parameters = [_readable(parameter) for parameter in list(signature.parameters.values())[1 if bound else 0 :]]
    returns = signature.return_annotation
    returned = _Bare(returns) if isinstance(returns, str) and returns != "None" else inspect.Signature.empty
    bare = signature.replace(parameters=parameters, return_annotation=returned)
    text = str(bare)
    return text if bound or len(text) <= 100 else _broken(bare)


def _readable(parameter: inspect.Parameter) -> inspect.Parameter:
    """The parameter with its annotation without quotes and modules, and a plan or a path by name as its default."""
    plans = {getattr(stopwav, name): name for name in ("QUICK", "REPORT", "COMPARISON")}
    default = parameter.default
    if isinstance(default, stopwav.Plan):
        default = _Bare(plans[default])
    elif isinstance(default, Path):
        default = str(default)
    annotation = parameter.annotation
    if annotation is not inspect.Parameter.empty:
        annotation = _Bare(annotation if isinstance(annotation, str) else type_name(annotation))
    return parameter.replace(annotation=annotation, default=default)


def _broken(signature: inspect.Signature) -> str:
    lines: list[str] = []
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in lines:
            lines.append("*")
        lines.append(str(parameter))
    returned = signature.return_annotation
    arrow = "" if returned is inspect.Signature.empty else f" -> {returned}"
    return "(\n" + "".join(f"    {line},\n" for line in lines) + f"){arrow}"
