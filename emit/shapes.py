"""The shape input of a Reshape, where sizes may be symbolic."""

from __future__ import annotations

from collections.abc import Sequence

from layoutsolve.errors import ConversionError
from layoutsolve.graph import Dim, Size
from layoutsolve.solver.layout import Layout, stored_shape


def reshape_target(source: Layout, target: Layout, sizes: Sequence[Dim]) -> list[int]:
    """The vector that reshapes ``source`` to ``target``: 0 copies a dimension that is in the same place, -1 is
    computed.

    Raises :class:`ConversionError` where more than one dimension has a size that is not known and not in its place.
    """
    before, after = stored_shape(source, sizes), stored_shape(target, sizes)
    vector = [-1 if isinstance(dim, Size) else dim for dim in after]
    if vector.count(-1) > 1:
        vector = [
            0 if item == -1 and axis < len(before) and before[axis] == after[axis] else item
            for axis, item in enumerate(vector)
        ]
    if vector.count(-1) > 1:
        shapes = f"[{', '.join(map(str, before))}] to [{', '.join(map(str, after))}]"
        raise ConversionError(
            f"a Reshape from {shapes} has more than one unknown dimension: fix the model's input shape"
        )
    return vector
