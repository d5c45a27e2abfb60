"""Random models in ONNX with If, Loop and Scan: graphs within graphs that read what is around them, and move it.

All that is in here leaves the shape of an image as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx
from onnx import TensorProto, helper

from tests.random_onnx import Writer, add, flattened, rounded, scaled, softmax, there_and_back, unary

LAST, FIRST = (0, 2, 3, 1), (0, 3, 1, 2)
"""What moves channels to the end, and back."""

TYPES = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64, "bool": TensorProto.BOOL}


class Inner(Writer):
    """A graph within a graph: it may read all that is there around it. Siblings give their tensors the same names.

    Of its ends it tells how many dimensions they have, or sizes as well.
    """

    def __init__(self, around: Writer) -> None:
        super().__init__(0)
        self.random, self.batch, self.shapes = around.random, around.batch, dict(around.shapes)
        self.prefix = f"{around.prefix}inner_"
        self.types: dict[str, str] = {}

    def given(self, name: str, shape: Sequence[int], dtype: str = "float32") -> str:
        """A tensor that each turn is given."""
        found = f"{self.prefix}{name}"
        self.inputs.append(found)
        self.types[found], self.shapes[found] = dtype, tuple(shape)
        return found

    def result(self, x: str, dtype: str = "float32") -> str:
        """A tensor under a name of its own, as a graph gives it."""
        found = self.op("Identity", x, shape=self.shapes[x])
        self.types[found] = dtype
        return found

    def graph(self, *outputs: str, told: bool) -> onnx.GraphProto:
        """The graph with these results; how large its ends are may be ``told``."""
        ends = [
            [
                helper.make_tensor_value_info(
                    name, TYPES[self.types.get(name, "float32")], [dim if told else None for dim in self.shapes[name]]
                )
                for name in names
            ]
            for names in (self.inputs, outputs)
        ]
        return helper.make_graph(self.nodes, "inner", *ends, self.constants)

    @property
    def tells(self) -> bool:
        """Whether to tell sizes, which has to be right."""
        return self.batch != "n" and bool(self.random.random() < 0.3)


def random_flow(seed: int, dynamic: bool = False, steps: int = 3) -> tuple[Writer, onnx.ModelProto]:
    """A network on one image, and what it was made with."""
    writer = Writer(seed, dynamic)
    x = writer.input(2, int(writer.random.choice([3, 4])), 4, 6)
    x = _flow(writer, _some(writer, x, steps, 0), 0)
    return writer, writer.model(writer.op("Relu", x, shape=writer.shapes[x]))


def _some(writer: Writer, x: str, steps: int, depth: int) -> str:
    """A few operators in a row."""
    kinds = (unary, add, there_and_back, there_and_back, scaled, softmax, flattened)
    for _ in range(steps):
        chosen = writer.random.random()
        if chosen < 0.35 and depth < 2:
            x = _flow(writer, x, depth)
        elif chosen < 0.45:
            x = rounded(writer, x, still=True)
        else:
            x = kinds[int(writer.random.integers(len(kinds)))](writer, x)
    return x


def _flow(writer: Writer, x: str, depth: int) -> str:
    flows = (_branch, _loop, _growing, _scan)
    return flows[int(writer.random.integers(len(flows)))](writer, x, depth + 1)


def _moved(shape: Sequence[int], perm: Sequence[int]) -> list[int]:
    return [shape[axis] for axis in perm]


def _condition(writer: Writer, x: str) -> str:
    """Whether a sum is positive; known at times."""
    if writer.random.random() < 0.2:
        return writer.constant(writer.random.random() < 0.5, "bool")
    total = writer.op("ReduceSum", x, shape=(), keepdims=0)
    return writer.op("Greater", total, writer.constant(0.0), shape=())


def _branch(writer: Writer, x: str, depth: int) -> str:
    """Both branches may move what they give."""
    condition, last = _condition(writer, x), writer.random.random() < 0.5
    graphs = {}
    for name in ("then_branch", "else_branch"):
        inner = Inner(writer)
        y = _some(inner, x, int(inner.random.integers(3)), depth)
        graphs[name] = inner.graph(inner.result(inner.transpose(y, LAST) if last else y), told=inner.tells)
    shape = writer.shapes[x]
    found = writer.op("If", condition, shape=_moved(shape, LAST) if last else shape, **graphs)
    return writer.transpose(found, FIRST) if last else found


def _ends(writer: Writer, x: str, fewest: int) -> tuple[str, str]:
    """How often a Loop turns, and whether it begins at all, which it does where it turns once at least."""
    trips = writer.constant(int(writer.random.integers(fewest, 4)), "int64")
    if writer.random.random() < 0.3:  # as often as there are rows
        sizes = writer.op("Shape", x, shape=(4,))
        trips = writer.op("Gather", sizes, writer.constant(2, "int64"), shape=())
    return trips, "" if fewest or writer.random.random() < 0.5 else _condition(writer, x)


def _body(writer: Writer) -> tuple[Inner, str, str]:
    """The body of a Loop, the number of the turn, and whether it goes on."""
    inner = Inner(writer)
    return inner, inner.given("turn", (), "int64"), inner.given("going", (), "bool")


def _again(inner: Inner, turn: str, going: str) -> str:
    """Whether there is a next turn."""
    if inner.random.random() < 0.5:
        return inner.result(going, "bool")
    return inner.result(inner.op("Less", turn, inner.constant(2, "int64"), shape=()), "bool")


def _loop(writer: Writer, x: str, depth: int) -> str:
    """What is carried is moved in the body; what is collected of all turns is summed behind it: ONNX Runtime does not
    know how large nothing is.
    """
    ends, last = _ends(writer, x, 1), writer.random.random() < 0.5
    start = writer.transpose(x, LAST) if last else x
    inner, turn, going = _body(writer)
    now = inner.given("now", writer.shapes[start])
    count = inner.op("Cast", turn, shape=(), to=TensorProto.FLOAT)
    plain = inner.transpose(now, FIRST) if last else now
    more = inner.op("Mul", x, count, shape=writer.shapes[x])
    mixed = inner.op("Add", _some(inner, plain, 1, depth), more, shape=writer.shapes[x])
    collected = inner.transpose(mixed, LAST)
    following = inner.op("Tanh", inner.transpose(mixed, LAST) if last else mixed, shape=inner.shapes[now])
    again = _again(inner, turn, going)
    body = inner.graph(again, inner.result(following), inner.result(collected), told=inner.tells)
    name = f"{writer.prefix}loop_{len(writer.nodes)}"
    writer.nodes.append(helper.make_node("Loop", [*ends, start], [name, f"{name}_all"], body=body))
    writer.shapes |= {name: writer.shapes[start], f"{name}_all": (0, *inner.shapes[collected])}
    axes = writer.constant([0], "int64")
    total = writer.op("ReduceSum", f"{name}_all", axes, shape=inner.shapes[collected], keepdims=0)
    found = writer.transpose(name, FIRST) if last else name
    return writer.op("Add", found, writer.transpose(total, FIRST), shape=writer.shapes[x])


def _growing(writer: Writer, x: str, depth: int) -> str:
    """What is carried is wider after each turn."""
    ends, start = _ends(writer, x, 0), writer.transpose(x, LAST)
    inner, turn, going = _body(writer)
    now = inner.given("now", writer.shapes[start])
    more = inner.transpose(_some(inner, x, 1, depth), LAST)
    wider = inner.op("Concat", now, more, shape=inner.shapes[now], axis=2)
    body = inner.graph(_again(inner, turn, going), inner.result(wider), told=False)
    found = writer.op("Loop", *ends, start, shape=writer.shapes[start], body=body)
    batch, channels, height, _ = writer.shapes[x]
    back = writer.transpose(found, FIRST)
    mean = writer.op("ReduceMean", back, writer.constant([3], "int64"), shape=(batch, channels, height, 1))
    return writer.op("Add", x, mean, shape=writer.shapes[x])


def _scan(writer: Writer, x: str, depth: int) -> str:
    """Along one dimension of an image, which is another one of what is collected, from either end."""
    shape, random = writer.shapes[x], writer.random
    axis, place, ahead, behind = (int(random.integers(most)) for most in (4, 4, 2, 2))
    rest = [each for each in range(4) if each != axis]
    start = writer.op("ReduceSum", x, writer.constant([axis], "int64"), shape=_moved(shape, rest), keepdims=0)
    inner = Inner(writer)
    now, element = (inner.given(name, _moved(shape, rest)) for name in ("now", "element"))
    mixed = inner.op("Add", now, unary(inner, element), shape=inner.shapes[now])
    if random.random() < 0.3:
        most = inner.op("ReduceMax", _some(inner, x, 1, depth), shape=(), keepdims=0)
        mixed = inner.op("Add", mixed, most, shape=inner.shapes[now])
    perm = [int(each) for each in random.permutation(3)]
    results = inner.result(inner.op("Tanh", mixed, shape=inner.shapes[now])), inner.result(inner.transpose(mixed, perm))
    attributes = {"scan_input_axes": [axis], "scan_input_directions": [ahead]}
    attributes |= {"scan_output_axes": [place], "scan_output_directions": [behind]}
    name, body = f"{writer.prefix}scan_{len(writer.nodes)}", inner.graph(*results, told=inner.tells)
    node = helper.make_node("Scan", [start, x], [name, f"{name}_all"], body=body, num_scan_inputs=1, **attributes)
    writer.nodes.append(node)
    labels = _moved(rest, perm)
    labels.insert(place, axis)
    writer.shapes |= {name: writer.shapes[start], f"{name}_all": tuple(_moved(shape, labels))}
    back = writer.transpose(f"{name}_all", [labels.index(each) for each in range(4)])
    single = [1 if each == axis else size for each, size in enumerate(shape)]
    last = writer.op("Unsqueeze", name, writer.constant([axis], "int64"), shape=single)
    return writer.op("Add", back, last, shape=shape)
