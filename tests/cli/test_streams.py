"""The program as a shell starts it: signals, closed and full streams, terminals of few characters, pipes and names."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import onnx
import pytest

import layoutsolve
from experiments.make.demo import mobilenet
from tests.builder import Builder

PROGRAM = [sys.executable, "-m", "layoutsolve"]
LISTENING = """
import signal, sys
signals = {signal.SIGINT, signal.SIGTERM}
signal.pthread_sigmask(signal.SIG_BLOCK, signals)
from layoutsolve import __main__
__main__.listen()
print("listening", flush=True)
signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
"""
"""A program that says when it has taken over the signals: what comes before belongs to the interpreter."""


def small(name: str = "image") -> bytes:
    build = Builder()
    x, y = build.input(name, (1, 4, 5, 3)), build.tensor("result", (1, 4, 5, 3))
    build.operator("ABS", [x], [y])
    return build.finish(y)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "a.tflite"
    path.write_bytes(small())
    return path


def shell(command: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[bytes]:
    """Run a shell command in which ``layoutsolve`` is the program."""
    script = f'layoutsolve() {{ "{sys.executable}" -m layoutsolve "$@"; }}\n{command}'
    environment: Mapping[str, str] = {**os.environ, **variables}
    return subprocess.run(
        ["bash", "-c", script], cwd=folder, capture_output=True, env=environment, timeout=60, check=False
    )


def start(code: str, *arguments: str | Path, **options: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", LISTENING + code, *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"listening\n"
    return process


def stop(process: subprocess.Popen[bytes], number: int) -> float:
    """Send a signal; the seconds until the program has ended, without a word and with the code for it."""
    before = time.perf_counter()
    process.send_signal(number)
    _, error = process.communicate(timeout=60)
    spent = time.perf_counter() - before
    assert process.returncode in (0, 128 + number)
    assert not error
    return spent


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_anywhere(tmp_path: Path, number: int) -> None:
    """From the first import to the last line: all files are there or none, and nothing is said."""
    source = tmp_path / "a.tflite"
    source.write_bytes(mobilenet())
    generator = random.Random(number)
    codes = set()
    for turn in range(8):
        folder = tmp_path / str(turn)
        folder.mkdir()
        code = f"sys.argv[1:] = [{str(source)!r}, '-o', 'a.onnx', '--external-data', '--certify', 'a.json']\n"
        process = start(f"import os; os.chdir({str(folder)!r})\n{code}sys.exit(__main__.main())")
        time.sleep(generator.uniform(0, 0.8) if turn else 0)
        assert stop(process, number) < 1
        left = sorted(path.name for path in folder.iterdir())
        assert left in ([], ["a.json", "a.onnx", "a.onnx.data"])
        codes.add(process.returncode)
    assert 128 + number in codes


SEARCH = """
import random
from ortools.sat.python import cp_model
from layoutsolve.solver.search.interruptible import interruptible
model, generator = cp_model.CpModel(), random.Random(0)
taken = [model.new_bool_var("") for _ in range(50)]
for _ in range(6):
    weights = [generator.randrange(100) for _ in taken]
    model.add(sum(weight * each for weight, each in zip(weights, taken)) == sum(weights) // 2)
solver = cp_model.CpSolver()
solver.parameters.catch_sigint_signal = False
solver.parameters.num_workers = 1
solver.parameters.max_time_in_seconds = 30
print("searching", flush=True)
interruptible(lambda: solver.solve(model), solver.stop_search)
"""
"""A market to be split: a search that takes as long as it may."""

RELAXATION = """
import random
from layoutsolve.solver.search.glop import Linear
model, generator = Linear(), random.Random(0)
shares = [model.variable() for _ in range(6000)]
for each in shares:
    model.bound(each, 1.0)
for _ in range(2000):
    model.row([(each, 1.0) for each in generator.sample(shares, 30)], 10.0, 10.0)
weights = {each: generator.random() for each in shares}
print("searching", flush=True)
model.minimised(weights, "max_deterministic_time: 100", alone=False)
"""
"""A linear program that is not solved as soon."""


@pytest.mark.parametrize("code", [SEARCH, RELAXATION])
def test_interrupted_search(code: str) -> None:
    process = start(code)
    assert process.stdout is not None
    assert process.stdout.readline() == b"searching\n"
    time.sleep(0.5)
    assert process.poll() is None
    assert stop(process, signal.SIGINT) < 1
    assert process.returncode == 130


def test_a_signal_that_was_ignored_stays_so(model: Path) -> None:
    """As under nohup."""
    code = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN); from layoutsolve.__main__ import *\n"
    code += "listen(); print([signal.getsignal(each).__class__.__name__ for each in (signal.SIGHUP, signal.SIGTERM)])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "['Handlers', 'function']"


STREAMS = [
    ("layoutsolve a.tflite >/dev/full", 2, "layoutsolve: cannot write the summary to standard output: No space left"),
    ("layoutsolve a.tflite --json >/dev/full", 2, "layoutsolve: cannot write the summary to standard output: No space"),
    ("layoutsolve --help >/dev/full", 2, "layoutsolve: cannot write to standard output: No space left on device"),
    ("layoutsolve a.tflite -o - >/dev/full", 2, "layoutsolve: cannot write '/dev/stdout': No space left on device"),
    ("layoutsolve a.tflite -o /dev/full", 2, "layoutsolve: cannot write '/dev/full': No space left on device"),
    ("layoutsolve a.tflite >&-", 0, ""),
    ("layoutsolve a.tflite <&-", 0, ""),
    ("layoutsolve a.tflite <&- >&- 2>&-", 0, ""),
    ("layoutsolve b.tflite 2>/dev/full", 2, ""),
    ("layoutsolve b.tflite 2>&-", 2, ""),
    ("layoutsolve a.tflite -o - >&-", 2, "layoutsolve: cannot write the model to standard output: it is closed"),
    ("layoutsolve a.tflite | true; exit ${PIPESTATUS[0]}", 0, ""),
    ("layoutsolve --help | true; exit ${PIPESTATUS[0]}", 0, ""),
    ("layoutsolve a.tflite >/dev/null", 0, ""),
    ("layoutsolve - -o a.onnx --verify <a.tflite", 0, ""),
    ("mkfifo p; cat a.tflite >p & sleep 0.1; layoutsolve p -o a.onnx && rm p", 0, "reading the pipe 'p' until it is"),
    ("mkfifo p; cat a.tflite >p & sleep 0.1; layoutsolve -q p -o a.onnx && rm p", 0, ""),
    ("cat a.tflite | layoutsolve -q -o a.onnx -", 0, ""),
    ("layoutsolve - <a.tflite", 2, "layoutsolve: '-' is no file whose name the model could have: give one with -o"),
    ("layoutsolve - -o a.onnx </dev/null", 2, "layoutsolve: standard input is empty: give a model"),
    ("layoutsolve - -o a.onnx <&-", 2, "layoutsolve: standard input is empty: give a model"),
    ("layoutsolve - a.tflite -o out/ <a.tflite", 2, "layoutsolve: what comes from standard input is one model"),
]


@pytest.mark.members(4)
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize(("command", "code", "message"), STREAMS)
def test_streams(model: Path, command: str, code: int, message: str) -> None:
    """Files are written with code 0 only; a message is one line."""
    run = shell(command, model.parent)
    assert (run.returncode, run.stderr.count(b"\n")) == (code, 1 if message else 0), run
    assert run.stderr.decode().startswith(message)
    expected = ["a.onnx", "a.tflite"] if code == 0 and "--help" not in command else ["a.tflite"]
    assert sorted(path.name for path in model.parent.iterdir()) == expected


def test_standard_input_is_the_same_model(model: Path) -> None:
    """Through a pipe on both sides, and counted."""
    run = shell("cat a.tflite | layoutsolve - -o - 2>told | cat", model.parent)
    assert run.stdout == layoutsolve.convert(model.read_bytes()).content("a.onnx")
    assert (model.parent / "told").read_text().startswith("standard output: ")
    told = [shell(f"layoutsolve ops {name} --json <a.tflite", model.parent).stdout for name in ("-", "a.tflite")]
    assert json.loads(told[0])["operators"] == json.loads(told[1])["operators"]


@pytest.mark.parametrize("variables", [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0"}])
def test_terminals_of_few_characters(tmp_path: Path, variables: dict[str, str]) -> None:
    """What has no character there is written as an escape, and a name takes no line of its own."""
    (tmp_path / "größe.tflite").write_bytes(small("Bild\n\x1b[31mä漢"))
    run = shell("layoutsolve größe.tflite --inputs nchw", tmp_path, **variables)
    assert (run.returncode, run.stderr) == (0, b"")
    assert len(run.stdout.splitlines()) == 5
    assert (
        rb"Bild\n\x1b[31m\xe4\u6f22: float32[1,3,4,5], stored as" in run.stdout
        or "Bild\\n\\x1b[31mä漢".encode() in run.stdout
    )


def test_standard_output_and_pipes(model: Path) -> None:
    """The model goes through pipes, and the summary out of its way."""
    folder = model.parent
    run = shell("layoutsolve a.tflite -o -", folder)
    assert b"(proven minimal)" in run.stderr
    first = onnx.load_from_string(run.stdout)
    run = shell("cat a.tflite | layoutsolve /dev/stdin -o /dev/stdout >out.onnx", folder)
    assert b"(proven minimal)" in run.stderr
    assert onnx.load(folder / "out.onnx").graph.node == first.graph.node
    run = shell("layoutsolve <(cat a.tflite) -o >(cat >through.onnx); sleep 0.3", folder)
    assert run.returncode == 0
    assert onnx.load(folder / "through.onnx").graph.node == first.graph.node
    run = shell("layoutsolve <(cat a.tflite); layoutsolve a.tflite -o - --external-data; layoutsolve /dev/zero", folder)
    lines = run.stderr.decode().splitlines()
    assert ["give one with -o" in lines[0], "a file to lie beside" in lines[1], "it is a device" in lines[2]] == [
        True
    ] * 3
    assert not run.stdout
    assert sorted(path.name for path in folder.iterdir()) == ["a.tflite", "out.onnx", "through.onnx"]


def test_names_that_are_no_text(tmp_path: Path) -> None:
    """Names of files are bytes; the model inside bears what can be written of them."""
    folder = os.fsencode(tmp_path)
    path = os.path.join(folder, b"\xff\nm.tflite")  # noqa: PTH118
    Path(os.fsdecode(path)).write_bytes(small())
    run = subprocess.run([*PROGRAM, path, "--certify", b"\xfe.json"], cwd=tmp_path, capture_output=True, check=False)
    assert (run.returncode, run.stderr) == (0, b"")
    assert sorted(os.listdir(folder)) == [b"\xfe.json", b"\xff\nm.onnx", b"\xff\nm.tflite"]  # noqa: PTH208
    run = subprocess.run([*PROGRAM, path, "--external-data"], cwd=tmp_path, capture_output=True, check=False)
    assert run.returncode == 2
    assert b"the file '\\udcff\\nm.onnx.data': choose a name in UTF-8" in run.stderr
    assert run.stderr.count(b"\n") == 1
