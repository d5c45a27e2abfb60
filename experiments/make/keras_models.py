"""Keras models as TensorFlow converts them to TensorFlow Lite: in float32, and quantized to int8 after training.

Architectures of ``keras.applications`` at a small size and some recurrent ones, with random weights of a fixed seed;
quantization is calibrated with random inputs. It needs an environment of its own: ``pip install tensorflow``. What the
converter refuses is printed and left out. The other experiments measure the folder::

    python -m experiments.make.keras_models FOLDER [--only MobileNet]
    python -m experiments.measure.speed FOLDER
"""

from __future__ import annotations

import argparse
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

SIDE = 96
APPLICATIONS = (
    "MobileNet MobileNetV2 MobileNetV3Small EfficientNetB0 EfficientNetV2B0 DenseNet121 NASNetMobile ResNet50V2"
)
WIDTH = 32


def recurrent(kind: str) -> Any:
    """A recurrent layer behind convolutions along time, and one in the other direction."""
    layer = getattr(tf.keras.layers, kind)
    layers = [tf.keras.Input((40, 16), batch_size=1), tf.keras.layers.Conv1D(WIDTH, 3, activation="relu")]
    layers += [tf.keras.layers.Bidirectional(layer(WIDTH, return_sequences=True)), layer(WIDTH)]
    return tf.keras.Sequential([*layers, tf.keras.layers.Dense(8, activation="softmax")])


def unet() -> Any:
    """An encoder and a decoder with skips."""
    layers = tf.keras.layers
    start = x = tf.keras.Input((64, 64, 3), batch_size=1)
    skips = []
    for width in (8, 16, 32):
        x = layers.BatchNormalization()(layers.Conv2D(width, 3, padding="same", activation="relu")(x))
        skips.append(x)
        x = layers.MaxPool2D()(x)
    for width, skip in zip((32, 16, 8), reversed(skips), strict=True):
        x = layers.Conv2DTranspose(width, 3, strides=2, padding="same")(x)
        x = layers.Conv2D(width, 3, padding="same", activation="relu")(layers.concatenate([x, skip]))
    return tf.keras.Model(start, layers.Conv2D(2, 1, activation="sigmoid")(x))


def architectures() -> Iterator[tuple[str, Callable[[], Any]]]:
    """All architectures by name."""
    for name in APPLICATIONS.split():
        made = getattr(tf.keras.applications, name)
        yield name, lambda made=made: made(weights=None, input_shape=(SIDE, SIDE, 3), classes=10)
    for name in ("LSTM", "GRU"):
        yield name, lambda name=name: recurrent(name)
    yield "UNet", unet


def converted(model: Any, quantized: bool) -> bytes:
    """A model in TensorFlow Lite; ``quantized`` to int8, inputs and outputs included."""
    converter = tf.lite.TFLiteConverter.from_keras_model(model)
    if quantized:
        generator = np.random.default_rng(0)
        shape = (1, *model.inputs[0].shape[1:])
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.representative_dataset = lambda: ([generator.random(shape, np.float32)] for _ in range(4))
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
        converter.inference_input_type = converter.inference_output_type = tf.int8
    return bytes(converter.convert())


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="those whose names have this in them")
    asked = parser.parse_args(arguments)
    asked.folder.mkdir(parents=True, exist_ok=True)
    for name, made in architectures():
        if asked.only not in name:
            continue
        tf.keras.utils.set_random_seed(zlib.crc32(name.encode()))
        model = made()
        for kind in ("float32", "int8"):
            path = asked.folder / f"{name}-{kind}.tflite"
            try:
                path.write_bytes(converted(model, kind == "int8"))
            except Exception as error:  # what the converter raises has no common class
                print(f"{path.stem}: {type(error).__name__}: {(str(error).splitlines() or [''])[0][:120]}", flush=True)
            else:
                print(f"{path.stem}: {path.stat().st_size / 2**20:.1f} MB", flush=True)


if __name__ == "__main__":
    main()
