"""The page of forms: a row for everything that targets ask for, and for every pass that all of them have."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments.corpus import CorpusModel
from experiments.measure.forms import FLOATS, PAGE, PASSES, WHERE, Form, _without, converted, forms
from layoutsolve import frontend
from layoutsolve.emit import slow_int8_kernels
from layoutsolve.solver.targets.target import Target
from layoutsolve.solver.targets.target_file import SHIPPED, SYSTEMS, parsed, shipped
from layoutsolve.solver.theory.offer import FORMS, IDIOMS
from tests.networks import Network

OTHERS = {
    "attention_masks",
    "channel_rounding",
    "whole_blocks",
    "composing",
    "einsums",
    "group_norms",
    "float_activations",
    "groups",
    "integer_sums",
    "layer_scales",
    "live_nodes",
    "mask_spellings",
    "pixel_rows",
    "pixels",
    "recurrent_cells",
    "leaky_relu_rounding",
    "slope_sums",
    "softmax_masks",
    "quantized_values",
    "symmetric",
    "symmetric_activations",
    "unsigned",
    "weights",
    "wider_images",
}
"""What options or targets ask for, what numbers need to be right, and what passes share."""


def test_every_form_has_a_row() -> None:
    rows = [line.split("`")[1] for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert rows == [form.name for form in forms()]
    assert set(WHERE) == set(rows)


def test_every_form_is_known() -> None:
    """Idioms and forms that are registered, as far as a target asks for them that ONNX runs on, and all passes."""
    names = {form.name for form in forms()}
    assert {f"{operator} {name}" for operator, name in IDIOMS} <= names
    assert {f"{domain} {operator}" for domain, operator in FORMS if domain not in SYSTEMS} <= names
    folder = Path(next(iter(frontend.passes.__path__)))
    passes = {path.stem for path in folder.glob("*.py")} - {"__init__", *OTHERS}
    assert passes == {each.partition(".")[0] for each in PASSES}


@pytest.mark.parametrize("form", [form for form in forms() if form.without], ids=lambda form: form.name)
def test_it_is_left_out(form: Form) -> None:
    """Without a form the target is another one, and asks for one form less."""
    target = form.targets[0]
    assert target in SHIPPED
    without = parsed(json.dumps({"name": target, "extends": target, **form.without}).encode(), "test")
    assert _asked(without) != _asked(shipped(target))


def _asked(target: Target) -> tuple[object, ...]:
    return target.storage, target.idioms, target.domains, target.unsupported


def test_models_that_a_form_does_not_change_are_alike(tmp_path: Path) -> None:
    """Though what they say of how they were made differs."""
    source = tmp_path / "model.tflite"
    net = Network()
    source.write_bytes(net.model(net.conv(net.input(1, 8, 8, 3), 4)).source)
    alike = {
        form.name
        for form in forms()
        if len(set(converted(CorpusModel("model", source, {}), form, tmp_path).values())) == 1
    }
    assert {"ort-cpu Conv", "storage unsigned", "pass hard_activations"} <= alike


@pytest.mark.parametrize("missing", PASSES)
def test_a_pass_is_left_out(missing: str) -> None:
    module, function = missing.split(".")
    own = getattr(getattr(frontend, module), function)
    with _without(missing):
        assert getattr(getattr(frontend, module), function)(1, 2) == 1
    assert getattr(getattr(frontend, module), function) is own


@pytest.mark.parametrize("missing", FLOATS)
def test_nothing_is_in_floats(missing: str) -> None:
    own = {function: getattr(slow_int8_kernels, function) for function in FLOATS[missing]}
    with _without(missing):
        assert not any(getattr(slow_int8_kernels, function)(1, 2) for function in own)
    assert own == {function: getattr(slow_int8_kernels, function) for function in own}
