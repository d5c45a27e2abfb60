"""Which layers of bytes could have weights with a sign on every processor: those in which no pair of products is
too large.

Without VNNI, x86 adds two products of neighbours, of 255 by a weight at most, in 16 bits. Weights are neighbours in the
order in which ONNX Runtime's kernels read them: pixels, then channels. Layers are counted in which no two are too
large, and all pairs that are.

    python -m experiments.saturation FOLDER [--only int8]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

import layoutsolve
from experiments.corpus import arguments, models
from layoutsolve.frontend import Reading, read
from layoutsolve.frontend.passes import weights
from layoutsolve.graph import Array, Graph, Node
from layoutsolve.storage import Storage

MOST = 32767 // 255
"""The largest sum of two weights whose products with 255 fit."""


def layers(graph: Graph) -> Iterator[Array]:
    """The weights of layers whose sums may saturate, with a sign: a row for each result, in the order of kernels."""
    plain = weights.stored(graph, "signed")
    unsigned = weights.stored(plain, "unsigned")
    for node in plain.nodes:
        name = node.inputs[1] if node.op in weights.SUMMING and not node.storage else ""
        if name and unsigned.values[name].dtype != plain.values[name].dtype:
            data = plain.values[name].data
            if data is not None:
                yield _rows(node, data.astype(np.int16))


def _rows(node: Node, data: Array) -> Array:
    if node.op == "Conv":
        return np.moveaxis(data, 1, -1).reshape(len(data), -1)
    by_column = node.op == "MatMul" or not node.attributes.get("transB", 0)
    return data.reshape(-1, data.shape[-1]).T if by_column else data


def too_large(rows: Array) -> tuple[int, int]:
    """How many pairs of neighbours could saturate, and how many there are."""
    even = np.pad(rows, ((0, 0), (0, rows.shape[1] % 2)))
    first, second = even[:, ::2], even[:, 1::2]
    above = np.maximum(first, 0) + np.maximum(second, 0) > MOST
    below = np.minimum(first, 0) + np.minimum(second, 0) < -MOST
    return int((above | below).sum()), above.size


def main(given: Sequence[str] | None = None) -> None:
    """The command line."""
    options = arguments(__doc__ or "").parse_args(given)
    safe, count, pairs, all_pairs = 0, 0, 0, 0
    for model in models(options.folder, options.only):
        try:
            graph = read(model.source, model.name, Reading(storage=Storage(unsigned=True)))
        except layoutsolve.ConversionError:
            continue
        found = [too_large(rows) for rows in layers(graph)]
        if found:
            own = sum(not large for large, _ in found)
            print(f"* {model.name}: {own} of {len(found)} layers", flush=True)
            safe, count = safe + own, count + len(found)
            pairs, all_pairs = pairs + sum(large for large, _ in found), all_pairs + sum(every for _, every in found)
    share = pairs / max(all_pairs, 1)
    print(f"\n{safe} of {count} layers cannot saturate; {share:.1%} of all pairs of weights can")


if __name__ == "__main__":
    main()
