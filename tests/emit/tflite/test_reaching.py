"""Changes of nodes in ONNX that execute what no other test does: refused as noted, with a remedy, or right."""

from __future__ import annotations

import numpy as np
import pytest

from layoutsolve.verification.runtimes import OnnxRuntime
from tests.emit.tflite.reaching import CASES, CONVERTED, LINES, STEP, STEPS, changes, outcome
from tests.truth import litert

NOTED = [line.split(" | ", 2) for line in LINES.read_text(encoding="utf-8").splitlines()]


@pytest.mark.members(0)
@pytest.mark.parametrize("operator", sorted({case.partition(" ")[0] for case, _, _ in NOTED}))
def test_what_becomes_of_changed_nodes(operator: str) -> None:
    for case, change, text in [line for line in NOTED if line[0].partition(" ")[0] == operator]:
        model, given = dict(changes(operator, int(case.partition(" ")[2])))[change]()
        found, written = outcome(model)
        assert found == text, f"{case} | {change}"
        if text == CONVERTED:
            truth = OnnxRuntime(model.SerializeToString(), level="none")
            expected = truth.run(dict(zip([name for name, _, _ in truth.inputs], given, strict=True)))
            results = litert().run(written, given).results
            for one, other in zip(expected, results, strict=True):
                assert (one.shape, one.dtype) == (other.shape, other.dtype), f"{case} | {change}"
                tolerance = 1.01 * STEP if change == "in int8" else 1e-3 if one.dtype == np.float16 else 2e-5
                np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance, err_msg=f"{case} | {change}")


@pytest.mark.members(0)
@pytest.mark.parametrize("operator", [name for name, cases in CASES.items() if cases[0].inputs[0].dtype == np.float32])
def test_bytes_become_other_types(operator: str) -> None:
    """A kernel on bytes takes no other type for its result; results are right by a step."""
    for dtype, (step, _) in STEPS.items():
        model, given = dict(changes(operator, 0))[f"in int8 to {dtype}"]()
        model.opset_import[0].version = max(model.opset_import[0].version, 21)
        found, written = outcome(model)
        assert found == CONVERTED
        truth = OnnxRuntime(model.SerializeToString(), level="none")
        expected = truth.run(dict(zip([name for name, _, _ in truth.inputs], given, strict=True)))
        for one, other in zip(expected, litert().run(written, given).results, strict=True):
            assert (one.shape, one.dtype) == (other.shape, other.dtype)
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1.01 * step + 1e-4)
