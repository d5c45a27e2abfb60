"""Convolutions of one pixel that stride, in which the pixels that count are taken out first."""

from __future__ import annotations

from collections.abc import Iterator

from layoutsolve.ir.graph import Graph, Node, Shape
from layoutsolve.solver.theory.offer import idiom
from layoutsolve.solver.theory.row import Row
from layoutsolve.solver.theory.rule import Between, Idiom, Rewrite, Rule, Site, Step

SPACE = 2
"""The first dimension of an image, channels-first, that is one of its space."""


@idiom("Conv", "sampled", writes="strided 1x1 int8 Conv: a MaxPool of one pixel strides")
def sampled(site: Site, rule: Rule) -> Idiom | None:
    """Bytes by a kernel of one pixel, without padding: a MaxPool of one pixel strides. Where nothing reads other
    pixels OpenVINO takes these out as well, but between QuantizeLinear and DequantizeLinear, and computes in floats
    then.
    """
    data, strides = site.required(0), _steps(site.graph, site.node)
    if not (strides and data.in_bytes and site.output().in_bytes) or site.node.storage:
        return None
    readers = [*_readers(site.graph, data.name)]
    if any(node is None or _steps(site.graph, node) != strides for node in readers):
        return None

    def write(row: Row, shapes: tuple[Shape, ...], plain: Rewrite) -> tuple[Step, ...] | None:
        *others, step = plain(row, shapes)
        if others or step.op != "Conv" or step.inputs[0] != 0 or tuple(step.attributes.get("strides", ())) != strides:
            return None
        shape = (*shapes[0][:SPACE], *shapes[-1][SPACE:])
        taken = Between("sampled", data.dtype, shape, data.quant)
        still = {**step.attributes, "strides": (1,) * len(strides)}
        return (
            Step("MaxPool", (0,), (taken,), {"kernel_shape": (1,) * len(strides), "strides": strides}, storage=True),
            Step("Conv", (taken.name, *step.inputs[1:]), step.outputs, still),
        )

    return write


def _steps(graph: Graph, node: Node) -> tuple[int, ...]:
    """The strides of an unpadded convolution by a constant kernel of one pixel; none if all are 1, or of any other."""
    given = node.attributes
    if node.op != "Conv" or any(given.get("pads", ())) or given.get("auto_pad", "NOTSET") != "NOTSET":
        return ()
    kernel, strides = graph.values[node.inputs[1]], tuple(given.get("strides", ()))
    one = kernel.data is not None and all(size == 1 for size in kernel.shape[SPACE:])
    return strides if one and any(stride > 1 for stride in strides) else ()


def _readers(graph: Graph, name: str) -> Iterator[Node | None]:
    """All that reads a value, in whatever order its dimensions are; None for an output of the graph."""
    while (node := graph.producer(name)) is not None and node.op == "Transpose":
        name = node.inputs[0]
    waiting = [name]
    while waiting:
        name = waiting.pop()
        if name in graph.results:
            yield None
        for reader in graph.readers.get(name, ()):
            if reader.op == "Transpose":
                waiting.append(reader.outputs[0])
            else:
                yield reader
