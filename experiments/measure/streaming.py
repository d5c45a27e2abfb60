"""Streams audio through a keyword spotter that remembers: 20 ms go in as they come, and a word is told as it ends.

The spotter is made here, by hand instead of by training: it hears a "rising" word (a low tone, then a high one) and a
"falling" one. Its memory of half a second is that of an SVDF, a state that ``layoutsolve.Session`` keeps.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import layoutsolve
from layoutsolve.ir.graph import Array
from tests.builder import Builder

RATE, CHUNK = 16_000, 320
"""Samples in a second, and those that are heard at once."""

TONES = (400.0, 1200.0)
WORDS = ("silence", "rising", "falling")
HALF = 12
"""How many chunks each of a word's two tones takes."""


def spotter() -> bytes:
    """The model: energies at the tones, what they were lately and before, and a score for each word."""
    build = Builder()
    audio = build.input("audio", (1, CHUNK))
    angles = 2 * np.pi * np.outer(TONES, np.arange(CHUNK)) / RATE
    waves = np.stack([np.cos(angles), np.sin(angles)], 1).reshape(-1, CHUNK) * np.sqrt(2) / CHUNK
    parts = _dense(build, "parts", audio, waves)
    squares = build.tensor("squares", (1, 2 * len(TONES)))
    build.operator("MUL", [parts, parts], [squares], {})
    energies = _dense(build, "energies", squares, np.repeat(np.eye(len(TONES)), 2, 1))
    heard = _memory(build, energies)
    weights = 40 * np.array([[0, 0, 0, 0], [-1, 1, 1, -1], [1, -1, -1, 1]])
    scores = _dense(build, "scores", heard, weights, np.array([30.0, 0, 0]))
    shares = build.tensor("shares", (1, len(WORDS)))
    build.operator("SOFTMAX", [scores], [shares], {"beta": 1.0})
    build.signature({"audio": audio}, {"shares": shares})
    return build.finish(shares)


def _dense(build: Builder, name: str, x: int, weights: Array, bias: Array | None = None) -> int:
    out = build.tensor(name, (1, len(weights)))
    constants = [build.constant(f"{name}/weights", weights.astype(np.float32))]
    constants.append(
        build.constant(f"{name}/bias", (np.zeros(len(weights)) if bias is None else bias).astype(np.float32))
    )
    build.operator("FULLY_CONNECTED", [x, *constants], [out], {})
    return out


def _memory(build: Builder, x: int) -> int:
    """The mean energy of each tone in the half word that is over, and in the one before it."""
    units = 2 * len(TONES)
    late = np.r_[np.zeros(HALF), np.ones(HALF)] / HALF
    features = build.constant("memory/features", np.tile(np.eye(len(TONES)), (2, 1)).astype(np.float32))
    times = np.repeat([late, late[::-1]], len(TONES), 0).astype(np.float32)
    state = build.tensor("memory/state", (1, units * 2 * HALF), variable=True)
    out = build.tensor("memory", (1, units))
    inputs = [x, features, build.constant("memory/times", times), -1, state]
    build.operator("SVDF", inputs, [out], {"rank": 1})
    return out


def word(name: str, random: np.random.Generator) -> Array:
    """The sound of a word, with noise."""
    tones = {"rising": TONES, "falling": TONES[::-1]}.get(name, (0.0, 0.0))
    seconds = np.arange(HALF * CHUNK) / RATE
    sound = np.concatenate([np.sin(2 * np.pi * tone * seconds) for tone in tones])
    return (sound + random.normal(0, 0.1, sound.size)).astype(np.float32)


def told(session: layoutsolve.Session, sound: Array) -> Iterator[tuple[float, str]]:
    """When in the sound a word begins to be the likeliest, and which."""
    before = WORDS[0]
    for number, chunk in enumerate(sound.reshape(-1, 1, CHUNK)):
        shares = session.run({"audio": chunk})["shares"]
        now = WORDS[int(shares.argmax())]
        if now not in (before, WORDS[0]):
            yield (number + 1) * CHUNK / RATE, now
        before = now


def main() -> None:
    """Say a few words, and print what is heard; or write the model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--save", type=Path, metavar="FILE.tflite", help="write the model instead")
    path = parser.parse_args().save
    if path is not None:
        path.write_bytes(spotter())
        return
    conversion, random = layoutsolve.convert(spotter()), np.random.default_rng(0)
    session = conversion.session(threads=1)
    said = ["silence", "rising", "silence", "falling", "silence", "silence", "rising", "silence"]
    print("said:", *said)
    for seconds, name in told(session, np.concatenate([word(each, random) for each in said])):
        print(f"{seconds:5.2f} s  {name}")


if __name__ == "__main__":
    main()
