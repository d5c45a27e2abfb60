"""What lies between two layouts, against the same said another way."""

from __future__ import annotations

import numpy as np
import pytest

from layoutsolve.solver.theory.layout import scattered, scatterings


@pytest.mark.parametrize("atoms", range(9))
def test_many_pairs_at_once_are_as_one_by_one(atoms: int) -> None:
    random = np.random.default_rng(atoms)
    layouts = []
    for _ in range(40):
        sequence = random.permutation(atoms).tolist()
        cuts = sorted(random.integers(0, atoms + 1, 3).tolist())
        bounds = zip([0, *cuts], [*cuts, atoms], strict=True)
        layouts.append(tuple(tuple(sequence[start:end]) for start, end in bounds))
    for sources, targets in ((layouts, layouts), (layouts[:3], layouts), (layouts[:2], layouts[:2]), ([], layouts)):
        expected = [bytes(scattered(source, target) for target in targets) for source in sources]
        assert scatterings(sources, targets) == expected
