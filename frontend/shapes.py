"""Sizes and indices: how the shape of an output follows from the shapes of the inputs, symbolic sizes included."""

from __future__ import annotations

from collections.abc import Sequence

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.errors import ModelError
from layoutsolve.frontend.arithmetic import Arithmetic
from layoutsolve.ir.graph import Dim, Shape, Size, product, quotient

LAST = (1 << 63) - 1
"""The end of a slice that goes on to the last element."""


def axis_of(axis: int, rank: int) -> int:
    """The axis counted from the front."""
    if not -rank <= axis < rank:
        raise ModelError(f"axis {axis} does not exist in a tensor of rank {rank}")
    return axis % rank


def broadcast(shapes: Sequence[Shape], arithmetic: Arithmetic) -> Shape:
    """The shape that all ``shapes`` broadcast to."""
    rank = max((len(shape) for shape in shapes), default=0)
    aligned = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    return tuple(_broadcast_dim(dims, arithmetic) for dims in zip(*aligned, strict=True))


def _broadcast_dim(dims: Sequence[Dim], arithmetic: Arithmetic) -> Dim:
    numbers = {dim for dim in dims if isinstance(dim, int)} - {1}
    symbols = {dim for dim in dims if isinstance(dim, Size)}
    if len(numbers) > 1:
        raise ModelError(f"sizes {sorted(numbers)} cannot be broadcast together")
    if numbers:
        return numbers.pop()
    return arithmetic.broadcast(symbols) if symbols else 1


def window(size: Dim, kernel: int, stride: int, dilation: int, same: bool, arithmetic: Arithmetic) -> Dim:
    """The output size of a convolution or pooling along one axis."""
    extent = 1 if same else (kernel - 1) * dilation + 1
    if isinstance(size, Size):
        return arithmetic.window(size, extent, stride)
    count = (size - extent) // stride + 1
    if count < 1:
        raise ModelError(f"a kernel of extent {extent} does not fit into the size {size}")
    return count


def same_pads(size: Dim, kernel: int, stride: int, dilation: int) -> tuple[int, int] | None:
    """The padding of SAME before and after; None where it depends on a symbolic size.

    What is before is all that counts: where it is the same for every size, so much is added after that every window
    fits. That makes as many windows as SAME has, and those that need less do not reach the rest.
    """
    extent = (kernel - 1) * dilation + 1
    if isinstance(size, Size):
        before = (extent - 1) // 2
        return (before, extent - 1 - before) if before == max(extent - stride, 0) // 2 else None
    total = max(extent - (size - 1) % stride - 1, 0)
    return total // 2, total - total // 2


def automatic(size: Dim, kernel: int, stride: int) -> bool:
    """Whether ``SAME_UPPER`` is SAME: ONNX Runtime pads by a negative number where a stride passes over elements."""
    return kernel >= stride or (isinstance(size, int) and (size - 1) % stride < kernel)


def same_passes_over(size: Dim, extent: int, stride: int) -> bool:
    """Whether strides of SAME may leave out two elements or more beside the outermost windows: ONNX Runtime has these
    begin later, by a negative padding of which each of its kernels takes another part.
    """
    rest = (size - 1) % stride if isinstance(size, int) else stride - 1
    return rest - extent + 1 > 1


def reshaped(before: Shape, requested: Sequence[Dim], arithmetic: Arithmetic) -> Shape:
    """The shape a RESHAPE gives, its -1 resolved."""
    wild = [position for position, dim in enumerate(requested) if dim == -1]
    if len(wild) > 1 or any(isinstance(dim, int) and dim < -1 for dim in requested):
        raise ModelError(f"{list(map(str, requested))} is not a shape to reshape to")
    total, rest = product(before), product(dim for dim in requested if dim != -1)
    if not wild:
        if isinstance(total, int) and isinstance(rest, int) and total != rest:
            raise ModelError(f"{total} elements cannot be reshaped to {list(map(str, requested))}")
        return tuple(requested)
    missing = quotient(total, rest)
    if missing is None:
        if isinstance(total, int) and isinstance(rest, int):
            if total == rest == 0:
                missing = 0
            else:
                raise ModelError(f"{total} elements cannot be reshaped to {list(map(str, requested))}")
        else:
            missing = arithmetic.quotient(total, rest)
    return tuple(missing if dim == -1 else dim for dim in requested)


@dataclass(frozen=True)
class Span:
    """One axis of a slice as ONNX and numpy have it: from ``start`` up to ``end`` (:data:`LAST` goes all the way)."""

    start: Dim
    end: Dim
    step: int = 1

    @property
    def whole(self) -> bool:
        """Whether it takes the axis as it is."""
        return self.start == 0 and self.end == LAST and self.step == 1

    @property
    def python(self) -> slice:
        """The same as a Python slice. Raises TypeError where a bound is known by name only."""
        if isinstance(self.start, Size) or isinstance(self.end, Size):
            raise TypeError(f"a slice from {self.start} to {self.end} is not known in numbers")
        unbounded = self.end in (LAST, -LAST)
        return slice(self.start, None if unbounded else self.end, self.step)


def span_size(size: Dim, span: Span, arithmetic: Arithmetic) -> Dim:
    """How many elements a span takes of an axis; bounds that are known by name only are not negative."""
    start, end, step = span.start, span.end, span.step
    if not any(isinstance(each, Size) for each in (size, start, end)):
        return len(range(*span.python.indices(size)))  # type: ignore[arg-type]
    if step == 1 and end == LAST and _from_end(start):
        return arithmetic.smallest((size, product((-1, start))), "span")
    if step > 0:
        first = arithmetic.largest((arithmetic.total((size, start)), 0), "start") if _from_end(start) else start
        behind = size if end == LAST else arithmetic.smallest((size, end), "end")
        length = arithmetic.difference(arithmetic.total((size, end)) if _from_end(end) else behind, first)
    else:
        last = arithmetic.total((size, -1))
        first = arithmetic.total((size, start)) if _from_end(start) else arithmetic.smallest((last, start), "start")
        before = arithmetic.largest((arithmetic.total((size, end)), -1), "end") if _from_end(end) else end
        length = arithmetic.difference(first, -1 if end == -LAST else before)
    steps = arithmetic.quotient(arithmetic.total((length, abs(step) - 1)), abs(step), "span")
    return arithmetic.largest((steps, 0), "span")


def _from_end(bound: Dim) -> bool:
    return not isinstance(bound, Size) and bound < 0


@dataclass(frozen=True)
class StridedSlice:
    """A STRIDED_SLICE, its masks resolved: a span per input axis; per output axis the input axis or None (new)."""

    spans: tuple[Span, ...]
    axes: tuple[int | None, ...]


@dataclass(frozen=True)
class Masks:
    """The bit masks of a STRIDED_SLICE: bit i belongs to entry i of its vectors."""

    begin: int = 0
    end: int = 0
    ellipsis: int = 0
    new_axis: int = 0
    shrink_axis: int = 0
    offset: bool = False


def strided_slice(
    shape: Shape, begin: Sequence[Dim | None], end: Sequence[Dim | None], strides: Sequence[int], masks: Masks
) -> StridedSlice | None:
    """Resolve the masks; None where a bound that is needed is not known (None)."""
    rank, entries = len(shape), len(begin)
    if not len(end) == len(strides) == entries or masks.ellipsis & (masks.ellipsis - 1):
        raise ModelError("the vectors or masks of a strided slice contradict each other")
    added = sum(1 for i in range(entries) if masks.new_axis >> i & 1 and not masks.ellipsis >> i & 1)
    ellipses = 1 if masks.ellipsis and masks.ellipsis < 1 << entries else 0
    skipped = rank - (entries - added - ellipses)
    if skipped < 0 and not ellipses:
        raise ModelError(f"a strided slice names {entries - added} axes of a tensor of rank {rank}")
    spans: list[Span] = []
    axes: list[int | None] = []
    for i in range(entries):
        if ellipses and len(spans) + axes.count(None) >= rank + added:
            break
        if ellipses and masks.ellipsis >> i & 1:
            # In LiteRT it stands for one axis at least, and what no axis is left for is ignored.
            count = max(skipped, 1)
            axes += range(len(spans), len(spans) + count)
            spans += [Span(0, LAST)] * count
        elif masks.new_axis >> i & 1:
            axes.append(None)
        else:
            shrunk = bool(masks.shrink_axis >> i & 1)
            if shrunk and strides[i] < 0:
                raise ModelError("a strided slice takes one element of an axis, backwards")
            span = axis_span(shape[len(spans)], begin[i], end[i], strides[i], i, masks)
            if span is None:
                return None
            axes += [] if shrunk else [len(spans)]
            spans.append(span)
    axes += range(len(spans), rank)
    spans += [Span(0, LAST)] * (rank - len(spans))
    return StridedSlice(tuple(spans), tuple(axes))


def axis_span(size: Dim, begin: Dim | None, end: Dim | None, step: int, bit: int, masks: Masks) -> Span | None:
    """What entry ``bit`` of the vectors takes of an axis; None where a bound that is needed is not known."""
    if step == 0:
        raise ModelError("a strided slice has the stride 0")
    start = (0 if step > 0 else -1) if masks.begin >> bit & 1 else begin
    if start is None:
        return None
    if masks.shrink_axis >> bit & 1:
        return _single(size, start)
    if masks.offset:
        return _counted(size, start, end, step, bool(masks.end >> bit & 1))
    stop = (LAST if step > 0 else -LAST) if masks.end >> bit & 1 else end
    if stop is None:
        return None
    if step > 0 and stop == size:
        stop = LAST
    if isinstance(start, Size) or isinstance(stop, Size):
        return Span(start, stop, step)
    if isinstance(size, int):
        return _clamped(size, start, stop, step)
    return Span(start, LAST if step > 0 and stop >= 1 << 31 - 1 else stop, step)


def _single(size: Dim, start: Dim) -> Span | None:
    """The span of one element; None where it may be counted from the end."""
    if isinstance(start, Size):
        return None
    if isinstance(size, int) and not -size <= start < size:
        raise ModelError(f"a strided slice takes the element {start} of {size}")
    return Span(start, start + 1 if start != -1 else LAST)


def _counted(size: Dim, start: Dim, count: Dim | None, step: int, masked: bool) -> Span | None:
    """The span of so many elements from a start on; None where either is not known.

    LiteRT reads or writes beyond its data where there are not as many, or backwards.
    """
    if masked or step < 0:
        raise ModelError("a strided slice by starts and counts has a mask for its end, or goes backwards")
    if count is None or isinstance(start, Size) or isinstance(count, Size):
        return None
    if not isinstance(size, int):
        return Span(start, start + count, step) if start >= 0 and count >= 0 else None
    first = start + size if start < 0 else start
    if not 0 <= first <= first + count <= size:
        raise ModelError(f"a strided slice takes {count} elements from {start} on, of {size}")
    return _clamped(size, first, first + count, step)


def _clamped(size: int, start: int, stop: int, step: int) -> Span:
    """The span with bounds inside the axis, as plain as possible."""
    first, last, _ = Span(start, stop, step).python.indices(size)
    if not range(first, last, step):
        return Span(0, 0)
    if step > 0:
        return Span(first, LAST if last >= size else last, step)
    return Span(first - size, -LAST if last < 0 else last - size, step)
