"""docs/reference/python.md: every public name, with its signature and its docstring."""

import inspect
from collections.abc import Iterator
from pathlib import Path

import stopwav
from reference.markdown import code, fenced, page
from stopwav.measure.energy import EnergyReading
from stopwav.measure.memory import CudaMemory, CudaPeak, HostPeak
from stopwav.measure.sampler import Samples
from stopwav.profiling.analysis import DeviceUse, Kernel, MemoryTimeline, Operator
from stopwav.profiling.call_sample import CallSample
from stopwav.profiling.peaks import Peak
from stopwav.profiling.profile import PeakTotal, StageTotal
from stopwav.profiling.steps import Step
from stopwav.speech.corpus import Corpus, Problem, Utterance, Word
from stopwav.stats import Estimate, Outliers, Verdict
from stopwav.stats.outliers import ControlChart

INTRODUCTION = """
`import stopwav` gives these names. Importing it imports neither torch nor an engine. Every verb of the [command
line](cli.md) is a thin skin over a function here.
"""

RETURNED = """
What those functions return or take besides. Import these from the modules named.
"""

# What the public names return, and users read, without making it themselves.
BESIDES = (
    *(Estimate, Verdict, Outliers, Samples, HostPeak, CudaPeak, CudaMemory, EnergyReading),
    *(Corpus, Utterance, Word, Problem),
)
# And what the tools for the user's own code return.
PROFILED = (StageTotal, PeakTotal, Step, CallSample, Peak, ControlChart, Operator, Kernel, DeviceUse, MemoryTimeline)


class _Bare(str):
    """An annotation that prints without quotes: the package postpones annotations, so they are strings."""

    def __repr__(self) -> str:
        return str(self)


def render() -> str:
    """The page."""
    public = {name: getattr(stopwav, name) for name in stopwav.__all__}
    functions = [_function(name, one) for name, one in public.items() if inspect.isfunction(one)]
    classes = [_class(f"stopwav.{name}", one) for name, one in public.items() if inspect.isclass(one)]
    constants = [
        f"### stopwav.{name}\n\n{code(one)}"
        for name, one in public.items()
        if not inspect.isfunction(one) and not inspect.isclass(one) and name != "__version__"
    ]
    version = "### stopwav.\\_\\_version\\_\\_\n\nThe version, as a string."
    besides = [_class(f"{one.__module__}.{one.__qualname__}", one) for one in (*BESIDES, *PROFILED)]
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
        *besides,
    )


def _function(name: str, function: object) -> str:
    return f"### stopwav.{name}\n\n{fenced(f'{name}{_signature(function)}', 'text')}\n{inspect.getdoc(function)}"


def _class(name: str, one: type) -> str:
    parts = [f"### {name}", inspect.getdoc(one) or ""]
    if not getattr(one, "_is_protocol", False) and not issubclass(one, Exception):
        parts.insert(1, fenced(f"{one.__name__}{_signature(one)}", "text").strip())
    elif fields := inspect.get_annotations(one):
        parts.append("\n".join(f"- `{field}: {kind}`" for field, kind in fields.items() if not field.startswith("_")))
    members = list(_members(one))
    if members:
        parts.append("\n".join(members))
    return "\n\n".join(parts)


def _members(one: type) -> Iterator[str]:
    """The methods and properties that a class defines itself."""
    for name, member in vars(one).items():
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
    """The signature, one parameter a line where it is long."""
    found = inspect.signature(callable_)  # type: ignore[arg-type]
    parameters = [_readable(one) for one in list(found.parameters.values())[1 if bound else 0 :]]
    returns = found.return_annotation
    returned = _Bare(returns) if isinstance(returns, str) and returns != "None" else inspect.Signature.empty
    bare = found.replace(parameters=parameters, return_annotation=returned)
    text = str(bare)
    return text if bound or len(text) <= 100 else _broken(bare)


def _readable(parameter: inspect.Parameter) -> inspect.Parameter:
    """The parameter with its annotation unquoted, and a plan or a path by its name where it is the default."""
    plans = {getattr(stopwav, name): name for name in ("QUICK", "REPORT", "COMPARISON")}
    default = parameter.default
    if isinstance(default, stopwav.Plan):
        default = _Bare(plans[default])
    elif isinstance(default, Path):
        default = str(default)
    annotation = parameter.annotation
    return parameter.replace(
        annotation=_Bare(annotation) if isinstance(annotation, str) else annotation, default=default
    )


def _broken(signature: inspect.Signature) -> str:
    lines: list[str] = []
    for one in signature.parameters.values():
        if one.kind is one.KEYWORD_ONLY and "*" not in lines:
            lines.append("*")
        lines.append(str(one))
    returned = signature.return_annotation
    arrow = "" if returned is inspect.Signature.empty else f" -> {returned}"
    return "(\n" + "".join(f"    {line},\n" for line in lines) + f"){arrow}"
