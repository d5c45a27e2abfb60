"""What ``--report`` takes over the size of a model: networks of convolutions, sums, and what is slow channels-first.

Prints a row per size: operators of the source, seconds of a conversion and of its report (the processor's),
megabytes of the page, and milliseconds until it can be used in a headless Chromium ("-" where there is none).

    python -m experiments.measure.reports [SIZE ...]
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np

import layoutsolve
from layoutsolve.io.source import load
from layoutsolve.reporting.report import Told, page_of
from tests.builder import Builder

SIZES = (200, 2000)
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def network(count: int) -> bytes:
    """So many operators, a quarter of which are sums with what came up to ten operators before."""
    builder, random = Builder(), np.random.default_rng(0)
    shape = (1, 8, 8, 4)
    weights = builder.constant("weights", random.normal(size=(4, 3, 3, 4)) / 6, "float32")
    bias = builder.constant("bias", np.zeros(4), "float32")
    made = [builder.input("image", shape)]
    for number in range(count):
        result, last = builder.tensor(f"block{number}/x", shape), made[-1]
        if number % 4 == 0:
            said = {"padding": "SAME", "stride_h": 1, "stride_w": 1}
            builder.operator("CONV_2D", [last, weights, bias], [result], said)
        elif number % 4 == 2:
            other = made[max(0, len(made) - int(random.integers(2, 10)))]
            builder.operator("ADD", [last, other], [result], {})
        elif number % 12 == 3:
            builder.operator("SOFTMAX", [last], [result], {"beta": 1.0})
        else:
            builder.operator("TANH", [last], [result])
        made.append(result)
    return builder.finish(made[-1])


def ready(page: Path) -> str:
    """Milliseconds from the start of loading until both graphs are there."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        return "-"
    from playwright.sync_api import sync_playwright

    with sync_playwright() as running:
        shown = running.chromium.launch(executable_path=browser, args=["--no-sandbox", "--disable-gpu"])
        tab = shown.new_page(viewport={"width": 1400, "height": 900})
        tab.goto(page.as_uri())
        tab.wait_for_selector("html[data-ready]", timeout=60_000)
        found = str(tab.evaluate("document.documentElement.dataset.ready"))
        shown.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sizes", nargs="*", type=int, default=SIZES, metavar="SIZE")
    print(f"{'operators':>9} {'convert s':>9} {'report s':>9} {'page MB':>8} {'ready ms':>8}")
    with tempfile.TemporaryDirectory() as folder:
        for size in parser.parse_args().sizes:
            content = load(network(size))
            start = time.process_time()
            conversion = layoutsolve.convert(content)
            converted = time.process_time()
            text = page_of(Told(content, conversion, "model.onnx", conversion.explain()))
            done = time.process_time()
            page = Path(folder) / f"{size}.html"
            page.write_text(text)
            seconds = f"{converted - start:9.2f} {done - converted:9.2f}"
            print(f"{size:9} {seconds} {page.stat().st_size / 1e6:8.2f} {ready(page):>8}", flush=True)


if __name__ == "__main__":
    main()
