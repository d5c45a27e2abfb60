"""The options of a conversion, in groups, and what their values mean."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from layoutsolve.base.wording import nearest
from layoutsolve.errors import LayoutError, OptionError
from layoutsolve.io.patterns import format_of
from layoutsolve.version import VERSION

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

    from layoutsolve.solver.statement.boundary import Choice, Ends


Group = argparse._ArgumentGroup  # argparse has no public name for it

COMMON = (
    *("models", "help", "all", "file", "inputs", "objective", "target", "cut_from", "cut_to", "shape", "quant"),
    *("jobs", "resume"),
    *("verify", "explain", "report", "dry_run", "version"),
)
"""The options that ``--help`` shows."""


OTHERWISE: Mapping[str, str] = {
    **dict.fromkeys(
        ("--batch", "--batch-size", "--dynamic-batch"),
        ": --shape NAME=8,224,224,3 gives an input a batch, and NAME=-1,224,224,3 a dynamic one",
    ),
    **dict.fromkeys(("--input-shape", "--overwrite-input-shape"), ": --shape NAME=1,224,224,3 gives an input a shape"),
    **dict.fromkeys(
        ("--fp16", "--half", "--float16"),
        ": weights keep the type of the source, float16 as well; onnxconverter-common makes float16 of the result",
    ),
}
"""By options that other converters have, how the same is asked for."""


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
        known, name = [each for action in self._actions for each in action.option_strings], unknown[0].partition("=")[0]
        hint = OTHERWISE.get(name) or (nearest(name, known) if name.startswith("-") else "")
        self.error(f"unrecognised argument '{unknown[0]}'{hint}")


class _Saying(argparse.Action):
    """An option that prints something, and ends the program."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str) -> None:
        super().__init__(option_strings, dest, nargs=0, default=argparse.SUPPRESS, help=help)


class Help(_Saying):
    """Print what is used most."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        for action in parser._actions:
            if action.dest not in COMMON:
                action.help = argparse.SUPPRESS
        parser.print_help()
        parser.exit()


class Version(_Saying):
    """Print the version, and end."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(f"layoutsolve {VERSION}")
        parser.exit()


def add_ends(group: Group) -> None:
    """How inputs and outputs are stored."""
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


def add_goal(group: Group) -> None:
    """What is minimised, and for what."""
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
        help="ort-cpu (default), others or a file (docs/targets.md)",
    )
    group.add_argument(
        "--contrib",
        action="store_true",
        help="as --target ort-cpu-contrib: allow operators of ONNX Runtime alone",
    )
    group.add_argument(
        "--format",
        metavar="FORMAT",
        help="the output format: onnx or tflite (default: that of the ending of -o, else onnx)",
    )
    group.add_argument(
        "--opset",
        type=int,
        metavar="N",
        help="the ONNX operator set (default: that of an ONNX source, else the lowest that is enough)",
    )


def add_cut(group: Group) -> None:
    """The part of a model that is converted."""
    for option, what in (("--from", "inputs"), ("--to", "outputs")):
        group.add_argument(
            option,
            action="append",
            default=[],
            dest=f"cut_{option[2:]}",
            metavar="TENSOR",
            help=f"cut the model: these become its {what} (repeatable)",
        )


CUSTOM_OPERATORS = {"--custom": ("error", "unknown custom operators: error (default), or passthrough")}

NUMBERS = {
    "--quant": ("qdq", "qdq (default), qoperator, symmetric, float or exact"),
    "--dynamic": ("float", "dynamic range fully-connected layers: in float (default) or integer"),
    "--weights": ("source", "int8 weights: zero points of the source (default), or symmetric (faster, rounded)"),
    "--initializer-inputs": (
        "drop",
        "inputs of an ONNX model that are initializers as well: drop (default), or keep",
    ),
}
"""How a model's numbers are read: by option its default, and its help."""


def add_reading(group: Group) -> None:
    """What is converted, and how it is read."""
    group.add_argument(
        "--signature", default="", metavar="NAME", help="the signature to convert, or all (default: the main subgraph)"
    )
    group.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="NAME=SIZES",
        help="as in image=1,224,224,3; -1 is open (repeatable)",
    )
    _add_choices(group, CUSTOM_OPERATORS)
    group.add_argument(
        "--lowering",
        action="append",
        default=[],
        metavar="FILE.py",
        help="run a Python file that registers lowerings of operators (repeatable)",
    )
    _add_choices(group, NUMBERS)


def _add_choices(group: Group, choices: Mapping[str, tuple[str, str]]) -> None:
    """Options by name, each with the choice that is its default and its help. The API knows the choices."""
    for name, (default, told) in choices.items():
        group.add_argument(name, default=default, metavar="WHAT", help=told)


def add_bounds(group: Group) -> None:
    """What a conversion may take."""
    group.add_argument(
        "--time-limit",
        type=float,
        metavar="S",
        help="seconds it may take (default: a deterministic limit of work)",
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
        help="initializers in OUT.onnx.data (default: where they exceed 2 GB)",
    )


def add_many(group: Group) -> None:
    """What there is for many models alone."""
    group.add_argument("--jobs", type=int, metavar="N", help="models at a time (default: 1)")
    group.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="through Dask: tcp://HOST:PORT, or local for this machine",
    )
    group.add_argument("--resume", action="store_true", help="leave out models whose results are up to date")


def add_telling(group: Group) -> None:
    """The options of output and diagnostics."""
    _add_verifying(group)
    group.add_argument("--explain", action="store_true", help="why each Transpose is there, and what would remove it")
    group.add_argument("--profile", action="store_true", help="time per operator in ONNX Runtime on one thread")
    _add_documents(group)
    group.add_argument(
        "--print",
        dest="stage",
        metavar="STAGE",
        help="print graph, problem, assignment or applied, and write no model",
    )
    group.add_argument("--json", action="store_true", help="print one JSON object (for many models one a line)")
    group.add_argument("--dry-run", action="store_true", help="print the summary, and write nothing")
    group.add_argument("-q", "--quiet", action="store_true", help="print errors only")
    group.add_argument(
        "--debug", action="store_true", help="show the traceback of an unexpected error (LAYOUTSOLVE_DEBUG=1)"
    )
    group.add_argument("--version", action=Version, help="show the version")


def _add_verifying(group: Group) -> None:
    """Whether results are compared with those of the source, and on what."""
    group.add_argument("--verify", action="store_true", help="compare with LiteRT on the same inputs")
    group.add_argument(
        "--verify-tensors",
        action="store_true",
        help="operator by operator even where tensors are large",
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
        help="the number of inputs (default: 4, in 10 seconds)",
    )


def _add_documents(group: Group) -> None:
    """The files that are written beside a model, or read instead of solving."""
    group.add_argument("--report", metavar="FILE.html", help="write an HTML report (of many models a folder)")
    group.add_argument(
        "--certify", metavar="FILE.json", help="write a certificate of optimality, to be checked without solving"
    )
    group.add_argument(
        "--plan", metavar="FILE.json", help="write the layout of every tensor, for other compilers (docs/plans.md)"
    )
    group.add_argument("--from-plan", dest="by_plan", metavar="FILE.json", help="convert by a plan, without solving")
    group.add_argument(
        "--extract-metadata", dest="extract", metavar="DIR", help="write the files packed behind the model to a folder"
    )
    group.add_argument(
        "--check",
        metavar="FILE.json",
        help="check a certificate of MODEL and the one that -o names, instead of converting",
    )


def reading_of(options: argparse.Namespace) -> dict[str, Any]:
    """Arguments of :func:`layoutsolve.convert` on how a model is read, from options."""
    told = {
        name: getattr(options, name)
        for name in ("custom", "quant", "dynamic", "weights", "initializer_inputs", "signature")
    }
    return {**told, "shapes": _shapes(options.shape)}


def arguments_of(options: argparse.Namespace) -> dict[str, Any]:
    """What :func:`layoutsolve.convert` is called with."""
    return {
        "objective": options.objective,
        "strategy": options.strategy,
        "layouts": _layouts(options.layout),
        "inputs": _ends(options.inputs, options.input, "input"),
        "outputs": _ends(options.outputs, options.output, "output"),
        "to": format_of(options.format, options.file),
        "opset": options.opset,
        "target": options.target,
        "contrib": options.contrib,
        "external_data": options.external_data,
        "time_limit": options.time_limit,
        **reading_of(options),
        "max_size": options.max_size,
    }


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
            raise OptionError(f"shape '{item}' is not of the form NAME=SIZES, as in image=1,224,224,3; -1 is dynamic")
        if shapes.setdefault(name, shape) != shape:
            raise OptionError(f"input '{name}' is given two different shapes: give it one")
    return shapes


def _ends(general: str, given: Sequence[str], kind: str) -> Ends:
    """The choice for all inputs (or outputs) with those for single ones; words may be in capitals."""
    if ":" in general:
        raise LayoutError(f"--{kind}s {general}: orders are given for one tensor: --{kind} NAME={general}")
    general = general.lower()
    choices: dict[str, Choice] = {}
    for item in given:
        name, equals, said = item.rpartition("=")
        source, colon, target = said.partition(":")
        if not (name and equals and said and bool(colon) == bool(target) and source):
            remedy = "; name the file to write with -o" if kind == "output" and not equals else ""
            raise LayoutError(
                f"{kind} '{item}' is not of the form NAME=LAYOUT, as in image=nchw or image=NHWC:NCHW{remedy}"
            )
        choice = (source, target) if colon else said.lower()
        if choices.setdefault(name, choice) != choice:
            raise LayoutError(f"{kind} '{name}' is given two different layouts: give it one")
    return {"*": general, **choices} if choices else general
