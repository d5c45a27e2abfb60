"""What newcomers run into: each is told by a message, or done, and is what ``info`` tells of a file afterwards."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import numpy as np
import onnx
import pytest

import layoutsolve
from layoutsolve.base.digest import digest
from layoutsolve.cli.command_line import main
from layoutsolve.solver.targets.target_file import KNOWN, SHIPPED
from tests.builder import Builder
from tests.cli.test_lowering_files import CODE, model

ONNX = """<ir_version: 8, opset_import: ["" : 18]> g
    (float[2, 3, 4, 5] x, float[2, 3, 4, 5] mask) => (float[2, 3, 4, 5] y) {
    a = Transpose<perm = [0, 2, 3, 1]>(x) r = Relu(a) s = Transpose<perm = [0, 3, 1, 2]>(r)
    b = Mul(s, mask) y = Neg(b) }"""


def tflite() -> bytes:
    build = Builder()
    x, mask = build.input("x", (2, 3)), build.input("mask", (2, 3))
    s, b, y = (build.tensor(name, (2, 3)) for name in "sby")
    build.operator("ABS", [x], [s])
    build.operator("MUL", [s, mask], [b])
    build.operator("NEG", [b], [y])
    return build.finish(y)


def sources(folder: Path) -> list[Path]:
    (folder / "a.tflite").write_bytes(tflite())
    onnx.save(onnx.parser.parse_model(ONNX), folder / "b.onnx")
    return [folder / "a.tflite", folder / "b.onnx"]


@pytest.mark.parametrize("cut", [["--from=s"], ["--to=s"], ["--from=s", "--to=b"], ["--to=b", "--to=s"]])
@pytest.mark.parametrize("number", [0, 1])
def test_info_of_a_part(cut: list[str], number: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command that it prints makes the same bytes again, of the whole model, whose SHA-256 it states; so does that
    of what is made of the part once more.
    """
    source, out, again = sources(tmp_path)[number], str(tmp_path / "part.onnx"), str(tmp_path / "again.onnx")
    assert main([str(source), *cut, "-o", out, "-q"]) == 0
    assert main(["info", out, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["source"] == digest(source.read_bytes())
    assert [f"--{end}={name}" for end, names in told["part"].items() for name in names] == cut
    _, _, *options = shlex.split(told["command"])
    assert options == cut and main([str(source), *options, "-o", again, "-q"]) == 0
    assert Path(again).read_bytes() == Path(out).read_bytes()
    assert main([out, "-o", again, "-q"]) == 0 and main(["info", again]) == 0
    assert shlex.join(cut) in capsys.readouterr().out
    whole = layoutsolve.convert(source).provenance  # which tells of no part
    assert not whole.part and whole.source == told["source"]


def test_a_part_of_what_was_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is no longer what was made of the source of that."""
    first, second = str(tmp_path / "first.onnx"), str(tmp_path / "second.onnx")
    assert main([str(sources(tmp_path)[1]), "-o", first, "-q"]) == 0
    assert main([first, "--from", "mask", "-o", second, "-q"]) == 0
    assert main(["info", second]) == 0
    told = capsys.readouterr().out
    assert "--from=mask" in told and digest(Path(first).read_bytes()) in told


@pytest.mark.parametrize("number", [0, 1])
def test_inputs_beside_those_of_the_cut(number: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = str(sources(tmp_path)[number])
    for cut, beside in ((["--from", "s"], ["mask"]), (["--from", "s", "--from", "mask"], []), (["--to", "b"], [])):
        assert main([source, *cut, "--dry-run"]) == 0
        assert ("beside --from the part needs 'mask'" in capsys.readouterr().out) == bool(beside)
        assert main([source, *cut, "--dry-run", "--json"]) == 0
        assert json.loads(capsys.readouterr().out).get("inputs_beside", []) == beside


@pytest.mark.parametrize("cut", [["--to", "x"], ["--to", "y", "--to", "mask"], ["--from", "s", "--to", "mask"]])
@pytest.mark.parametrize("number", [0, 1])
def test_no_end_at_an_input(cut: list[str], number: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What ends at an input computes nothing."""
    assert main([str(sources(tmp_path)[number]), *cut, "-o", str(tmp_path / "part.onnx")]) == 2
    assert "it is an input of the model" in capsys.readouterr().err


@pytest.mark.usefixtures("registry")
def test_info_of_lowerings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It names the file of each lowering that the model has used, by what was in it."""
    source, own, other = tmp_path / "a.tflite", tmp_path / "own.py", tmp_path / "other.py"
    source.write_bytes(model("Mine"))
    own.write_text(CODE.format(name="Mine", op="Tanh"))
    other.write_text(CODE.format(name="Other", op="Tanh"))
    out, files = str(tmp_path / "a.onnx"), ["--lowering", str(own), "--lowering", str(other)]
    assert main([str(source), *files, "-o", out]) == 0
    assert "the model has no 'CUSTOM:Other'" in capsys.readouterr().out
    assert main(["info", out, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["lowerings"] == {"CUSTOM:Mine": ["own.py", digest(own.read_bytes())]}
    assert told["command"] == "layoutsolve MODEL --lowering=own.py"
    proof = str(tmp_path / "proof.json")
    assert main([str(source), *files, "-o", out, "--certify", proof, "-q"]) == 0
    assert main([str(source), *files, "-o", out, "--check", proof, "--json"]) == 0
    assert main(["info", out]) == 0
    assert f"registered by 'own.py', which has the SHA-256 {digest(own.read_bytes())}" in capsys.readouterr().out


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize("name", ["CUSTOM:Mine", "ABS", "CUSTOM:Other"])
def test_lowerings_of_what_is_returned_unchanged(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file has no place for provenance then."""
    source, own, out = tmp_path / "a.tflite", tmp_path / "own.py", tmp_path / "out.tflite"
    source.write_bytes(tflite() if name == "ABS" else model("Mine"))
    own.write_text(CODE.format(name="Mine", op="Tanh").replace("CUSTOM:Mine", name))
    more = ["--custom", "passthrough"] if name == "CUSTOM:Other" else []
    assert main([str(source), "--lowering", str(own), *more, "-o", str(out)]) == 0
    told = capsys.readouterr().out
    assert "the model is returned unchanged" in told and out.read_bytes() == source.read_bytes()
    assert ("the model has no 'CUSTOM:Other'" in told) == bool(more)


@pytest.mark.usefixtures("registry")
def test_lowerings_that_are_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A certificate of a model with a lowering is checked with it, or is refused on one line; an operator that nearly
    has a registered name is told of that.
    """
    source, own = tmp_path / "a.tflite", tmp_path / "own.py"
    source.write_bytes(model("Mine"))
    own.write_text(CODE.format(name="Mien", op="Tanh"))
    assert main([str(source), "--lowering", str(own)]) == 2
    assert "lowerings are registered for 'Mien' (did you mean 'Mien'?)" in capsys.readouterr().err
    own.write_text(CODE.format(name="Mine", op="Tanh"))
    out, proof = str(tmp_path / "a.onnx"), str(tmp_path / "proof.json")
    assert main([str(source), "--lowering", str(own), "-o", out, "--certify", proof, "-q"]) == 0
    from layoutsolve.frontend.tflite.lowering.registry import every_lowering
    from layoutsolve.frontend.tflite.lowering.user_lowerings import FOREIGN

    FOREIGN.clear()
    del every_lowering()["CUSTOM:Mine"]
    assert main([str(source), "-o", out, "--check", proof]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "the certificate does not fit the source" in line and "\\n" not in line


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize("operand", ["x", "call.vector([1, 2, 3], 'k')", "x, call.vector([1], 'k')"])
@pytest.mark.parametrize("shape", ["x.shape", "(7,)"])
@pytest.mark.parametrize("name", ["Tanhh", "Rellu", "Frobnicate"])
def test_operators_that_onnx_has_not(
    operand: str, shape: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The name is what is wrong, whatever types and shapes follow from it."""
    source, own = tmp_path / "a.tflite", tmp_path / "own.py"
    source.write_bytes(model("Mine"))
    text = CODE.format(name="Mine", op=name).replace(f'"{name}", [x], x.shape', f'"{name}", [{operand}], {shape}')
    own.write_text(text)
    assert main([str(source), "--lowering", str(own)]) == 2
    assert f"writes '{name}', which is no operator of ONNX" in capsys.readouterr().err


@pytest.mark.parametrize("option", [["--resume"], ["--jobs", "1"], ["--scheduler", "local"]])
def test_a_batch_of_one(option: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(sources(tmp_path)[0]), *option, "-o", str(tmp_path / "out.onnx")]) == 2
    said = capsys.readouterr().err
    assert f"argument {option[0]}: it makes a batch, of one model here" in said and "leave" in said


def test_the_graph_of_what_is_not_converted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is the source's own, with the names that a cut takes."""
    build = Builder()
    x, nameless, y = build.input("x", (2,), "string"), build.tensor("", (2,), "int32"), build.tensor("y", (2,), "int32")
    build.operator("CUSTOM:Nobody", [x], [nameless])
    build.operator("ABS", [nameless], [y])
    source = tmp_path / "a.tflite"
    source.write_bytes(build.finish(y))
    assert main([str(source), "--print", "graph"]) == 0
    told = capsys.readouterr()
    assert "tensor_1: int32[2] = CUSTOM:Nobody(x: string[2])" in told.out and "no conversion" in told.err
    assert main([str(source), "--from", "tensor_1", "-o", str(tmp_path / "part.onnx")]) == 0
    assert main([str(source), "--print", "problem"]) == 2


def test_help_of_view(capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("--help", "--help-all"):
        with pytest.raises(SystemExit):
            main(["view", option])
        told = capsys.readouterr().out
        assert told.startswith("usage: layoutsolve view ") and "browser" in told
        assert not any(each in told for each in ("--dry-run", "--resume", "--certify", " -o "))


@pytest.mark.parametrize("target", SHIPPED)
def test_no_empty_parentheses(target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever is proven, or is not."""
    for source in sources(tmp_path):
        for more in ([], ["--strategy", "push"], ["--objective", "min-transpose"]):
            assert main([str(source), "--target", target, *more, "--dry-run"]) == 0
            assert "()" not in capsys.readouterr().out


def test_a_batch_that_is_fixed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(sources(tmp_path)[1]), "--shape", "x=7,3,4,5"]) == 2
    assert "has [2, 3, 4, 5]: an ONNX model has the sizes that it states" in capsys.readouterr().err


def test_splits_of_drawn_texts() -> None:
    """What follows an operator on text has the sizes that are known of it, where the file leaves them open."""
    from flatbuffers import flexbuffers

    options = bytes(flexbuffers.Dumps({"row_partition_types": ["ROW_SPLITS"]}))
    for sizes in ([-1, -1], [-1, 7], [2, 3], [5, -1]):
        build = Builder()
        x = build.input("x", (2,), "string")
        values, splits = build.tensor("values", (4,), "int32", signature=(-1,)), build.tensor("splits", (3,), "int64")
        shape, filler = build.constant("shape", np.array(sizes)), build.constant("filler", np.array(0, np.int32))
        rows, y = (build.tensor(name, (1, 1), "int32", signature=(-1, -1)) for name in ("rows", "y"))
        build.operator("CUSTOM:Nobody", [x], [values, splits])
        build.operator("CUSTOM:RaggedTensorToTensor", [shape, values, filler, splits], [rows], custom_options=options)
        build.operator("ABS", [rows], [y])
        source = build.finish(y)
        found = layoutsolve.verify(source, layoutsolve.convert(source, custom="passthrough"))
        assert found.verdict == "not verified" and "all else agrees" in found.refusal


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--inputs", "NHWC:NCHW"], "orders are given for one tensor: --input NAME=NHWC:NCHW"),
        (["--to", "s,b"], "give --to once for each of several"),
        (["-o", "no/such/m.onnx"], "the folder 'no/such' does not exist"),
        (["--quant", "float"], "layoutsolve: --quant: that is about models of TensorFlow Lite"),
    ],
)
def test_what_is_told_of_options(
    given: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([str(sources(tmp_path)[1]), *given]) == 2 and told in capsys.readouterr().err


def test_words_in_capitals(tmp_path: Path) -> None:
    assert main([str(sources(tmp_path)[1]), "--inputs", "KEEP", "--output", "y=FREE", "--dry-run"]) == 0


def test_targets_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["target"]) == 0
    told = capsys.readouterr().out
    assert all(each in told for each in KNOWN)


def test_a_tensor_is_no_format(tmp_path: Path) -> None:
    with pytest.raises(layoutsolve.OptionError, match=r"layoutsolve\.cut ends a model at a tensor"):
        layoutsolve.convert(sources(tmp_path)[1], to="s")  # type: ignore[arg-type]
    source = sources(tmp_path)[0]
    assert layoutsolve.cut(source, start="s", end="y") == layoutsolve.cut(source, start=["s"], end=["y"])


@pytest.mark.parametrize("name", ["a;b", "a", "a;...", "a;c"])
@pytest.mark.parametrize("twice", [False, True])
def test_names_as_they_are_shown(name: str, twice: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One that is cut off at its first semicolon is as good as the whole, where it is no other's."""
    build = Builder()
    x, a, b, y = build.input("x", (2,)), *(build.tensor(each, (2,)) for each in ("a;b", "a;d" if twice else "b", "y"))
    for read, made in ((x, a), (a, b), (b, y)):
        build.operator("ABS", [read], [made])
    (tmp_path / "a.tflite").write_bytes(build.finish(y))
    code = main([str(tmp_path / "a.tflite"), "--to", name, "-o", str(tmp_path / "a.onnx")])
    right = name == "a;b" or (name != "a;c" and not twice)
    assert code == (0 if right else 2)
    if right:
        assert layoutsolve.provenance(tmp_path / "a.onnx").part == {"to": ["a;b"]}
    else:
        assert "give the whole name, one of 'a;b'" in capsys.readouterr().err
