"""`stopwav gate`: of two saved runs, of two engines that it has take turns in one run, or of one run by conditions."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stopwav.cli.diff import Force, Threshold, parse_threshold
from stopwav.cli.options import QUICK, Json, Quick
from stopwav.errors import StopwavError

if TYPE_CHECKING:
    from stopwav.report.document import Document
    from stopwav.studies.diff.gate import Gate
    from stopwav.studies.diff.requirements import Requirements

Runs = Annotated[
    list[str],
    typer.Argument(
        metavar="[BASELINE] RUN",
        help="Two run files, or with --require one; a folder, or `latest`, stands for its newest complete run. With "
        "--race two engines, as NAME[:SOURCE][,key=value…]; with --calibrate three or more runs of the same thing.",
    ),
]
Race = Annotated[
    bool, typer.Option("--race", help="Measure two engines now, taking turns in one run, instead of reading two runs.")
]
FailOn = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CONDITION",
        help="Fail when the run is `slower`, `bigger` or `worse-wer`, or something is `missing`; "
        "give it once for each. Default: any of them.",
    ),
]
Require = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CONDITION",
        help='A condition on the run itself, such as "word_latency_p95 < 1.0" or "rtf < 0.5 of ENGINE"; repeatable, '
        "and without a baseline.",
    ),
]
Thresholds = Annotated[
    Path | None,
    typer.Option(help="File with a threshold per metric, from --calibrate; --threshold applies to the others."),
]
Calibrate = Annotated[
    bool, typer.Option("--calibrate", help="Print thresholds derived from repeated runs of the same thing, as JSON.")
]
AllowIncomplete = Annotated[
    bool,
    typer.Option("--allow-incomplete", help="Judge runs that stopped early by what they hold; else that is an error."),
]
Markdown = Annotated[
    Path | None, typer.Option(help="File to write the outcome to, as Markdown for a pull-request comment.")
]
StudyName = Annotated[
    str | None,
    typer.Option(metavar="STUDY", help="With --race: latency or compare; default: latency where both engines stream."),
]
Budget = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="With --race: time to spend at most, such as 90s or 10min; default 5min."),
]
Precision = Annotated[
    str | None,
    typer.Option(metavar="PERCENT", help="With --race: do not measure a ratio further once it is known to this."),
]
Rounds = Annotated[int | None, typer.Option(help="With --race: rounds of a fixed plan, in place of --budget.")]
Corpus = Annotated[str | None, typer.Option(help="With --race: the corpus, as `latency` and `compare` take it.")]
Limit = Annotated[int | None, typer.Option(help="With --race by latency: use only this many utterances.")]
Samples = Annotated[int | None, typer.Option(help="With --race by compare: number of inputs.")]
Save = Annotated[Path | None, typer.Option(help="With --race: folder for the run file.")]
Resume = Annotated[bool, typer.Option("--resume", help="With --race: continue the newest run of the same race.")]


def gate(
    runs: Runs,
    race: Race = False,
    require: Require = None,
    fail_on: FailOn = None,
    threshold: Threshold = "1%",
    thresholds: Thresholds = None,
    calibrate: Calibrate = False,
    markdown: Markdown = None,
    force: Force = False,
    allow_incomplete: AllowIncomplete = False,
    study: StudyName = None,
    corpus: Corpus = None,
    limit: Limit = None,
    samples: Samples = None,
    budget: Budget = None,
    quick: Quick = False,
    precision: Precision = None,
    rounds: Rounds = None,
    save: Save = None,
    resume: Resume = False,
    json: Json = False,
) -> None:
    """Is a run as good as its baseline, or as --require says? Exit code 3: beyond doubt it is not; 4: undecided."""
    from stopwav.cli.output import EXIT_VIOLATED, check_target, end_with
    from stopwav.studies.diff import gate as gates
    from stopwav.studies.diff.gate_document import gate_document

    check_target(markdown)
    settings = {
        "study": study,
        "corpus": corpus,
        "limit": limit,
        "samples": samples,
        "budget_s": QUICK if quick and budget is None else budget,
        "precision": precision,
        "rounds": rounds,
        "save": save,
        "resume": resume or None,
    }
    given = {name: value for name, value in settings.items() if value is not None}
    terms: dict[str, Any] = {
        "fail_on": fail_on or tuple(gates.CONDITIONS),
        "threshold": parse_threshold(threshold),
        "thresholds": None if thresholds is None else gates.read_thresholds(thresholds),
    }
    for_files = {
        "--calibrate": calibrate,
        "--force": force,
        "--allow-incomplete": allow_incomplete,
        "--require": bool(require),
    }
    _check_mode(race, given, for_files)
    code = None
    if race:
        judged, code = _race(runs, terms, given)
    elif calibrate:
        _print_calibration(runs, force, allow_incomplete)
        return
    elif require:
        _gate_alone(runs, require, allow_incomplete, markdown, json)
        return
    else:
        judged = gates.gate(*_chosen(runs), **terms, force=force, allow_incomplete=allow_incomplete)
    _show(gate_document(judged), judged.to_json(), markdown, json, [judged.diff.a, judged.diff.b])
    end_with(code if code is not None else 0 if judged.passed else EXIT_VIOLATED)


def _check_mode(race: bool, settings: dict[str, Any], others: dict[str, bool]) -> None:
    """Raise for an option that belongs to the other mode."""
    wrong = next((name for name, is_given in others.items() if is_given), None)
    if race and wrong is not None:
        raise StopwavError(f"{wrong} is for run files; leave it out with --race")
    if not race and settings:
        name = next(iter(settings)).removesuffix("_s").replace("_", "-")
        raise StopwavError(f"--{name} is for a race, and run files are measured already; add --race, or leave it out")


def _chosen(runs: list[str]) -> list[Path]:
    """The two run files to compare; of folders, the ones that they stand for."""
    from stopwav.cli.output import report_choice
    from stopwav.studies.run_choice import choose_pair

    files = _two(runs, "a baseline and a run, got run files", "--calibrate takes three or more")
    return list(map(report_choice, choose_pair(*files)))


def _two(names: list[str], wanted: str, hint: str) -> list[str]:
    if len(names) != 2:
        raise StopwavError(f"gate takes {wanted}: {len(names)}; {hint}")
    return names


def _race(engines: list[str], terms: dict[str, Any], settings: dict[str, Any]) -> tuple[Gate, int | None]:
    """The outcome of a race and, where somebody stopped it, the exit code that says so."""
    from stopwav.cli.live import Stopped, follow
    from stopwav.studies.diff.race import Terms, gate_race, judge_race

    base, change = _two(engines, "two engines with --race, got", "name the baseline first, then the change")
    try:
        return follow(lambda display: gate_race(base, change, **terms, **settings, progress=display)), None
    except Stopped as stopped:
        try:
            return judge_race(stopped.record, Terms(**terms)), stopped.code
        except StopwavError as error:
            print(f"stopwav: {error}", file=sys.stderr)
            raise typer.Exit(stopped.code) from None


def _print_calibration(runs: list[str], force: bool, allow_incomplete: bool) -> None:
    from stopwav.cli.output import print_json
    from stopwav.studies.diff.gate import calibrate

    calibration = calibrate([Path(run) for run in runs], force=force, allow_incomplete=allow_incomplete)
    print_json(calibration.to_json(), indent=2)


def _gate_alone(runs: list[str], require: list[str], allow_incomplete: bool, markdown: Path | None, json: bool) -> None:
    """Judge one run by conditions, and end with the code that says whether it meets them."""
    from stopwav.cli.output import end_with, report_choice
    from stopwav.studies.diff.gate_document import requirements_document
    from stopwav.studies.diff.requirements import gate_conditions
    from stopwav.studies.run_choice import choose_run

    if len(runs) != 1:
        raise StopwavError(f"--require judges one run, without a baseline, got {len(runs)}; gate the two without it")
    met = gate_conditions(report_choice(choose_run(runs[0])), require, allow_incomplete=allow_incomplete)
    _show(requirements_document(met), met.to_json(), markdown, json, [met.run])
    end_with(requirements_code(met))


def requirements_code(met: Requirements) -> int:
    """Return the exit code that says whether a run meets its conditions."""
    from stopwav.cli.output import EXIT_PARTLY, EXIT_UNDECIDED, EXIT_VIOLATED

    return {"holds": 0, "fails": EXIT_VIOLATED, "absent": EXIT_PARTLY, "undecided": EXIT_UNDECIDED}[met.outcome]


def _show(document: Document, printed: dict[str, Any], markdown: Path | None, json: bool, runs: list[Path]) -> None:
    """Print the outcome, and write it as Markdown where asked."""
    from stopwav.cli.output import print_json, show_document, write_file

    if markdown is not None:
        from stopwav.report.markdown import render_markdown

        write_file(markdown, render_markdown(document), runs)
    if json:
        print_json(printed)
    else:
        show_document(document)
