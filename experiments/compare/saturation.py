"""Which layers of bytes could have weights with a sign on every processor: those in which no pair of products is
too large.

Without VNNI, x86 adds two products of neighbours, of 255 by a weight at most, in 16 bits. Weights are neighbours in the
order in which ONNX Runtime's kernels read images: pixels, then channels, where these lie last, and the other way round
else. Layers are counted in which no two are too large in either, those in which only every other pair counts, as
kernels add them from the first weight on, and all pairs that are too large in the first order.

    python -m experiments.compare.saturation FOLDER [--only int8]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import layoutsolve
from experiments.corpus import arguments, models
from layoutsolve.frontend import Reading, read
from layoutsolve.frontend.passes import weights
from layoutsolve.ir.graph import Array, Graph
from layoutsolve.ir.saturation import may_saturate, too_large, ways
from layoutsolve.ir.storage_options import Storage


def layers(graph: Graph) -> Iterator[tuple[Array, ...]]:
    """The weights of layers whose sums may saturate, with a sign: a row for each result, in the orders of kernels."""
    plain = weights.stored(graph, "signed")
    unsigned = weights.stored(plain, "unsigned")
    for node in plain.nodes:
        name = node.inputs[1] if may_saturate(plain, node) else ""
        if name and unsigned.values[name].dtype != plain.values[name].dtype:
            data = plain.values[name].data
            if data is not None:
                yield ways(node, data)


def _by_pairs(rows: Array) -> bool:
    """Whether any two weights that kernels add are too large: the first and second, third and fourth, and so on."""
    even = rows[:, : rows.shape[1] // 2 * 2]
    return too_large(even.reshape(-1, 2))[0] > 0


def main(given: Sequence[str] | None = None) -> None:
    """The command line."""
    options = arguments(__doc__ or "").parse_args(given)
    safe, nearly, count, pairs, all_pairs = 0, 0, 0, 0, 0
    for model in models(options.folder, options.only):
        try:
            graph = read(model.source, model.name, Reading(storage=Storage(unsigned=True)))
        except layoutsolve.ConversionError:
            continue
        rows = [*layers(graph)]
        found = [[too_large(way) for way in each] for each in rows]
        nearly += sum(not any(_by_pairs(way) for way in each) for each in rows)
        if found:
            own = sum(not any(large for large, _ in each) for each in found)
            print(f"* {model.name}: {own} of {len(found)} layers", flush=True)
            safe, count = safe + own, count + len(found)
            pairs += sum(large for (large, _), *_ in found)
            all_pairs += sum(every for (_, every), *_ in found)
    share = pairs / max(all_pairs, 1)
    print(f"\n{safe} of {count} layers cannot saturate, {nearly} by every other pair; {share:.1%} of all pairs can")


if __name__ == "__main__":
    main()
