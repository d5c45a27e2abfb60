"""The options of the command line, and what their values mean."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from layoutsolve.errors import LayoutError, OptionError
from layoutsolve.version import VERSION
from layoutsolve.wording import nearest

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

    from layoutsolve.solver.statement.boundary import Choice, Ends


_Group = argparse._ArgumentGroup  # argparse has no public name for it

WILD = "*?["
"""What a pattern has in it."""

STANDARD_INPUT = "-"
"""The name of a model that is read from there."""

COMMON = (
    *("models", "help", "all", "file", "inputs", "objective", "target", "quant", "jobs", "resume"),
    *("verify", "explain", "report", "dry_run", "version"),
)
"""The options that ``--help`` shows."""

CHECKING = ("json", "debug")
"""The options that may go with a check, beside those that name files."""

PLANNED = (*CHECKING, "verify", "verify_samples", "verify_tensors", "profile", "dry_run")
"""The options that may go with a plan that is followed, beside those that name files."""


class Parser(argparse.ArgumentParser):
    """A parser whose errors are those of a conversion: one line, with the nearest option."""

    def error(self, message: str) -> NoReturn:
        every = "--help-all" if "--help-all" in self._option_string_actions else "--help"
        raise OptionError(f"{message}; {every} lists the options")

    def print_help(self, file: SupportsWrite[str] | None = None) -> None:
        print(self.format_help(), end="", file=file)

    def options(self, arguments: Sequence[str]) -> argparse.Namespace:
        """The options. Raises :class:`OptionError` where they cannot be understood."""
        options, unknown = self.parse_known_args(arguments)
        if unknown:
            self.refuse(unknown)
        return options

    def refuse(self, unknown: Sequence[str]) -> NoReturn:
        known = [name for action in self._actions for name in action.option_strings]
        hint = nearest(unknown[0].partition("=")[0], known) if unknown[0].startswith("-") else ""
        self.error(f"unrecognised argument '{unknown[0]}'{hint}")


class _Saying(argparse.Action):
    """An option that prints something, and ends the program."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str) -> None:
        super().__init__(option_strings, dest, nargs=0, default=argparse.SUPPRESS, help=help)


class _Help(_Saying):
    """Print what is used most."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        for action in parser._actions:
            if action.dest not in COMMON:
                action.help = argparse.SUPPRESS
        parser.print_help()
        parser.exit()


class _Version(_Saying):
    """Print the version, and end."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(f"layoutsolve {VERSION}")
        parser.exit()


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The options. Raises :class:`OptionError` where they cannot be understood."""
    parser = _parser()
    options, more = parser.parse_known_args(arguments)
    unknown = [each for each in more if each.startswith("-") and each != STANDARD_INPUT]
    if unknown:
        parser.refuse(unknown)
    options.models += more  # those behind an option
    options.model = options.models[0]
    for name in (name for name in options.models[1:] if name.endswith(".onnx")):
        if not options.model.endswith(".onnx"):
            raise OptionError(f"'{name}' is no TensorFlow Lite model: name the file to write with -o")
    _complete_verify(options)
    if options.check is not None and options.certify is not None:
        raise OptionError("argument --check: it writes no certificate: leave --certify out")
    if options.certify == "-":
        raise OptionError("argument --certify: a certificate is written to a file: give its name")
    if options.plan == "-":
        raise OptionError("argument --plan: a plan is written to a file: give its name")
    if options.check is not None and (options.plan is not None or options.by_plan is not None):
        raise OptionError("argument --check: a certificate is no plan: leave --plan and --from-plan out")
    if options.by_plan is not None:
        for name in (name for name in said(options) if name not in PLANNED):
            raise OptionError(
                f"argument --from-plan: the plan tells how the model is converted: leave out what says '{name}'"
            )
    if options.report == "-":
        raise OptionError("argument --report: a report is written to a file: give its name")
    if options.check is not None and options.report is not None:
        raise OptionError("argument --check: it converts nothing that could be shown: leave --report out")
    if options.extract == "":
        raise OptionError("argument --extract-metadata: the name of the folder is empty")
    if options.check is not None and options.extract is not None:
        raise OptionError("argument --check: it writes no files: leave --extract-metadata out")
    if options.certify is not None and options.dry_run:
        raise OptionError("argument --dry-run: it writes no certificate: leave --certify out")
    if options.plan is not None and options.dry_run:
        raise OptionError("argument --dry-run: it writes no plan: leave --plan out")
    if options.check is not None:
        for name in (name for name in said(options) if name not in CHECKING):
            raise OptionError(
                f"argument --check: the certificate tells how the model was converted: leave out what says '{name}'"
            )
        if options.file == "-":
            raise OptionError("argument --check: it reads the ONNX model from a file: give its name with -o")
    if options.stage is not None:
        writing = {"-o": options.file, "--certify": options.certify, "--json": options.json}
        writing |= {"--verify": options.verify, "--explain": options.explain, "--profile": options.profile}
        writing |= {"--report": options.report, "--plan": options.plan, "--from-plan": options.by_plan}
        for name in (name for name, value in writing.items() if value):
            raise OptionError(f"argument --print: it prints one stage and writes no model: leave {name} out")
    return options


def _complete_verify(options: argparse.Namespace) -> None:
    """What says how to compare asks for the comparison."""
    if options.verify_data is not None and options.verify_samples is not None:
        raise OptionError("argument --verify-samples: --verify-data says how many there are: leave one of them out")
    options.verify |= options.verify_tensors or options.verify_data is not None or options.verify_samples is not None


def parse_bench(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of ``layoutsolve bench``. Raises :class:`OptionError` where they cannot be understood."""
    return _bench_parser().options(arguments)


def _bench_parser() -> Parser:
    parser = Parser(
        prog="layoutsolve bench",
        description="How long files take, in interleaved rounds, each by the first one's time.",
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="ONNX models (.onnx) and LiteRT's (.tflite)")
    parser.add_argument(
        "--threads", type=int, default=1, metavar="N", help="threads of the runtimes (default: 1, by processor time)"
    )
    parser.add_argument(
        "--level", default="all", metavar="LEVEL", help="ONNX Runtime's optimiser: none, basic, extended, all (default)"
    )
    parser.add_argument("--openvino", action="store_true", help="run the files in OpenVINO as well")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an unexpected error")
    return parser


def parse_info(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of ``layoutsolve info``. Raises :class:`OptionError` where they cannot be understood."""
    return _info_parser().options(arguments)


def _info_parser() -> Parser:
    parser = Parser(prog="layoutsolve info", description="How an ONNX model was made, as its metadata say it.")
    parser.add_argument("model", metavar="MODEL.onnx", help="a model that layoutsolve has written")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an unexpected error")
    return parser


def parse_target(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of ``layoutsolve target``. Raises :class:`OptionError` where they cannot be understood."""
    return _target_parser().options(arguments)


def _target_parser() -> Parser:
    parser = Parser(
        prog="layoutsolve target", description="What a target says: its forms and prices (docs/targets.md)."
    )
    parser.add_argument("target", metavar="NAME|FILE", help="one that comes with layoutsolve, or a file")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an unexpected error")
    return parser


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
    parser.add_argument("--json", action="store_true", help="print the target instead of a summary")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an unexpected error")
    return parser


def is_batch(options: argparse.Namespace) -> bool:
    """Whether many models are asked for, or what there is for many alone."""
    told = (
        options.jobs is not None
        or options.scheduler is not None
        or options.resume
        or (options.file or "").endswith(os.sep)
    )
    return told or len(options.models) > 1 or is_many(options.model)


def is_many(name: str) -> bool:
    """Whether a name stands for many models: that of a folder, or a pattern and no file."""
    return os.path.isdir(name) or (any(mark in name for mark in WILD) and not os.path.exists(name))  # noqa: PTH110, PTH112


def parse_ops(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of ``layoutsolve ops``. Raises :class:`OptionError` where they cannot be understood."""
    return _ops_parser().options(arguments)


def _ops_parser() -> Parser:
    parser = Parser(prog="layoutsolve ops", description="Which operators a model has, and what becomes of each.")
    parser.add_argument("model", metavar="MODEL.tflite", help="the model")
    _add_reading(parser.add_argument_group("how it is read"))
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an unexpected error")
    return parser


def completed(command: str) -> argparse.ArgumentParser:
    """What knows the options of a command line that begins with a word, to complete it."""
    commands = {
        "bench": _bench_parser,
        "calibrate": _calibrate_parser,
        "info": _info_parser,
        "ops": _ops_parser,
        "target": _target_parser,
    }
    if command not in commands:
        return _parser()
    parser = Parser(add_help=False)
    parser.add_subparsers().add_parser(command, parents=[commands[command]()], add_help=False)
    return parser


def reading_of(options: argparse.Namespace) -> dict[str, Any]:
    """What options say about how a model is read, as :func:`layoutsolve.convert` is told."""
    told = {name: getattr(options, name) for name in ("custom", "quant", "dynamic", "weights", "signature")}
    return {**told, "shapes": _shapes(options.shape)}


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
    return {key: value for key, value in vars(options).items() if key not in named and value != parser.get_default(key)}


def arguments_of(options: argparse.Namespace) -> dict[str, Any]:
    """What :func:`layoutsolve.convert` is called with."""
    return {
        "objective": options.objective,
        "strategy": options.strategy,
        "layouts": _layouts(options.layout),
        "inputs": _ends(options.inputs, options.input, "input"),
        "outputs": _ends(options.outputs, options.output, "output"),
        "opset": options.opset,
        "target": options.target,
        "contrib": options.contrib,
        "external_data": options.external_data,
        "time_limit": options.time_limit,
        **reading_of(options),
        "max_size": options.max_size,
    }


def _parser() -> Parser:
    parser = Parser(
        prog="layoutsolve",
        usage="layoutsolve [option ...] MODEL.tflite|FOLDER|PATTERN ...",
        formatter_class=partial(argparse.HelpFormatter, max_help_position=32),
        description="TensorFlow Lite, or ONNX, to ONNX with the fewest Transposes, proven.",
        epilog="Other commands, each with a --help of its own: layoutsolve ops (a model's operators), info (how an ONNX"
        " model was made), bench (how long models take), target (what a --target says), calibrate (one for this"
        " machine).",
        add_help=False,
    )
    parser.add_argument("-h", "--help", action=_Help, help="show what is used most, and end")
    parser.add_argument("--help-all", dest="all", action="help", help="show all options, and end")
    parser.add_argument("models", metavar="MODEL.tflite", nargs="+", help="the model to convert, or many of them")
    parser.add_argument(
        "-o",
        dest="file",
        metavar="OUT.onnx",
        help="where to write (default: beside it); a folder for many; - is stdout",
    )
    _add_ends(parser.add_argument_group("how inputs and outputs are stored"))
    _add_goal(parser.add_argument_group("what is minimised, and for what"))
    _add_reading(parser.add_argument_group("what is converted"))
    _add_bounds(parser.add_argument_group("what it may take"))
    _add_many(parser.add_argument_group("many models"))
    _add_telling(parser.add_argument_group("what is told"))
    return parser


def _add_ends(group: _Group) -> None:
    for end in ("inputs", "outputs"):
        group.add_argument(
            f"--{end}", default="keep", metavar="LAYOUT", help=f"all {end}: keep (default), nchw, nhwc or free"
        )
        group.add_argument(
            f"--{end[:-1]}",
            action="append",
            default=[],
            metavar="NAME=LAYOUT",
            help=f"one {end[:-1]}: one of these, or an order as in NHWC:NCHW (repeatable)",
        )
    group.add_argument(
        "--layout",
        action="append",
        default=[],
        metavar="NAME=SRC:DST",
        help="any tensor in another order, as in image=NHWC:NCHW (repeatable)",
    )


def _add_goal(group: _Group) -> None:
    group.add_argument(
        "--objective",
        default="min-executed",
        help="min-executed (default), -transpose, -bytes, -nodes or -latency",
        metavar="OBJECTIVE",
    )
    group.add_argument(
        "--strategy",
        default="cpsat",
        help="cpsat (default), mincut, push, propagate or transpose",
        metavar="STRATEGY",
    )
    group.add_argument(
        "--target",
        metavar="NAME|FILE",
        help="the runtime: ort-cpu (default), others or a file (docs/targets.md)",
    )
    group.add_argument(
        "--contrib",
        action="store_true",
        help="as --target ort-cpu-contrib: allow operators of ONNX Runtime alone",
    )
    group.add_argument(
        "--opset", type=int, metavar="N", help="the ONNX operator set (default: the lowest that is enough)"
    )


def _add_reading(group: _Group) -> None:
    group.add_argument(
        "--signature", default="", metavar="NAME", help="the signature to convert (default: the main subgraph)"
    )
    group.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="NAME=SIZES",
        help="of a dynamic input, as in image=1,224,224,3 (repeatable)",
    )
    group.add_argument(
        "--custom",
        default="error",
        metavar="WHAT",
        help="unknown custom operators: error (default), or passthrough",
    )
    group.add_argument(
        "--quant",
        default="qdq",
        metavar="WHAT",
        help="quantised operators: qdq (default), qoperator, float or exact (bit for bit)",
    )
    group.add_argument(
        "--dynamic",
        default="float",
        metavar="WHAT",
        help="dense layers of floats by bytes: float (default) or integer",
    )
    group.add_argument(
        "--weights",
        default="source",
        metavar="WHAT",
        help="weights of bytes: source (default), or symmetric (faster, rounded)",
    )


def _add_bounds(group: _Group) -> None:
    group.add_argument(
        "--time-limit",
        type=float,
        metavar="S",
        help="seconds it may take (default: counted work, the same anywhere)",
    )
    group.add_argument(
        "--max-size",
        type=int,
        metavar="BYTES",
        help="of the ONNX model (default: 4 times the source and 16 MiB more)",
    )
    group.add_argument(
        "--external-data",
        action="store_true",
        default=None,
        help="constants in OUT.onnx.data (default: where they exceed 2 GB)",
    )


def _add_many(group: _Group) -> None:
    group.add_argument("--jobs", type=int, metavar="N", help="models at a time (default: 1)")
    group.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="through Dask: tcp://HOST:PORT, or local for this machine",
    )
    group.add_argument("--resume", action="store_true", help="leave out models whose results are up to date")


def _add_telling(group: _Group) -> None:
    group.add_argument("--verify", action="store_true", help="compare with LiteRT on the same input")
    group.add_argument(
        "--verify-tensors",
        action="store_true",
        help="all tensors inside too, and name the first operator that departs",
    )
    group.add_argument(
        "--verify-data",
        metavar="FILE|FOLDER",
        help="on arrays by the names of inputs, in the source's dimensions",
    )
    group.add_argument(
        "--verify-samples",
        type=int,
        metavar="N",
        help="on so many inputs (default: one, more where it is off)",
    )
    group.add_argument("--explain", action="store_true", help="why each Transpose is there, and what would remove it")
    group.add_argument("--profile", action="store_true", help="where the time goes in ONNX Runtime on one thread")
    group.add_argument("--report", metavar="FILE.html", help="write a page for a browser (of many models a folder)")
    group.add_argument(
        "--certify", metavar="FILE.json", help="write a certificate of the price, to be checked without a search"
    )
    group.add_argument(
        "--plan", metavar="FILE.json", help="write how all tensors lie in memory, for other compilers (docs/plans.md)"
    )
    group.add_argument(
        "--from-plan", dest="by_plan", metavar="FILE.json", help="convert as a plan says, without a search"
    )
    group.add_argument(
        "--extract-metadata", dest="extract", metavar="DIR", help="write the files packed behind the model to a folder"
    )
    group.add_argument(
        "--check",
        metavar="FILE.json",
        help="check a certificate of both models instead of converting",
    )
    group.add_argument(
        "--print",
        dest="stage",
        metavar="STAGE",
        help="print graph, problem, assignment or applied, and write no model",
    )
    group.add_argument("--json", action="store_true", help="print one JSON object (for many models one a line)")
    group.add_argument("--dry-run", action="store_true", help="tell what would be written, and write nothing")
    group.add_argument("-q", "--quiet", action="store_true", help="print errors alone")
    group.add_argument(
        "--debug", action="store_true", help="show the traceback of an unexpected error (LAYOUTSOLVE_DEBUG=1)"
    )
    group.add_argument("--version", action=_Version, help="show the version")


def _layouts(given: Sequence[str]) -> dict[str, tuple[str, str]]:
    layouts: dict[str, tuple[str, str]] = {}
    for item in given:
        name, equals, pair = item.rpartition("=")
        source, colon, target = pair.partition(":")
        if not (name and equals and colon and source and target):
            raise LayoutError(f"layout '{item}' is not of the form NAME=SRC:DST, as in image=NHWC:NCHW")
        if layouts.setdefault(name, (source, target)) != (source, target):
            raise LayoutError(f"tensor '{name}' is given two different layouts: give it one")
    return layouts


def _shapes(given: Sequence[str]) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    for item in given:
        name, equals, sizes = item.rpartition("=")
        try:
            shape = tuple(int(size) for size in sizes.split(","))
        except ValueError:
            shape = ()
        if not (name and equals and shape):
            raise OptionError(f"shape '{item}' is not of the form NAME=SIZES, as in image=1,224,224,3")
        if shapes.setdefault(name, shape) != shape:
            raise OptionError(f"input '{name}' is given two different shapes: give it one")
    return shapes


def _ends(general: str, given: Sequence[str], kind: str) -> Ends:
    """The choice for all inputs (or outputs) with those for single ones."""
    choices: dict[str, Choice] = {}
    for item in given:
        name, equals, said = item.rpartition("=")
        source, colon, target = said.partition(":")
        if not (name and equals and said and bool(colon) == bool(target) and source):
            remedy = "; name the file to write with -o" if kind == "output" and not equals else ""
            raise LayoutError(
                f"{kind} '{item}' is not of the form NAME=LAYOUT, as in image=nchw or image=NHWC:NCHW{remedy}"
            )
        choice = (source, target) if colon else said
        if choices.setdefault(name, choice) != choice:
            raise LayoutError(f"{kind} '{name}' is given two different layouts: give it one")
    return {"*": general, **choices} if choices else general
