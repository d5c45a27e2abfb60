"""Write the golden texts anew: ``python -m tests.golden``. The difference is for a person to read."""

from tests.golden.models import MODELS
from tests.golden.outlines import FAMILIES, FOLDER, outlines
from tests.golden.test_golden import golden, printed

for name in MODELS:
    golden(name).write_text(printed(name), encoding="utf-8")
for family in FAMILIES:
    (FOLDER / f"{family}.txt").write_text("".join(f"{line}\n" for line in outlines(family)), encoding="utf-8")
