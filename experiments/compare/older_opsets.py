"""Every case of every operator in all older operator sets: how many are written, and which operator needs more.

    python -m experiments.compare.older_opsets [--part K/N]

Each is run in ONNX Runtime without graph optimizations, and compared with what the usual operator set gives.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter

from tests.conformance import families
from tests.conformance.opsets import graph_of, older


def main() -> None:
    """Count, and print what fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", default="0/1", help="each N-th case from the K-th on")
    first, step = map(int, parser.parse_args().part.split("/"))
    written, refused, wrong, cases = Counter[int](), Counter[str](), 0, 0
    for case in [*families.every_case()][first::step]:
        found = graph_of(case)
        if found is None:
            continue
        cases += 1
        try:
            for version, reason in older(*found):
                if reason:
                    words = re.search(r"(?:written as |model: )(\S+.*?) \(output '.*?'\) needs opset (\d+)", reason)
                    refused[f"{version}: {f'{words[1]} needs {words[2]}' if words else reason[:120]}"] += 1
                else:
                    written[version] += 1
        except Exception as error:
            wrong += 1
            print(f"WRONG {case.name}: {type(error).__name__}: {' '.join(str(error).split())[:300]}", flush=True)
    print(f"{cases} cases, {wrong} wrong; written: {dict(sorted(written.items()))}")
    for reason, count in sorted(refused.items()):
        print(f"  {count:5} {reason}")


if __name__ == "__main__":
    main()
