"""SOFTMAX of bytes with any number of classes, one among them, at all levels of optimisation."""

from __future__ import annotations

import numpy as np
import pytest

from layoutsolve.emit import serialise
from layoutsolve.frontend import read
from layoutsolve.verification.runtimes import OnnxRuntime
from tests.builder import Builder, Quant
from tests.truth import litert


@pytest.mark.parametrize("level", ["none", "basic", "extended", "all"])
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("classes", [-1, 1, 2])
def test_number_of_classes(classes: int, dtype: str, level: str) -> None:
    low = np.iinfo(dtype).min
    for beta in (1.0, 0.5):
        builder = Builder()
        x = builder.input("x", (2, abs(classes)), dtype, quant=Quant([0.04], [low + 100]), signature=(-1, classes))
        y = builder.tensor("y", (2, abs(classes)), dtype, quant=Quant([1 / 256], [low]), signature=(-1, classes))
        builder.operator("SOFTMAX", [x], [y], {"beta": beta})
        source = builder.finish(y)
        runtime = OnnxRuntime(serialise(read(source)).SerializeToString(), threads=1, level=level)
        for count in (classes,) if classes > 0 else (1, 2, 3, 17):
            data = (np.arange(2 * count) * 37 % 251 + low).reshape(2, count).astype(dtype)
            (truth,) = litert().run(source, [data]).results
            difference = runtime.run({"x": data})[0].astype(int) - truth.astype(int)
            assert np.abs(difference).max() <= 1, (count, beta)
