"""What is written is converted again, as another model that nothing is known of: no level that is proven gets better.

Layout penalties are stated against the operators of the source. The second source has the operators that were written,
of which some lose nothing that lost something in place of those of the first, and some the other way round: a product
for each head of attention in place of one for all, a Gemm in place of a Conv. So what the second conversion comes to is
held against both, what the first one stated of its answer and what that costs as it stands in the second.
"""

from __future__ import annotations

from itertools import takewhile

import onnx

import layoutsolve
from layoutsolve.solver.statement.objective import ranked

Values = tuple[int, ...]


def improved(found: layoutsolve.Conversion) -> tuple[Values, Values, Values] | None:
    """The proven levels of a conversion as stated, as written, and of the conversion of what was written, where these
    are lower than both; None where they are not, or what is proven is relative to operators that are kept.
    """
    assignment = found.assignment
    levels, options = assignment.goal.levels, {"objective": assignment.objective}
    proven = len([*takewhile(lambda tier: tier.status == "optimal", found.tiers)])
    model = onnx.ModelProto()
    model.CopyFrom(found.model)
    stands = layoutsolve.convert(model.SerializeToString(), **options)  # it is known to be written, and returned
    del model.metadata_props[:]
    again = layoutsolve.convert(model.SerializeToString(), **options)
    stated, known, less = (ranked(each.price, levels)[:proven] for each in (found, stands, again))
    return (stated, known, less) if less < min(stated, known) and not assignment.kept else None
