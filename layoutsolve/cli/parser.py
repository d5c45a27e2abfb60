"""The command lines: which options there are, and which of them go together."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from functools import partial
from typing import get_args

from layoutsolve.base.wording import printable
from layoutsolve.cli.options import (
    Help,
    Parser,
    add_bounds,
    add_cut,
    add_ends,
    add_goal,
    add_many,
    add_reading,
    add_telling,
)
from layoutsolve.conversion.choices import Format
from layoutsolve.errors import OptionError
from layoutsolve.io.patterns import ENDINGS, STANDARD_INPUT, format_of, is_many

CHECKING = ("json", "debug", "from", "to", "lowering")
"""The options that may go with a check, beside those that name files."""

PLANNED = (*CHECKING, "verify", "verify_samples", "verify_tensors", "profile", "dry_run")
"""The options that may go with a plan that is followed, beside those that name files."""


def parse(arguments: Sequence[str], view: bool = False) -> argparse.Namespace:
    """The options of a conversion, or of ``layoutsolve view``. Raises :class:`OptionError` where they cannot be
    understood.
    """
    parser = _view_parser() if view else _parser()
    options, more = parser.parse_known_args(arguments)
    unknown = [each for each in more if each.startswith("-") and each != STANDARD_INPUT]
    if unknown:
        parser.refuse(unknown)
    options.models += more  # those behind an option
    options.model = options.models[0]
    if options.check is not None and len(options.models) == 2 and options.file is None:
        name, written = map(printable, options.models)
        raise OptionError(
            f"argument --check: the written model is named with -o: layoutsolve {name} -o {written} --check"
        )
    for name in (name for name in options.models[1:] if name.endswith(".onnx")):
        if options.file is None and not options.model.endswith(".onnx"):
            raise OptionError(
                f"'{name}' is no TensorFlow Lite model: name the file to write with -o, or a folder for many models"
            )
    _complete_verify(options)
    _check_files(options)
    if options.by_plan is not None:
        _check_determined(options, PLANNED, "argument --from-plan: the plan")
    if options.check is not None:
        _check_checking(options)
    if options.dry_run:
        _check_dry_run(options)
    if options.stage is not None:
        _check_printing(options)
    return options


def _check_files(options: argparse.Namespace) -> None:
    """What is written beside a model goes to files that have names."""
    for name, file, told in (
        ("--certify", options.certify, "a certificate"),
        ("--plan", options.plan, "a plan"),
        ("--report", options.report, "a report"),
    ):
        if file == "-":
            raise OptionError(f"argument {name}: {told} is written to a file: give its name")
    ending = format_of(None, options.file)
    if options.format and (options.file or "").endswith(ENDINGS) and options.format != ending:
        raise OptionError(f"argument --format: the ending of -o is that of {ending}: give one name, or leave it out")
    if options.extract == "":
        raise OptionError("argument --extract-metadata: the name of the folder is empty")


def _check_checking(options: argparse.Namespace) -> None:
    """A check of a certificate converts and writes nothing, and reads the model from a file."""
    if options.certify is not None:
        raise OptionError("argument --check: it writes no certificate: leave --certify out")
    if options.plan is not None or options.by_plan is not None:
        raise OptionError("argument --check: a certificate is no plan: leave --plan and --from-plan out")
    if options.report is not None:
        raise OptionError("argument --check: it converts nothing that could be shown: leave --report out")
    if options.extract is not None:
        raise OptionError("argument --check: it writes no files: leave --extract-metadata out")
    _check_determined(options, CHECKING, "argument --check: the certificate")
    if options.file == "-":
        raise OptionError("argument --check: it reads the ONNX model from a file: give its name with -o")


def _check_determined(options: argparse.Namespace, free: Sequence[str], document: str) -> None:
    """What determines the conversion goes with those options alone that it leaves ``free``."""
    for name in (name for name in said(options) if name not in free):
        raise OptionError(f"{document} determines the conversion: leave {option_of(name)} out")


def option_of(name: str) -> str:
    """What is written on a command line for a key of the options, or of :func:`said`."""
    actions = _parser()._actions
    return next(each.option_strings[-1] for each in actions if each.dest.removeprefix("cut_") == name)


def is_option(word: str) -> bool:
    """Whether that is an option of a conversion."""
    return any(word in each.option_strings for each in _parser()._actions)


def _check_dry_run(options: argparse.Namespace) -> None:
    for name, file, told in (("--certify", options.certify, "certificate"), ("--plan", options.plan, "plan")):
        if file is not None:
            raise OptionError(f"argument --dry-run: it writes no {told}: leave {name} out")


def _check_printing(options: argparse.Namespace) -> None:
    """A stage that is printed goes with nothing that needs a written model."""
    writing = {"-o": options.file, "--certify": options.certify, "--json": options.json}
    writing |= {"--verify": options.verify, "--explain": options.explain, "--profile": options.profile}
    writing |= {"--report": options.report, "--plan": options.plan, "--from-plan": options.by_plan}
    for name in (name for name, value in writing.items() if value):
        raise OptionError(f"argument --print: it prints one stage and writes no model: leave {name} out")


def _complete_verify(options: argparse.Namespace) -> None:
    """What says how to compare asks for the comparison."""
    if options.verify_data is not None and options.verify_samples is not None:
        raise OptionError(
            "argument --verify-samples: --verify-data determines the number of samples: leave one of them out"
        )
    options.verify |= options.verify_tensors or options.verify_data is not None or options.verify_samples is not None


def parse_view(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of ``layoutsolve view``: those of a conversion. Raises :class:`OptionError` where they cannot be
    understood.
    """
    return parse(arguments, view=True)


def parse_bench(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of ``layoutsolve bench``. Raises :class:`OptionError` where they cannot be understood."""
    return _bench_parser().options(arguments)


def _bench_parser() -> Parser:
    parser = Parser(
        prog="layoutsolve bench",
        description="How long files take, in interleaved rounds, each by the first one's time.",
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="models in ONNX, and of TensorFlow Lite")
    parser.add_argument(
        "--threads", type=int, default=1, metavar="N", help="threads of the runtimes (default: 1, by processor time)"
    )
    parser.add_argument(
        "--level",
        default="all",
        metavar="LEVEL",
        help="ONNX Runtime's graph optimizations: none, basic, extended, all (default)",
    )
    parser.add_argument("--openvino", action="store_true", help="run the files in OpenVINO as well")
    return _printing(parser, "print one JSON object instead of a table")


def _printing(parser: Parser, json: str = "print one JSON object") -> Parser:
    """The parser of a command with the options that all have; ``json`` is the help of the first."""
    parser.add_argument("--json", action="store_true", help=json)
    parser.add_argument("--debug", action="store_true", help="show the traceback of an unexpected error")
    return parser


def parse_info(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of ``layoutsolve info``. Raises :class:`OptionError` where they cannot be understood."""
    return _info_parser().options(arguments)


def _info_parser() -> Parser:
    parser = Parser(prog="layoutsolve info", description="How an ONNX model was made, from its metadata.")
    parser.add_argument("model", metavar="MODEL.onnx", help="a model that layoutsolve has written")
    return _printing(parser)


def parse_diff(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of ``layoutsolve diff``. Raises :class:`OptionError` where they cannot be understood."""
    return _diff_parser().options(arguments)


def _diff_parser() -> Parser:
    parser = Parser(
        prog="layoutsolve diff",
        description="What two models have of Transposes, Reshapes, operators and bytes, and where they differ.",
    )
    parser.add_argument("first", metavar="A", help="a model, ONNX or TensorFlow Lite")
    parser.add_argument("second", metavar="B", help="another one")
    return _printing(parser)


def parse_target(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of ``layoutsolve target``. Raises :class:`OptionError` where they cannot be understood."""
    return _target_parser().options(arguments)


def _target_parser() -> Parser:
    parser = Parser(prog="layoutsolve target", description="Print a target: its forms and prices (docs/targets.md).")
    parser.add_argument(
        "target", nargs="?", metavar="NAME|FILE", help="one that comes with layoutsolve, or a file (default: list them)"
    )
    return _printing(parser)


def parse_calibrate(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of ``layoutsolve calibrate``. Raises :class:`OptionError` where they cannot be understood."""
    options = _calibrate_parser().options(arguments)
    if not options.file.endswith(".json") or options.file.endswith("/.json"):
        raise OptionError(f"argument -o: a target's name ends in .json: '{options.file}' does not")
    return options


def _calibrate_parser() -> Parser:
    parser = Parser(
        prog="layoutsolve calibrate",
        description="Measure the installed ONNX Runtime on this machine, and write a target for it (docs/targets.md).",
    )
    parser.add_argument("-o", dest="file", metavar="OUT.json", required=True, help="where to write the target")
    return _printing(parser, "print the target instead of a summary")


def is_batch(options: argparse.Namespace) -> bool:
    """Whether many models are asked for, or what there is for many alone."""
    told = (
        options.jobs is not None
        or options.scheduler is not None
        or options.resume
        or (options.file or "").endswith(os.sep)
    )
    return told or len(options.models) > 1 or is_many(options.model)


def parse_ops(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of ``layoutsolve ops``. Raises :class:`OptionError` where they cannot be understood."""
    parser = _ops_parser()
    options = parser.options(arguments)
    asked = [key for key, value in vars(options).items() if value != parser.get_default(key)]
    if options.onnx and not {*asked} <= {"onnx", "json", "debug"}:
        raise OptionError("argument --onnx: it is about all operators of ONNX, not about a model: give nothing else")
    if not options.onnx and options.model is None:
        raise OptionError("a model is missing: give its file, or --onnx for all operators of ONNX")
    return options


def _ops_parser() -> Parser:
    parser = Parser(prog="layoutsolve ops", description="Which operators a model has, and what becomes of each.")
    parser.add_argument("model", metavar="MODEL.tflite", nargs="?", help="the model")
    parser.add_argument(
        "--onnx", action="store_true", help="list all operators of ONNX, and what becomes of their layouts, of no model"
    )
    parser.add_argument(
        "--format",
        choices=get_args(Format),
        default="onnx",
        metavar="FORMAT",
        help="the output format: onnx (default), or tflite, with what LiteRT's operators do not express",
    )
    add_reading(parser.add_argument_group("how it is read"))
    return _printing(parser, "print one JSON object instead of a table")


def completed(command: str) -> argparse.ArgumentParser:
    """What knows the options of a command line that begins with a word, to complete it."""
    commands = {
        "bench": _bench_parser,
        "calibrate": _calibrate_parser,
        "convert": _parser,
        "diff": _diff_parser,
        "info": _info_parser,
        "ops": _ops_parser,
        "target": _target_parser,
        "view": _view_parser,
    }
    if command not in commands:
        return _parser()
    parser = Parser(add_help=False)
    parser.add_subparsers().add_parser(command, parents=[commands[command]()], add_help=False)
    return parser


def said(options: argparse.Namespace) -> dict[str, object]:
    """The options that are not the default, but for the names of files, for reports."""
    parser = _parser()
    named = (
        "model",
        "models",
        "file",
        "certify",
        "plan",
        "by_plan",
        "extract",
        "report",
        "check",
        "target",
        "verify_data",
        "jobs",
        "scheduler",
        "resume",
        "quiet",
    )
    given = {key: value for key, value in vars(options).items() if key not in named}
    return {key.removeprefix("cut_"): value for key, value in given.items() if value != parser.get_default(key)}


def _view_parser() -> Parser:
    """That of a conversion, without the options of what is written or printed in place of a page."""
    parser = _parser()
    parser.prog, parser.epilog = "layoutsolve view", None
    parser.usage = "layoutsolve view [option ...] MODEL.tflite|MODEL.onnx"
    parser.description = (
        "Show a model before and after a conversion side by side, in the browser; no model is written. Options are"
        " those of a conversion; --report names the page."
    )
    unseen = ("file", "jobs", "scheduler", "resume", "certify", "check", "plan", "extract", "stage", "dry_run")
    for action in parser._actions:
        if action.dest in unseen:
            action.help = argparse.SUPPRESS
        elif action.dest == "models":
            action.help = "the model to show"
    return parser


def _parser() -> Parser:
    parser = Parser(
        prog="layoutsolve",
        usage="layoutsolve [option ...] MODEL.tflite|MODEL.onnx|FOLDER|PATTERN ...",
        formatter_class=partial(argparse.HelpFormatter, max_help_position=32),
        description="TensorFlow Lite, or ONNX, to ONNX with the fewest Transposes, proven.",
        epilog="Other commands, each with a --help of its own: layoutsolve ops (a model's operators), info (how an ONNX"
        " model was made), view (a report in the browser), diff (what two models differ in), bench (latency of models),"
        " target (print a --target), calibrate (write one for this machine).",
        add_help=False,
    )
    parser.add_argument("-h", "--help", action=Help, help="show what is used most, and end")
    parser.add_argument("--help-all", dest="all", action="help", help="show all options, and end")
    parser.add_argument("models", metavar="MODEL.tflite", nargs="+", help="the model to convert, or many of them")
    parser.add_argument(
        "-o",
        dest="file",
        metavar="OUT.onnx",
        help="where to write, .onnx or .tflite (default: beside it); a folder for many; - is stdout",
    )
    add_ends(parser.add_argument_group("layouts of inputs and outputs"))
    add_goal(parser.add_argument_group("objective and target"))
    source = parser.add_argument_group("conversion")
    add_cut(source)
    add_reading(source)
    add_bounds(parser.add_argument_group("limits on time and size"))
    add_many(parser.add_argument_group("batches"))
    add_telling(parser.add_argument_group("output and diagnostics"))
    return parser
