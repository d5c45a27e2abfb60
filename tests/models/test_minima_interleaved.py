"""Minima where convolutions read or write channels-last: (H, W, C) as one channel of (H, W*C).

*Reading*: a Conv of constant weights, one group and no gaps along W takes pixels of channels. *Writing*: so does what a
ConvTranspose of floats with up to 4 channels writes, and a Conv of floats with stride 1 and up to 8. The other side of
each is planes. Nothing is moved by the Reshape that it takes.
"""

from __future__ import annotations

import pytest

import layoutsolve
from tests.networks import Network, Quantized, counted


def fewest(net: Network, *outputs: int) -> int:
    """The Transposes of the proven optimum for ONNX Runtime."""
    return counted(net.model(*outputs))


@pytest.mark.parametrize(("channels", "transposes"), [(1, 0), (3, 0), (8, 0), (9, 1), (16, 1)])
def test_both_ends(channels: int, transposes: int) -> None:
    """The first convolution reads the image as it is, the last one writes few channels as they are wanted."""
    net = Network()
    assert fewest(net, net.conv(net.unary("RELU", net.conv(net.input(1, 8, 8, 4), 6)), channels)) == transposes


@pytest.mark.parametrize("net", [Network(), Quantized()])
def test_strided_or_quantized_results_are_planes(net: Network) -> None:
    """One: the last convolution has a stride, or is of integers, whose weights are not written anew."""
    strided = not isinstance(net, Quantized)
    x = net.conv(net.conv(net.input(1, 8, 8, 3), 6), 5, stride=2 if strided else 1)
    assert fewest(net, x) == 1


@pytest.mark.parametrize(
    ("kernel", "stride", "padding"), [(3, 2, "SAME"), (5, 2, "VALID"), (2, 1, "SAME"), (7, 3, "SAME")]
)
@pytest.mark.parametrize("batch", [1, 2])
def test_windows_of_an_image(kernel: int, stride: int, padding: str, batch: int) -> None:
    """None: a mean leaves no space to move. Padding, stride and kernel along W count pixels of three channels."""
    net = Network()
    x = net.conv(net.input(batch, 11, 13, 3), 6, kernel, stride, padding=padding)
    assert fewest(net, net.dense(net.mean(x, 1, 2), 4)) == 0


@pytest.mark.parametrize(("dilation", "transposes"), [((1, 1), 0), ((2, 1), 0), ((1, 2), 1), ((2, 2), 1)])
def test_gaps(dilation: tuple[int, int], transposes: int) -> None:
    """A kernel may have gaps along H; along W they would be of whole pixels, and a dilation skips single elements."""
    net = Network()
    x = net.conv(net.input(1, 9, 9, 3), 6, dilation=dilation)
    assert fewest(net, net.dense(net.mean(x, 1, 2), 4)) == transposes


def test_groups() -> None:
    """One: each group would read some of the channels of each pixel."""
    net = Network()
    x = net.conv(net.input(1, 8, 8, 4), 6, groups=2)
    assert fewest(net, net.dense(net.mean(x, 1, 2), 4)) == 1


@pytest.mark.parametrize(("channels", "transposes"), [(2, 0), (4, 0), (5, 1)])
def test_decoder(channels: int, transposes: int) -> None:
    """The dense layer's weights write (C H W) at once, the transposed convolution writes few channels-last."""
    net = Network()
    x = net.reshape(net.dense(net.input(1, 7), 96, "RELU"), 1, 4, 4, 6)
    assert fewest(net, net.upconv(net.conv(x, 5), channels)) == transposes


def test_sound() -> None:
    """None: a line of samples is an image of one row, and a stack of frames one of more dimensions."""
    net = Network()
    x = net.conv(net.input(1, 40, 1, 5), 6)
    x = net.reshape(x, 1, 1, 40, 6)
    assert fewest(net, net.dense(net.mean(net.conv(x, 7), 1, 2), 3)) == 0


def test_default_objective_takes_what_is_as_fast() -> None:
    """Up to 47 channels of floats a Conv that reads channels-last is as fast; from 48 on a Transpose is better."""
    for channels, transposes in ((3, 0), (47, 0), (48, 1)):
        net = Network()
        x = net.conv(net.input(1, 6, 6, channels), 16)
        source = net.model(net.dense(net.mean(x, 1, 2), 4)).source
        assert layoutsolve.convert(source).price.transposes == transposes
        assert layoutsolve.convert(source, objective="min-transpose").price.transposes == 0
