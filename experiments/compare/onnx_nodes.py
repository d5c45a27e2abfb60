"""ONNX's own tests of its operators, put through layoutsolve: whether results are those of the model as it is.

Counted are the tests that ONNX Runtime itself runs and passes: those whose results are the same, or differ, those that
are refused with one clear error, and those that crash, or that ONNX Runtime does not run as they are written. Those
whose Transposes or views become more are told as well.

    python -m experiments.compare.onnx_nodes [--only transpose] [--every 10]
"""

from __future__ import annotations

import argparse
import importlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

import layoutsolve
from experiments.onnx_shared import TRANSPOSE, FailedError, apart, distance, moving, session, whole

SECONDS = 60.0
"""That a test may take."""

WRONG = 1e-5
"""A distance from what ONNX Runtime gives for the model as it is that counts as different."""

UNUSABLE, DIFFERENT, SAME, MORE = "not run as written", "different", "same", "same, with more"


@dataclass(frozen=True)
class Test:
    """A test: its name, its model, and the inputs and results that ONNX states."""

    name: str
    model: onnx.ModelProto
    inputs: Sequence[Any]
    results: Sequence[Any]
    tolerances: tuple[float, float]

    @property
    def feeds(self) -> Mapping[str, Any]:
        """The inputs by name; an optional one that is not there is left out."""
        ports = zip(self.model.graph.input, self.inputs, strict=False)
        return {port.name: _plain(given) for port, given in ports if given is not None}


def _plain(given: Any) -> Any:
    if isinstance(given, (list, tuple)):
        return [_plain(each) for each in given]
    if isinstance(given, onnx.TensorProto):
        return numpy_helper.to_array(given)
    return np.asarray(given) if not isinstance(given, dict) else given


def tests(only: str, every: int) -> Iterator[Test]:
    """ONNX's tests of operators, in their order."""
    collected = importlib.import_module("onnx.backend.test.case.node").collect_testcases(None)
    for case in [each for each in collected if only in each.name and each.model is not None][::every]:
        inputs, results = case.data_sets[0]
        yield Test(case.name, case.model, inputs, results, (case.rtol, case.atol))


def passed(test: Test) -> Sequence[Any] | None:
    """What ONNX Runtime makes of a test without optimising it, None where that is not what ONNX states.

    Whatever it raises where it does not run the model is raised.
    """
    found = session(test.model.SerializeToString(), "none").run(None, dict(test.feeds))
    return found if all(map(partial(_close, test.tolerances), found, test.results)) else None


def _close(tolerances: tuple[float, float], found: Any, wanted: Any) -> bool:
    wanted = _plain(wanted) if wanted is not None else None
    if isinstance(wanted, list):
        return isinstance(found, list) and all(map(partial(_close, tolerances), found, wanted))
    if wanted is None or not isinstance(found, np.ndarray) or wanted.dtype.kind not in "fc":
        return distance(found, wanted) == 0
    relative, absolute = tolerances
    return found.shape == wanted.shape and np.allclose(
        found.astype(complex), wanted.astype(complex), relative, absolute, equal_nan=True
    )


def converted(test: Test, wanted: Sequence[Any]) -> tuple[str, str]:
    """What becomes of a test: a word for it, and the details. Whatever the conversion raises is raised."""
    made = layoutsolve.convert(test.model.SerializeToString()).model
    for level in ("none", "all"):
        try:
            found = session(made.SerializeToString(), "none" if level == "none" else "all").run(None, dict(test.feeds))
        except Exception as error:  # ONNX Runtime has a class of exception for each status
            return UNUSABLE, f"{level}: {' | '.join(str(error).splitlines())[:200]}"
        off = distance(found, list(wanted))
        if off > WRONG:
            return DIFFERENT, f"{level}: {off:.1e}"
    before, after = cost(test.model), cost(made)
    return (MORE, f"{after} from {before}") if after > before else (SAME, "")


def cost(model: onnx.ModelProto) -> tuple[int, int]:
    """Transposes and views of what depends on inputs."""
    kinds = [node.op_type for node in moving(whole(model).graph)]
    return kinds.count(TRANSPOSE), len(kinds) - kinds.count(TRANSPOSE)


def examined(test: Test) -> tuple[str, str, str]:
    """The name of a test, a word for what becomes of it, and the details."""
    try:
        wanted = apart(lambda: passed(test), SECONDS)
    except FailedError as error:
        return test.name, "ONNX Runtime does not run it", error.text
    if wanted is None:
        return test.name, "ONNX Runtime does not pass it", ""
    try:
        return test.name, *apart(lambda: converted(test, wanted), SECONDS)
    except FailedError as error:
        return test.name, error.kind, error.text


def main(given: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", metavar="TEXT", help="only tests whose name contains TEXT")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="every N-th test (default: 1)")
    options = parser.parse_args(given)
    skipped = ("ONNX Runtime does not run it", "ONNX Runtime does not pass it")
    counts = Counter[str]()
    for test in tests(options.only, options.every):
        name, verdict, detail = examined(test)
        counts[verdict] += 1
        if verdict not in (SAME, *skipped):
            print(f"* {verdict}, {name}: {detail}", flush=True)
    ran = counts.total() - sum(counts[each] for each in skipped)
    print(f"{counts.total()} tests, {ran} of them pass in ONNX Runtime: {dict(counts.most_common())}")


if __name__ == "__main__":
    main()
