"""A document with every kind of block, made by hand: what a renderer does is seen without any study."""

from typing import Any

from stopwav.errors import Caution
from stopwav.record import Result
from stopwav.report.chart import Chart, Key
from stopwav.report.document import (
    Cell,
    Column,
    Document,
    Facts,
    Figures,
    Lines,
    Missing,
    Note,
    Row,
    Section,
    Source,
    Table,
    Timelines,
)
from stopwav.stats import Estimate

# Of five engines: wide enough that no terminal of 80 columns has room for all with their intervals.
ESTIMATES = [Estimate(1.25 * 10**power, 10.0**power, 1.5 * 10**power, 40, "s") for power in range(5)]


FIGURES = Figures((("time-*", "below-*"), ("*-alone",)), "grid")


def interval(estimate: Estimate) -> tuple[str, str]:
    """A number with its interval, and without."""
    return f"{estimate.value:.2f} [{estimate.low:.2f}–{estimate.high:.2f}]", f"{estimate.value:.2f}"


def number_cell(name: str, estimate: Estimate) -> Cell:
    text, short = interval(estimate)
    return Cell(text, short, Source(name, "rtf", estimate))


def engines_table(text: str = "swift", **options: Any) -> Table:
    """Metrics by engine, in groups; its first group has a row below another."""
    names = [f"{text}-{index}" for index in range(len(ESTIMATES))]
    columns = (
        Column("", "left", fold=True),
        *(Column(name, colour=index, status="crashed" * (index == 4)) for index, name in enumerate(names)),
    )
    numbers = tuple(number_cell(name, estimate) for name, estimate in zip(names, ESTIMATES, strict=True))
    rows = (
        Row((Cell(f"speed {text}"),), heading=True),
        Row((Cell("real-time factor"), *numbers)),
        Row((Cell("of which waiting"), *numbers), depth=1),
        Row((Cell("errors"),), heading=True),
        Row((Cell("word error rate"), *numbers)),
    )
    return Table(columns, rows, title=f"Engines {text}", notes=(f"a mark means {text}",), **options)


def modules_table(text: str = "layer") -> Table:
    """Rows with a name to the right of their number, bars, links, and columns that give way."""
    columns = (
        Column("call", "left"),
        Column("module", "left", shorten=True, least=10),
        Column("share"),
        Column("what it is", "left", fold=True, least=15),
        Column("only where there is room", wide=True),
    )
    rows = tuple(
        Row(
            (
                Cell(f"call {index}", href=f"#s0-{index}"),
                Cell(f"{text}.{index}.self_attention.projection"),
                Cell(f"{10 * index} %", bar=index / 10),
                Cell(f"multiplies {text} by a matrix of {index} rows and writes the product back"),
                Cell(f"{index}.000 GB"),
            ),
            colour=index % 2,
            status="" if index else "failed",
        )
        for index in range(4)
    )
    return Table(columns, rows, label=1, sortable=True)


def result(name: str, *warnings: Caution) -> Result:
    metrics = {"rtf": Estimate(0.5, 0.4, 0.6, 30), "load_time": Estimate(None, note=f"no load of {name}")}
    return Result(name, {}, "ok", metrics, warnings)


def chart(title: str = "Times") -> Chart:
    return Chart(title, {"mark": "point"}, f"Times of {title}.", (Key(title, "#123456"),))


def stream(text: str = "one two") -> dict[str, Any]:
    lane = {"engine": text, "failure": "", "texts": [[0.5, text]], "chunks": []}
    return {"id": text, "text": text, "words": [[text, 0.0, 0.5]], "envelope_note": "", "lanes": [lane]}


def every_block(text: str = "swift") -> Document:
    """A document of every kind of block, with a text in each place where one from outside may stand."""
    all_warned, some_warned = Caution("busy-machine", f"load {text}"), Caution("stream-error", f"lost {text}")
    results = (result(f"{text}-a", all_warned, some_warned), result(f"{text}-b", all_warned))
    return Document(
        f"Title {text}",
        (
            Note(f"Loud {text}", quiet=False),
            engines_table(text),
            Section(
                f"Section {text}",
                (
                    modules_table(text),
                    Lines(f"List {text}", (f"first {text}", "second line")),
                    Missing((f"no meter: {text}",), media=("brief", "terminal", "markdown", "page")),
                    Section(f"Folded {text}", (Note(f"Within {text}"),), folded=True),
                ),
            ),
            Section(
                "On the page",
                (Figures((("time-*", "below-*"), ("*-alone",)), "grid"), Facts(((text, (("device", text),)),))),
                media=("page",),
            ),
            Timelines((stream(text), stream("other")), 1, "A stream."),
            Note(f"Quiet {text}"),
        ),
        findings=(f"Finding {text}",),
        warned=results,
        measured=results,
        doubts=lambda code, metric: code == "busy-machine",
    )
