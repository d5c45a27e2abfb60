"""Models with their certificates, and certificates that were tampered with."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import layoutsolve
from layoutsolve import Certificate, CertificateError, certify, check_certificate
from tests.builder import Builder
from tests.networks import Network, Quantized

Case = tuple[bytes, bytes, Certificate]


def branching(joins: int) -> bytes:
    """Transposed images that are added up in two orders by turns, with an output after each: no order suits all."""
    build = Builder()
    x = build.input("image", (2, 3, 4, 5))
    perm = build.constant("perm", np.array([0, 3, 1, 2], "int32"))
    outputs = []
    for number in range(joins):
        y = build.tensor(f"abs{number}", (2, 3, 4, 5))
        build.operator("ABS", [x], [y])
        turned = build.tensor(f"turned{number}", (2, 5, 3, 4))
        build.operator("TRANSPOSE", [y, perm], [turned])
        z = build.tensor(f"exp{number}", (2, 5, 3, 4))
        build.operator("EXP", [turned], [z])
        total = build.tensor(f"sum{number}", (2, 3, 4, 5))
        build.operator("ADD", [x, y], [total])
        outputs.append(z)
        x = total
    return build.finish(*outputs, x)


def image(last: str = "REDUCE_MAX") -> bytes:
    """A quantized network that wants planes, and reads an image."""
    net = Quantized()
    x = net.conv(net.input(1, 12, 12, 3), 8, dilation=(2, 2), activation="RELU")
    for _ in range(2):
        x = net.conv(net.depthwise(x), 36, 1)
    return net.model(net.op(last, [x, net.vector(1, 2)], [1, 36], keep_dims=False)).source


def heads() -> bytes:
    """Maps with 3, 3 and 2 boxes for each pixel, joined: the first two are joined before the third."""
    net = Network()
    x, rows = net.input(1, 8, 8, 3), []
    for count in (3, 3, 2):
        x = net.conv(x, 4 * count, dilation=(2, 2))
        rows.append(net.reshape(x, 1, 64 * count, 4))
    return net.model(net.concat(1, *rows)).source


@cache
def converted(
    name: str, strategy: str = "cpsat", objective: str = "min-transpose"
) -> tuple[bytes, layoutsolve.Conversion]:
    sources = {
        "image": image,
        "summed": lambda: image("SUM"),
        "small": lambda: branching(2),
        "large": lambda: branching(12),
        "heads": heads,
    }
    source = sources[name]()
    return source, layoutsolve.convert(source, strategy=strategy, objective=objective)


@cache
def case(name: str, strategy: str = "cpsat", objective: str = "min-transpose") -> Case:
    source, conversion = converted(name, strategy, objective)
    return source, conversion.content(""), certify(source, conversion)


def methods(name: str, strategy: str = "cpsat", objective: str = "min-transpose") -> list[str]:
    """What the bound of each component comes from."""
    return [part.method for part in converted(name, strategy, objective)[1].assignment.parts]


def tampered(given: Case, message: str, **changes: object) -> None:
    """A certificate with other claims is refused, also after it has been a file."""
    source, model, certificate = given
    forged = Certificate.from_json(replace(certificate, **changes).to_json())  # type: ignore[arg-type]
    with pytest.raises(CertificateError, match=message):
        check_certificate(source, model, forged)
