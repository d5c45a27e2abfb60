"""The result of a conversion: the ONNX model, its layouts and their proof, and what can be asked of it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, BinaryIO

from layoutsolve.base.wording import counted, printable
from layoutsolve.conversion import arguments
from layoutsolve.conversion.graph_io import End, ends_of, every_end
from layoutsolve.conversion.provenance import Provenance, of_model
from layoutsolve.conversion.stages import Stages
from layoutsolve.conversion.translation import content_of, saved
from layoutsolve.emit import External, nodes_of, pieces
from layoutsolve.emit.opset import OLDEST_OPSET
from layoutsolve.errors import OutputError
from layoutsolve.frontend import Reading
from layoutsolve.io.files import Output, is_special, scratch, written
from layoutsolve.io.source import Mapped, unchanged
from layoutsolve.ir.figures import Figures
from layoutsolve.ir.graph import Graph, Origin
from layoutsolve.proto.data_movement import Moves, moves
from layoutsolve.proto.messages import opset_of
from layoutsolve.proto.weight_selection import running, selects
from layoutsolve.solver import Assignment, Boundary, Price, Tier
from layoutsolve.solver.statement.backends import Crossing, crossings

if TYPE_CHECKING:
    import onnx

    from layoutsolve.conversion.session import Session
    from layoutsolve.inspection.explanation import Explanation
    from layoutsolve.inspection.provider_share import Share
    from layoutsolve.measurement.profile import Profile
    from layoutsolve.solver.explanation.explain import Explained


HELD = "operators keep their layouts that LiteRT does not express in those that are best for all"
"""Why nothing is proven of some results in TensorFlow Lite."""


@dataclass(frozen=True, repr=False)
class Conversion:
    """Result of :func:`convert`: the ONNX model, its layouts, and their proof.

    ``model`` is the ONNX model; with external data (``external``) :meth:`save` writes a second file beside it.
    ``graph`` is the imported graph in ONNX operators, ``assignment`` the chosen layouts with the graph that they refer
    to; its ``status`` is 'optimal' where every level in ``tiers`` is 'optimal' or 'conditional'. ``seconds`` has the
    wall-clock time of each stage. ``boundary`` and ``reading`` are the options on inputs, outputs and import.
    ``source`` is the path of the source model, None for bytes. ``origins`` maps names of written nodes to source
    operators. ``kept`` is the reason why an ONNX source is returned unchanged, '' where it is not.
    """

    graph: Graph
    assignment: Assignment
    model: onnx.ModelProto
    seconds: Mapping[str, float]
    boundary: Boundary = field(default_factory=Boundary)
    reading: Reading = field(default_factory=Reading)
    external: External | None = field(default=None, repr=False)
    source: str | None = field(default=None, repr=False)
    origins: Mapping[str, Origin] = field(default_factory=dict, repr=False)
    kept: str = ""
    mapped: tuple[Mapped, ...] = field(default=(), repr=False)

    transpose, reshape = "Transpose", "Reshape"
    """What the operators are called that move and reshape data."""

    def __getstate__(self) -> dict[str, object]:
        """State for pickling: all initializers are included, also those that are mapped from the source.

        Raises :class:`ModelError` where the source file has changed since it was read.
        """
        unchanged(self.mapped)
        return {**{each.name: getattr(self, each.name) for each in fields(self)}, "mapped": ()}

    def __repr__(self) -> str:
        tiers = ", ".join(map(str, self.tiers))
        return f"<Conversion of '{self.graph.name}': {counted(self.report['operators'], 'operator')}; {tiers}>"

    def _repr_html_(self) -> str:
        """HTML summary for notebooks: the levels of the objective, and the graph of the written model."""
        from layoutsolve.inspection.graph_svg import picture

        title = f"{self.graph.name}: {counted(self.report['operators'], 'operator')}, {self.format_told}"
        return self.assignment.as_table(title, map(str, self.moved_ends)) + picture(self.model)

    @property
    def price(self) -> Price:
        """Cost of the layouts: Transposes, layout penalty, bytes and so on."""
        return self.assignment.price

    @property
    def bound(self) -> int:
        """Proven lower bound on the objective's first level (for 'min-executed', Transposes plus layout penalty)."""
        return self.assignment.bound

    @property
    def tiers(self) -> tuple[Tier, ...]:
        """Levels of the objective in lexicographic order, each with its value, proven lower bound and status."""
        return self.assignment.tiers

    @property
    def signature(self) -> str | None:
        """The signature that was converted, '' for the main subgraph; None where the source has no more than one."""
        return self.graph.metadata.get("signature")

    @property
    def other_signatures(self) -> tuple[str, ...]:
        """The signatures of the source beside the one that was converted."""
        known = json.loads(self.graph.metadata.get("signatures", "[]"))
        return tuple(str(key) for key in known if key != self.signature)

    @property
    def provenance(self) -> Provenance:
        """Provenance from the model's metadata: version, source digest and options."""
        return of_model(self.model)

    @cached_property
    def crossings(self) -> tuple[Crossing, ...] | None:
        """Tensors that cross between backends of the target; None where it has no backends."""
        table = self.assignment.goal.target.table
        return tuple(crossings(self.assignment)) if table is not None and table.backends else None

    @property
    def before(self) -> Figures:
        """Figures of the source, of one in TensorFlow Lite those of a direct conversion."""
        return self.graph.figures

    @cached_property
    def moves(self) -> Moves:
        """Transposes and Reshapes of the written model that run."""
        return moves(self.model)

    @property
    def bytes_moved(self) -> int:
        """Bytes that Transposes of the written model write in one inference."""
        return self.price.bytes

    @property
    def selected(self) -> int:
        """Number of int8 layers that select weights at load time."""
        return selects(self.model)

    @cached_property
    def operators(self) -> list[str]:
        """The operators of the written model; those that select weights at load time count once."""
        return [node.op_type for node in running(self.model.graph)]

    @property
    def to(self) -> str:
        """The format that is written: 'onnx' or 'tflite'."""
        return "onnx"

    @property
    def held(self) -> bool:
        """Whether operators keep their layouts that the target would have in others, as these cannot be written."""
        return False

    @property
    def main(self) -> int:
        """The number of the graph of the written model that was converted."""
        return 0

    @property
    def opset(self) -> int:
        """The version of ONNX's operator set that the written model is of, 0 for TensorFlow Lite."""
        return opset_of(self.model)

    @property
    def format_facts(self) -> dict[str, object]:
        """Facts of the format of the written model."""
        newer = self.newer_opset
        return {
            "opset": self.opset,
            **({} if newer is None else {"source_opset": newer[0], "opset_needed_by": newer[1]}),
        }

    @cached_property
    def newer_opset(self) -> tuple[int, str] | None:
        """The opset of an ONNX source where the written model has a newer one, and the operator that needs that."""
        if not self.graph.told or self.to != "onnx":
            return None
        source = type(self.model).FromString(self.graph.told)
        if opset_of(source) >= self.opset:
            return None
        from layoutsolve.emit.older_opsets import needed

        return opset_of(source), needed(self.model, max(opset_of(source), OLDEST_OPSET))

    @property
    def format_told(self) -> str:
        """The format of the written model, in words."""
        return f"opset {self.opset}"

    @cached_property
    def share(self) -> Share | None:
        """What of the model the target's execution provider runs; None for a target that was measured."""
        provider = self.assignment.goal.target.provider
        if provider is None:
            return None
        from layoutsolve.inspection.provider_share import share

        return share(self.model, provider)

    @cached_property
    def report(self) -> dict[str, object]:
        """Facts of the conversion as plain data for JSON (docs/json.md).

        Operators are counted in the written model; those that select weights at load time count once.
        """
        return {
            "strategy": self.assignment.strategy,
            "objective": self.assignment.objective,
            "target": self.assignment.goal.target.name,
            "status": self.assignment.status,
            "transposes": self.operators.count(self.transpose),
            "hidden_transposes": self.price.hidden,
            "reshapes": self.operators.count(self.reshape),
            "bytes_moved": self.bytes_moved,
            "bytes_copied": self.price.copies,
            **({} if self.crossings is None else {"crossings": len(self.crossings)}),
            "bound": self.bound,
            "tiers": [asdict(tier) for tier in self.tiers],
            **({"planned": [asdict(tier) for tier in planned]} if (planned := self.assignment.planned) else {}),
            "kept_operators": dict(self.assignment.kept),
            "ended": self.assignment.ended,
            **({} if self.share is None else {"provider": asdict(self.share)}),
            "operators": len(self.operators),
            "file_bytes": self.size,
            "source": asdict(self.before),
            "tensors": sum(value.data is None for value in self.graph.values.values()),
            **self.format_facts,
            **({} if self.signature is None else {"signature": self.signature}),
            **({"dropped_inputs": list(self.graph.dropped)} if self.graph.dropped else {}),
            "inputs": self.ports(inputs=True),
            "outputs": self.ports(inputs=False),
            "layouts": {
                end.name: {"permutation": list(end.permutation), "chosen": end.chosen} for end in self.moved_ends
            },
            "seconds": dict(self.seconds),
        }

    def ports(self, inputs: bool) -> dict[str, str]:
        """Graph inputs (or outputs) of the written model by name: type and shape, such as ``float32[1,3,224,224]``."""
        from layoutsolve.frontend.onnx.listing import described

        ports = self.model.graph.input if inputs else self.model.graph.output
        listed = [described(port.name, port.type) for port in ports]
        return {each.name: f"{each.dtype}{each.shape}" for each in listed}

    @cached_property
    def size(self) -> int:
        """Size of the written model in bytes, external data included."""
        own: int = self.model.ByteSize()
        return own + (0 if self.external is None else self.external.size)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model, and its external data to a file with ``.data`` added to its name: both or neither.

        Raises :class:`OutputError` where a file cannot be written or would overwrite the source model, and
        :class:`ModelError` where the source has changed since it was read.
        """
        target = arguments.path("path", path)
        with Stages()("write"), written(self.outputs(target), [self.source] if self.source else []):
            pass

    def session(self, *, threads: int = 0) -> Session:
        """Load the model into ONNX Runtime, to be run with the source's names and dimension orders: see
        :class:`layoutsolve.Session`.
        """
        from layoutsolve.conversion.session import Session

        if self.external is None:
            return Session(self.content("model.onnx"), threads=threads)
        with scratch() as folder:
            path = folder / "model.onnx"
            self.save(path)
            return Session(path, threads=threads)

    def outputs(self, path: str) -> tuple[Output, ...]:
        """Files that :meth:`save` writes: the external data, if any, then the model."""
        if self.external is not None and is_special(path):
            raise OutputError(f"constants beside the model need a file to lie beside, not '{printable(path)}'")
        model = saved(self.model, self.external, path)
        whole = Output("model", path, lambda file: file.writelines(pieces(model)))
        return (whole,) if self.external is None else (Output("data", f"{path}.data", self.write_constants), whole)

    def write_constants(self, file: BinaryIO) -> None:
        """Write the external data, as it was when the source was read.

        Raises :class:`ModelError` where the source has changed since.
        """
        if self.external is not None:
            unchanged(self.mapped)
            self.external.write(file)
            unchanged(self.mapped)

    def content(self, path: str | os.PathLike[str]) -> bytes:
        """Serialized model as it is saved under a path; the path matters for external data only.

        Raises :class:`OutputError` where the model could not refer to its external data.
        """
        target = arguments.path("path", path)
        return content_of(self.model, self.external, target)

    @cached_property
    def moved_ends(self) -> tuple[End, ...]:
        """The inputs, outputs and states that are not stored as in the source model, each tensor once."""
        ends = () if self.kept else every_end(self.graph, self.boundary, self.assignment)
        return tuple(end for end in ends if end.moved)

    def permutations(self, inputs: bool) -> dict[str, tuple[int, ...]]:
        """Permutations of graph inputs (or outputs) by name in the file: ``stored = transpose(source, permutation)``.

        Only those that are not stored as in the source model.
        """
        if self.kept:
            return {}
        ends = ends_of(self.graph, self.boundary, self.assignment, inputs)
        return {name: end.permutation for name, end in zip(self._port_names(inputs), ends, strict=False) if end.moved}

    def _port_names(self, inputs: bool) -> list[str]:
        """The names of graph inputs (or outputs) in the file."""
        return [port.name for port in (self.model.graph.input if inputs else self.model.graph.output)]

    @property
    def written_for(self) -> Mapping[tuple[int, int], Sequence[str]] | None:
        """Operators of the written model by the subgraph and operator numbers of what they come from; None where the
        source is returned unchanged.
        """
        if self.kept:
            return None
        found: dict[tuple[int, int], list[str]] = {}
        for node in nodes_of(self.model.graph):
            origin = self.origins.get(node.name)
            if origin is not None:
                found.setdefault((origin.subgraph, origin.index), []).append(node.op_type)
        return found

    @property
    def rounding(self) -> frozenset[tuple[int, int]]:
        """Source operators computed as integer products with activations quantized at run time (``dynamic='integer'``):
        pairs of subgraph and operator numbers.
        """
        origins = [node.origin for node in self.graph.nodes if node.op == "MatMulInteger"]
        return frozenset((origin.subgraph, origin.index) for origin in origins if origin is not None)

    def text(self, stage: str) -> str:
        """Text of a stage of the conversion: 'graph', 'problem', 'assignment' or 'applied'.

        It is deterministic for a model and options. The problem is the one that is solved first: over orders of atoms,
        where groupings come after them in the objective.
        """
        from layoutsolve.inspection import printing

        asked = arguments.choice("stage", stage, printing.STAGES)
        with Stages()("print"):
            return printing.stage_text(asked, self.graph, self.assignment, self.boundary)

    def profile(self) -> Profile:
        """Profile of one inference in ONNX Runtime on one thread, measured on smooth data.

        Raises :class:`VerifyError` where ONNX Runtime is missing, or refuses the model.
        """
        from layoutsolve.measurement.profile import profile

        with Stages()("profile"), scratch() as folder:
            path = folder / "model.onnx"
            self.save(path)
            return profile(path, self.origins)

    def explain(self, seconds: float | None = None) -> Explanation:
        """Explain each Transpose and Reshape that is left, and what would remove it.

        Remedies are found by solving again with other layouts of inputs and outputs, within ``seconds`` in all, by
        default within the work limit of one solve.
        """
        from layoutsolve.inspection.explanation import Explanation
        from layoutsolve.solver.explanation.explain import explain

        limit = arguments.seconds("seconds", seconds)
        with Stages()("explain"):
            found = explain(self.graph, self.boundary, self.assignment, limit)
            return Explanation(self._written(found) if self.kept else found)

    def _written(self, found: Sequence[Explained]) -> tuple[Explained, ...]:
        """The explanations of moves that a source has itself: its plan may have some of a kind that it has none of."""
        has = {"Transpose": self.moves.transposes, "Reshape": self.moves.reshapes}
        return tuple(each for each in found if has[each.operator])
