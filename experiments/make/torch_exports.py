"""Models as PyTorch users make them: small architectures, exported by litert-torch, quantized by ai-edge-quantizer.

It needs an environment of its own, since litert-torch asks for releases of its own choice: PyTorch first, in the build
without CUDA that its site tells how to install, then ``pip install layoutsolve[exports]``.
Weights, and the data that static quantization is calibrated with, are random with a fixed seed. Every architecture gets
a folder with ``float32.tflite`` and one file for each recipe; what the exporter or the quantizer refuses is printed and
left out. The other experiments measure the folder::

    python -m experiments.make.torch_exports FOLDER
    python -m experiments.compare.agreement FOLDER
    python -m experiments.compare.strategies FOLDER
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import litert_torch
import torch
from ai_edge_quantizer import qtyping, quantizer
from ai_edge_quantizer.algorithm_manager import AlgorithmName
from torch import Tensor, nn
from torch.nn import functional

EVERY = qtyping.TFLOperationName.ALL_SUPPORTED
DENSE = qtyping.TFLOperationName.FULLY_CONNECTED
BLOCKS = qtyping.QuantGranularity.BLOCKWISE_32
WHOLE = qtyping.QuantGranularity.TENSORWISE
SAMPLES = 4
VOCABULARY = 64


class Residual(nn.Module):
    """An inverted bottleneck with squeeze and excitation, as in MobileNet v3."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.widen = nn.Sequential(nn.Conv2d(channels, width, 1), nn.BatchNorm2d(width), nn.Hardswish())
        self.along = nn.Sequential(nn.Conv2d(width, width, 3, 1, 1, groups=width), nn.BatchNorm2d(width), nn.ReLU6())
        self.excite = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(width, width // 4, 1),
            nn.ReLU(),
            nn.Conv2d(width // 4, width, 1),
            nn.Hardsigmoid(),
        )
        self.narrow = nn.Sequential(nn.Conv2d(width, channels, 1), nn.BatchNorm2d(channels))

    def forward(self, x: Tensor) -> Tensor:
        wide = self.along(self.widen(x))
        return x + self.narrow(wide * self.excite(wide))


class Attention(nn.Module):
    """Attention of several heads, with a bias for each pair of places and a mask or without."""

    def __init__(self, width: int, heads: int, places: int = 0, causal: bool = False) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.project, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.bias = nn.Parameter(0.02 * torch.randn(heads, places, places)) if places else None

    def forward(self, x: Tensor) -> Tensor:
        count, length, width = x.shape
        parts = self.project(x).reshape(count, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        scores = parts[0] @ parts[1].transpose(-2, -1) * (width // self.heads) ** -0.5
        if self.bias is not None:
            scores = scores + self.bias
        if self.causal:
            scores = scores + torch.full((length, length), -1e9).triu(1)
        mixed = functional.softmax(scores, -1) @ parts[2]
        return self.join(mixed.transpose(1, 2).reshape(count, length, width))


class Block(nn.Module):
    """A transformer block."""

    def __init__(self, width: int, heads: int, places: int = 0, before: bool = True) -> None:
        super().__init__()
        self.before = before
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.attention = Attention(width, heads, places)
        self.dense = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        for norm, part in zip(self.norms, (self.attention, self.dense), strict=True):
            x = x + part(norm(x)) if self.before else norm(x + part(x))
        return x


class Vit(nn.Module):
    """A vision transformer with a class token; the last projection is zero, as one that was never trained is."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 32, 8, 8)
        self.token = nn.Parameter(torch.randn(1, 1, 32))
        self.places = nn.Parameter(0.1 * torch.randn(1, 17, 32))
        self.blocks = nn.Sequential(Block(32, 4), Block(32, 4))
        self.head, self.unused = nn.Linear(32, 10), nn.Linear(32, 4)
        nn.init.zeros_(self.unused.weight)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        tokens = self.patches(x).flatten(2).transpose(1, 2)
        first = self.blocks(torch.cat([self.token, tokens], 1) + self.places)[:, 0]
        return self.head(first), self.unused(first)


class Bert(nn.Module):
    """An encoder of text."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(VOCABULARY, 32), nn.Embedding(16, 32)
        self.norm = nn.LayerNorm(32)
        self.blocks = nn.Sequential(Block(32, 4, before=False), Block(32, 4, before=False))
        self.pool = nn.Linear(32, 32)

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        x = self.blocks(self.norm(self.words(ids) + self.places(torch.arange(ids.shape[1]))))
        return x, torch.tanh(self.pool(x[:, 0]))


class Decoder(nn.Module):
    """A block of a language model: root mean square norms, rotated places, a gated dense layer."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, 32)
        self.attention = Attention(32, 4, causal=True)
        self.gate, self.up, self.down = nn.Linear(32, 64, False), nn.Linear(32, 64, False), nn.Linear(64, 32, False)
        self.head = nn.Linear(32, VOCABULARY, False)
        angles = torch.outer(torch.arange(12).float(), 100 ** -torch.linspace(0, 1, 16))
        self.turn = nn.Parameter(torch.stack([angles.cos(), angles.sin()]), requires_grad=False)

    def rotated(self, x: Tensor) -> Tensor:
        left, right = x.chunk(2, -1)
        cosine, sine = self.turn[0], self.turn[1]
        return torch.cat([left * cosine - right * sine, left * sine + right * cosine], -1)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids)
        x = x + self.attention(self.rotated(normed(x)))
        inner = normed(x)
        return self.head(normed(x + self.down(functional.silu(self.gate(inner)) * self.up(inner))))


def normed(x: Tensor) -> Tensor:
    """``x`` with a root mean square of 1 along its last axis."""
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


class Recurrent(nn.Module):
    """LSTM and GRU one after the other, and a dense layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LSTM(8, 16, batch_first=True), nn.GRU(16, 12, batch_first=True)
        self.head = nn.Linear(12, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.second(self.first(x)[0])[0][:, -1])


class Separator(nn.Module):
    """The separation of sounds in one dimension, as in ConvTasNet."""

    def __init__(self) -> None:
        super().__init__()
        self.encode, self.narrow = nn.Conv1d(1, 32, 8, 4), nn.Conv1d(32, 16, 1)
        self.layers = nn.ModuleList(
            nn.Sequential(
                nn.Conv1d(16, 32, 1),
                nn.PReLU(),
                nn.GroupNorm(1, 32),
                nn.Conv1d(32, 32, 3, padding=step, dilation=step, groups=32),
                nn.PReLU(),
                nn.GroupNorm(1, 32),
                nn.Conv1d(32, 16, 1),
            )
            for step in (1, 2, 4)
        )
        self.mask, self.decode = nn.Conv1d(16, 64, 1), nn.ConvTranspose1d(32, 1, 8, 4)

    def forward(self, x: Tensor) -> Tensor:
        coded = self.encode(x)
        inner = self.narrow(coded)
        for layer in self.layers:
            inner = inner + layer(inner)
        masks = torch.sigmoid(self.mask(inner)).reshape(2, 32, -1)
        return self.decode(coded * masks)


class Unet(nn.Module):
    """A U of convolutions that are scaled down and up again, in three ways."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = conv(3, 8), conv(8, 16), conv(16, 24)
        self.deconvolve = nn.ConvTranspose2d(24, 16, 2, 2)
        self.merge, self.last = conv(32, 16), conv(24, 8)
        self.head = nn.Conv2d(8, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        fine = self.first(x)
        middle = self.second(functional.max_pool2d(fine, 2))
        coarse = self.third(functional.avg_pool2d(middle, 2))
        middle = self.merge(torch.cat([self.deconvolve(coarse), middle], 1))
        fine = self.last(torch.cat([functional.interpolate(middle, scale_factor=2, mode="bilinear"), fine], 1))
        return functional.interpolate(self.head(fine), scale_factor=2, mode="nearest")


def conv(inputs: int, outputs: int, **more: Any) -> nn.Module:
    """A convolution of 3 by 3, with normalisation and activation."""
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1, **more), nn.BatchNorm2d(outputs), nn.ReLU())


class Shuffle(nn.Module):
    """Units of ShuffleNet v2, and a convolution in groups."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.grouped = conv(3, 16, stride=2), conv(16, 16, groups=4)
        self.units = nn.ModuleList(
            nn.Sequential(nn.Conv2d(8, 8, 1), nn.ReLU(), nn.Conv2d(8, 8, 3, 1, 1, groups=8), nn.Conv2d(8, 8, 1))
            for _ in range(3)
        )
        self.head = nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.grouped(self.stem(x))
        for unit in self.units:
            kept, changed = x.chunk(2, 1)
            joined = torch.cat([kept, unit(changed)], 1)
            count, channels, height, width = joined.shape
            x = joined.reshape(count, 2, channels // 2, height, width).transpose(1, 2).reshape(joined.shape)
        return self.head(x.mean((2, 3)))


class Swin(nn.Module):
    """Attention in windows, the second time shifted, then patches are merged."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 16, 4, 4)
        self.blocks = nn.ModuleList([Block(16, 2, 16), Block(16, 2, 16)])
        self.merge, self.head = nn.Linear(64, 32, False), nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).permute(0, 2, 3, 1)
        for shift, block in zip((0, 2), self.blocks, strict=True):
            moved = torch.roll(x, (-shift, -shift), (1, 2)) if shift else x
            windows = moved.reshape(-1, 2, 4, 2, 4, 16).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, 16)
            mixed = block(windows).reshape(-1, 2, 2, 4, 4, 16).permute(0, 1, 3, 2, 4, 5).reshape(x.shape)
            x = torch.roll(mixed, (shift, shift), (1, 2)) if shift else mixed
        quarters = [x[:, row::2, column::2] for row in (0, 1) for column in (0, 1)]
        return self.head(self.merge(torch.cat(quarters, -1)).mean((1, 2)))


class ConvNext(nn.Module):
    """Depthwise convolutions of 7 by 7, dense layers with channels last and scaled residuals."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 4, 4)
        self.along = nn.ModuleList(nn.Conv2d(16, 16, 7, padding=3, groups=16) for _ in range(2))
        self.dense = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 48), nn.GELU(), nn.Linear(48, 16)) for _ in range(2)
        )
        self.scale = nn.Parameter(torch.full((16,), 0.1))
        self.head = nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for along, dense in zip(self.along, self.dense, strict=True):
            x = x + (self.scale * dense(along(x).permute(0, 2, 3, 1))).permute(0, 3, 1, 2)
        return self.head(x.mean((2, 3)))


class Mixer(nn.Module):
    """Dense layers along places and along channels in turn."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 24, 8, 8)
        self.places = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))
        self.channels = nn.Sequential(nn.LayerNorm(24), nn.Linear(24, 32), nn.GELU(), nn.Linear(32, 24))
        self.head = nn.Linear(24, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2)
        x = (x + self.places(x)).transpose(1, 2)
        return self.head((x + self.channels(x)).mean(1))


class Detector(nn.Module):
    """Two scales with heads whose boxes are expectations, as in YOLO v8."""

    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.ModuleList([conv(3, 16, stride=2), conv(16, 24, stride=2)])
        self.heads = nn.ModuleList([nn.Conv2d(16, 4 * 8 + 5, 1), nn.Conv2d(24, 4 * 8 + 5, 1)])
        self.steps = nn.Parameter(torch.arange(8).float(), requires_grad=False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        found = []
        for stage, head in zip(self.stages, self.heads, strict=True):
            x = stage(x)
            found.append(head(x).flatten(2))
        boxes, scores = torch.cat(found, 2).split([32, 5], 1)
        spread = boxes.reshape(1, 4, 8, -1).transpose(2, 1).softmax(1)
        return (spread * self.steps.reshape(1, 8, 1, 1)).sum(1), scores.sigmoid()


class Segmenter(nn.Module):
    """Dilated convolutions side by side and a pooled branch, as in DeepLab; leaky, exponential and clipped parts."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.LeakyReLU(0.1), nn.InstanceNorm2d(16, affine=True))
        self.sides = nn.ModuleList(nn.Conv2d(16, 8, 3, padding=step, dilation=step) for step in (1, 2, 4))
        self.pooled, self.head = nn.Conv2d(16, 8, 1), nn.Conv2d(32, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        whole = functional.elu(self.pooled(x.mean((2, 3), keepdim=True)))
        sides = torch.cat([*(side(x) + whole for side in self.sides), self.pooled(x)], 1)
        mask = functional.interpolate(self.head(sides.clamp(-1, 1)), size=(32, 32), mode="bilinear", align_corners=True)
        return functional.log_softmax(mask, 1)


def cnn() -> nn.Module:
    """A convolutional network with residuals."""
    pooled = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10), nn.Softmax(-1)]
    return nn.Sequential(conv(3, 16, stride=2), Residual(16, 32), nn.MaxPool2d(2), Residual(16, 32), *pooled)


IMAGE = (1, 3, 32, 32)
ARCHITECTURES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "cnn": (cnn, IMAGE),
    "cnn_last": (lambda: litert_torch.to_channel_last_io(cnn(), args=[0]), (1, 32, 32, 3)),
    "vit": (Vit, IMAGE),
    "bert": (Bert, (1, 12)),
    "decoder": (Decoder, (1, 12)),
    "recurrent": (Recurrent, (2, 6, 8)),
    "separator": (Separator, (1, 1, 64)),
    "unet": (Unet, IMAGE),
    "shuffle": (Shuffle, IMAGE),
    "swin": (Swin, IMAGE),
    "convnext": (ConvNext, IMAGE),
    "mixer": (Mixer, IMAGE),
    "detector": (Detector, IMAGE),
    "segmenter": (Segmenter, IMAGE),
}
"""Every architecture and the shape of its input."""
_OF_WORDS = ("bert", "decoder")


def _weights(bits: int, symmetric: bool = True, **more: Any) -> qtyping.TensorQuantizationConfig:
    return qtyping.TensorQuantizationConfig(num_bits=bits, symmetric=symmetric, **more)


def _static_unsigned(made: quantizer.Quantizer) -> None:
    data = qtyping.TensorQuantizationConfig(num_bits=8, symmetric=False, granularity=WHOLE, dtype="UINT")
    config = qtyping.OpQuantizationConfig(
        activation_tensor_config=data,
        weight_tensor_config=_weights(8, granularity=qtyping.QuantGranularity.CHANNELWISE),
        compute_precision=qtyping.ComputePrecision.INTEGER,
    )
    made.update_quantization_recipe(".*", EVERY, config)


def _asymmetric_weights(made: quantizer.Quantizer) -> None:
    config = qtyping.OpQuantizationConfig(
        weight_tensor_config=_weights(8, False, granularity=qtyping.QuantGranularity.CHANNELWISE),
        compute_precision=qtyping.ComputePrecision.FLOAT,
        explicit_dequantize=True,
    )
    made.update_quantization_recipe(".*", EVERY, config)


def _float16(made: quantizer.Quantizer) -> None:
    config = qtyping.OpQuantizationConfig(
        weight_tensor_config=qtyping.TensorQuantizationConfig(num_bits=16, dtype="FLOAT"),
        compute_precision=qtyping.ComputePrecision.FLOAT,
        explicit_dequantize=True,
    )
    made.update_quantization_recipe(".*", EVERY, config, AlgorithmName.FLOAT_CASTING)


def _turned(made: quantizer.Quantizer, algorithm: AlgorithmName) -> None:
    """Dense layers of 4 bits behind a rotation, which is a custom operator or a product."""
    made.add_dynamic_config(".*", EVERY, 8)
    made.add_dynamic_config(".*", DENSE, 4, algorithm_key=algorithm)


def _two_of(made: quantizer.Quantizer) -> None:
    """Convolutions in int8 throughout, dense layers with weights of 4 bits only."""
    made.add_static_config(".*", qtyping.TFLOperationName.CONV_2D, 8, 8)
    made.add_weight_only_config(".*", DENSE, 4)


RECIPES: dict[str, Callable[[quantizer.Quantizer], None]] = {
    "dynamic_wi8": lambda made: made.add_dynamic_config(".*", EVERY, 8),
    "dynamic_wi8_whole": lambda made: made.add_dynamic_config(".*", EVERY, 8, WHOLE),
    "dynamic_wi4": lambda made: made.add_dynamic_config(".*", EVERY, 4),
    "dynamic_wi4_mse": lambda made: made.add_dynamic_config(".*", EVERY, 4, algorithm_key=AlgorithmName.MSE),
    "dynamic_wi2": lambda made: made.add_dynamic_config(".*", DENSE, 2),
    "dynamic_wi4_blocks": lambda made: made.add_dynamic_config(".*", DENSE, 4, BLOCKS),
    "dynamic_wi2_blocks": lambda made: made.add_dynamic_config(".*", DENSE, 2, BLOCKS),
    "weight_only_wi8": lambda made: made.add_weight_only_config(".*", EVERY, 8),
    "weight_only_wi4": lambda made: made.add_weight_only_config(".*", EVERY, 4),
    "weight_only_wi4_octav": lambda made: made.add_weight_only_config(
        ".*", EVERY, 4, algorithm_key=AlgorithmName.OCTAV
    ),
    "weight_only_asymmetric": _asymmetric_weights,
    "static_a8w8": lambda made: made.add_static_config(".*", EVERY, 8, 8),
    "static_a8w8_whole": lambda made: made.add_static_config(".*", EVERY, 8, 8, WHOLE),
    "static_a8w4": lambda made: made.add_static_config(".*", EVERY, 8, 4),
    "static_a16w8": lambda made: made.add_static_config(".*", EVERY, 16, 8),
    "static_a16w4": lambda made: made.add_static_config(".*", EVERY, 16, 4),
    "static_u8w8": _static_unsigned,
    "float16": _float16,
    "hadamard_wi4": lambda made: _turned(made, AlgorithmName.DECOMPOSED_HADAMARD_ROTATION),
    "hadamard_wi4_custom": lambda made: _turned(made, AlgorithmName.HADAMARD_ROTATION),
    "mixed": _two_of,
}
"""What each recipe tells the quantizer."""


def sample(name: str, seed: int) -> Tensor:
    """A random input of an architecture."""
    generator, shape = torch.Generator().manual_seed(seed), ARCHITECTURES[name][1]
    if name in _OF_WORDS:
        return torch.randint(0, VOCABULARY, shape, generator=generator).int()
    return torch.randn(shape, generator=generator)


def exported(name: str) -> bytes:
    """An architecture with random weights as a model in float32; its normalisations have seen some data."""
    torch.manual_seed(0)
    module = ARCHITECTURES[name][0]()
    with torch.no_grad():
        for seed in range(SAMPLES):
            module(sample(name, seed))
    return bytes(litert_torch.convert(module.eval(), (sample(name, 0),)).model_content())


def quantized(source: bytes, recipe: str, inputs: list[Tensor]) -> bytes:
    """A model quantized by a recipe."""
    made = quantizer.Quantizer(bytearray(source))
    RECIPES[recipe](made)
    found = None
    if made.need_calibration:
        given = [{"args_0": each.numpy()} for each in inputs]
        found = made.calibrate({"serving_default": given}, num_threads=1)
    return bytes(made.quantize(found, enable_progress_report=False).quantized_model)


def files(name: str) -> Iterator[tuple[str, bytes | Exception]]:
    """The files of an architecture by their names; an error where exporter or quantizer raise one."""
    source = exported(name)
    yield "float32", source
    for recipe in RECIPES:
        try:
            yield recipe, quantized(source, recipe, [sample(name, seed) for seed in range(SAMPLES)])
        except Exception as error:
            yield recipe, error


def main() -> None:
    parser = argparse.ArgumentParser(description="Make models as PyTorch users export and quantize them.")
    parser.add_argument("folder", type=Path, help="where the .tflite files go, one folder for each architecture")
    parser.add_argument("--only", default="", metavar="TEXT", help="only architectures whose name contains TEXT")
    given = parser.parse_args()
    for name in ARCHITECTURES:
        if given.only in name:
            (given.folder / name).mkdir(parents=True, exist_ok=True)
            for label, made in files(name):
                if isinstance(made, bytes):
                    (given.folder / name / f"{label}.tflite").write_bytes(made)
                print(f"{name}/{label}: {f'{len(made)} bytes' if isinstance(made, bytes) else repr(made)[:200]}")


if __name__ == "__main__":
    main()
