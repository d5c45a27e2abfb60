"""Memory, output and work follow the size of the file, whatever the file asks for."""

from __future__ import annotations

import cProfile
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest

import layoutsolve
from layoutsolve.errors import BudgetError, OptionError, UnsupportedError
from layoutsolve.ir.budget import GROWTH, SPARE, Budget
from layoutsolve.ir.names import LONGEST, Names, short
from tests.families import (
    HEAVY,
    LINEAR,
    long_names,
    nested,
    normalised,
    of_constants,
    one_hot,
    shared_megabyte,
    unpacked,
)

_MEMORY, _SPARE_MEMORY = 20, 300 << 20

_CONVERTED = """
import json, re, sys
import layoutsolve
for line in sys.stdin:
    source, target = json.loads(line)
    open("/proc/self/clear_refs", "w").write("5")
    try:
        layoutsolve.convert(source, time_limit=5).save(target)
        error = ""
    except layoutsolve.ConversionError as found:
        error = str(found)
    peak = re.search(r"VmHWM:\\s*(\\d+) kB", open("/proc/self/status").read())  # ru_maxrss counts who forked, too
    print(json.dumps({"error": error, "memory": 1024 * int(peak[1])}), flush=True)
"""


@pytest.fixture(scope="module")
def converting() -> Iterator[subprocess.Popen[str]]:
    """A process that converts one model after the other, and tells what each took at most."""
    command = [sys.executable, "-c", _CONVERTED]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.communicate()


@pytest.mark.parametrize("name", HEAVY)
def test_memory_and_output(name: str, converting: subprocess.Popen[str], tmp_path: Path) -> None:
    source, target = tmp_path / "m.tflite", tmp_path / "m.onnx"
    source.write_bytes(HEAVY[name]())
    size = source.stat().st_size
    assert converting.stdin is not None and converting.stdout is not None
    converting.stdin.write(json.dumps([str(source), str(target)]) + "\n")
    converting.stdin.flush()
    found = json.loads(converting.stdout.readline())
    assert found["memory"] <= _MEMORY * size + _SPARE_MEMORY
    written = sum(path.stat().st_size for path in tmp_path.glob("m.onnx*"))
    assert written <= GROWTH * size + SPARE
    assert bool(written) != bool(found["error"])
    if found["error"]:
        assert "--max-size" in found["error"] or "dimensions" in found["error"]


@pytest.mark.members(5)
@pytest.mark.parametrize("name", LINEAR)
def test_work_is_linear(name: str) -> None:
    """What doubling the size adds is about twice what doubling half of it added; four times would be quadratic."""
    make, size = LINEAR[name]
    layoutsolve.convert(make(size // 8))
    work = []
    for factor in (0.25, 0.5, 1):
        source = make(int(size * factor))
        profile = cProfile.Profile()
        profile.enable()
        layoutsolve.convert(source)
        profile.disable()
        work.append(sum(entry.callcount for entry in profile.getstats()))
    assert (work[2] - work[1]) / (work[1] - work[0]) < 2.6


@pytest.mark.members(5)
@pytest.mark.parametrize("name", [name for name in LINEAR if name != "calls"])
def test_what_is_converted_compactly_is_right(name: str) -> None:
    source = LINEAR[name][0](7)
    assert layoutsolve.verify(source, layoutsolve.convert(source)).passed


@pytest.mark.parametrize("depth", [1, 10, 30])
def test_nested_branches_are_right(depth: int) -> None:
    source = nested(depth)
    assert layoutsolve.verify(source, layoutsolve.convert(source)).passed


@pytest.mark.parametrize("depth", [50, 100, 200, 1000])
def test_branches_that_are_nested_too_deeply(depth: int) -> None:
    with pytest.raises(UnsupportedError, match="too deeply"):
        layoutsolve.convert(nested(depth))


@pytest.mark.parametrize("seed", range(12))
def test_constants_that_are_shared_or_computed_are_right(seed: int) -> None:
    source = of_constants(seed, most=1 << 14)
    assert layoutsolve.verify(source, layoutsolve.convert(source)).passed


@pytest.mark.parametrize("seed", range(4))
def test_small_constants_are_computed_while_converting(seed: int) -> None:
    """All but copies of one part, of which a constant is made on loading."""
    graph = layoutsolve.convert(of_constants(seed, most=1 << 10)).model.graph
    stored = {each.name for each in graph.initializer}
    left = [node.op_type for node in graph.node if node.op_type != "Expand" or not stored.issuperset(node.input)]
    assert {*left} == {"Identity"}


def test_numbers_counted_at_run_time_are_right() -> None:
    source = one_hot(5000)
    conversion = layoutsolve.convert(source)
    assert "Range" in [node.op_type for node in conversion.model.graph.node]
    assert layoutsolve.verify(source, conversion).passed


@pytest.mark.parametrize(("size", "fused"), [(64, True), (1 << 24, False)])
def test_normalisation_whose_constants_would_be_large_stays_written_out(size: int, fused: bool) -> None:
    graph = layoutsolve.convert(normalised(size)).model.graph
    assert ("LayerNormalization" in [node.op_type for node in graph.node]) == fused


def test_one_buffer_is_one_initializer() -> None:
    """Even where its tensors are quantized differently."""
    model = layoutsolve.convert(shared_megabyte(5)).model
    assert [each.data_type for each in model.graph.initializer].count(onnx.TensorProto.INT8) == 1


def test_long_names() -> None:
    """Public names are kept whole, others are cut and stay different."""
    graph = layoutsolve.convert(long_names(4)).model.graph
    names = [name for node in graph.node for name in (node.name, *node.output)]
    assert max(map(len, names)) < 2 * LONGEST
    assert len(set(names)) == len(names)
    assert ([each.name for each in graph.input], [each.name for each in graph.output]) == (["x"], ["y"])


def test_short_names_are_different() -> None:
    long = ["a" * 1000 + end + "b" * 1000 for end in "xyz"]
    assert len({short(name) for name in long}) == 3
    assert all(len(short(name)) == LONGEST for name in long)
    names = Names()
    assert [names.unique("n") for _ in range(3)] == ["n", "n_1", "n_2"]
    assert names.derived(long[0], "real").endswith("/real")


def test_max_size() -> None:
    source = shared_megabyte(2)
    with pytest.raises(BudgetError, match=r"grows beyond 100000 bytes .* which takes 1048\d{3}; .*--max-size"):
        layoutsolve.convert(source, max_size=100_000)
    layoutsolve.convert(source, max_size=2 << 20)


@pytest.mark.parametrize("size", [0, -1])
def test_sizes_that_are_none(size: int) -> None:
    with pytest.raises(OptionError, match="max_size"):
        layoutsolve.convert(unpacked(2), max_size=size)


@pytest.mark.slow
def test_more_is_allowed_on_request() -> None:
    """Of a file of a thousand bytes."""
    with pytest.raises(BudgetError, match="--max-size"):
        Budget(1000).ask(1 << 29)
    Budget(1000, 1 << 30).ask(1 << 29)
    for budget, most in ((Budget(1000), 20_000), (Budget(1000, 1 << 30), 1 << 18)):
        budget.open(10)
        budget.enter(most // 4)
        with pytest.raises(BudgetError, match=r"more than \d+ .*--max-size"):
            budget.enter(1 << 24)
