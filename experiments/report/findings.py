"""What the rows show, in sentences whose numbers are computed from them, and how each could be false.

They stand in the report of any run, and, of the published one, in the page beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from textwrap import fill

from experiments.measure.runtime import DEFAULT, mean
from experiments.report.runtimes import ORT
from experiments.report.tables import Rows, excess, good

GRAPHS = ("operators", "random onnx", "random tflite")
"""The families that are no networks: single operators, and random graphs of a few."""

OUTSIDE = ("HiGHS", "toulbar2", "CP-SAT", "tree decomposition")
"""The engines that look for an assignment; layoutsolve is none of them."""

FEWEST = 10
"""The fewest models that a finding is told of."""

MARKS = ("<!-- findings: written by experiments.report -->", "<!-- findings end -->")
"""Between these a page has the findings."""


def corpus(rows: Rows) -> str:
    """Of what the models are."""
    found = good(rows, "strategies").drop_duplicates("model")
    sizes = found[~found["family"].isin(GRAPHS)]["operators"]
    most = f" ({int(sizes.median())} operators in the median, {int(sizes.max())} at most)" if len(sizes) else ""
    graphs = len(found) - len(sizes)
    others = f", {graphs} random graphs and single operators, which are there to test rules" if graphs else ""
    return f"""The rows have {len(found)} models of {found["family"].nunique()} families. {len(sizes)} of them are
        networks{most}{others}."""


def greedy(rows: Rows) -> str:
    """What greedy algorithms lose, of networks and of other graphs."""
    told = []
    for objective, over in excess(rows)["push"].dropna().groupby(level="objective"):
        network = ~over.index.get_level_values("family").isin(GRAPHS)
        some, others = over[network], over[~network]
        worst = some.sort_values(ascending=False)[: max(1, len(some) // 10)].sum() / max(some.sum(), 1)
        graphs = f" and for {(others == 0).sum()} of {len(others)} other graphs" if len(others) else ""
        told.append(
            f"""under `{objective}` it is optimal for {(some == 0).sum()} of {len(some)} networks{graphs}, and
            {100 * worst:.0f} % of what it is above the optimum of networks is in the tenth of them that lose the
            most"""
        )
    return f"""**Greedy is optimal for most small graphs, and for a smaller part of networks** (*The price of
        greedy*, *Where greedy loses*; [figure](plots/greedy.svg), rows `strategies.csv`). Of `push`, where the
        optimum is proven: {"; ".join(told)}. It could be false of models that are not like these families, which
        repeat structures in which layouts conflict, and for an original that is stronger than its implementation
        here, which `originals.csv` tests."""


def integral(rows: Rows) -> str:
    """How tight the relaxation is, and whether engines agree."""
    found = good(rows, "engines").pivot(index=["model", "component"], columns="engine", values=["value", "bound"])
    best = found["value"].min(axis=1)
    some, least = found[best > 0], best[best > 0]
    reached = [f"{name} on {(some['value'][name] == least).sum()}" for name in ("layoutsolve", *OUTSIDE)]
    tight = (some["bound"]["LP relaxation (HiGHS)"] == least).sum()
    lower = (found["value"][list(OUTSIDE)].min(axis=1) < found["value"]["layoutsolve"]).sum()
    return f"""**The problem is nearly integral** (*Engines on the same instances*; [figure](plots/engines.svg), rows
        `engines.csv`). Of {len(best)} instances {len(some)} have an optimum above 0, on which alone a bound
        counts. The LP relaxation, rounded up, is the best value that is known on {tight} of these. Within their limit
        of time engines come to that value: {", ".join(reached)}; on {lower or "none"} one is below layoutsolve. It
        could be false for candidate sets that are larger than those of the search, and of other structures: grids in
        which all neighbours conflict have a gap. What an engine has when the clock cuts it off differs from run to
        run."""


def fewest(rows: Rows) -> str:
    """What the fewest Transposes cost in time."""
    found, told = good(rows, "runtimes"), []
    wide = found[found["runtime"] == ORT].pivot(index="model", columns="way", values=["ratio", "penalty"])
    taken = wide["penalty"]["min-transpose"] - wide["penalty"][DEFAULT]
    ratio = wide["ratio"]["min-transpose"]
    ratio, taken = ratio[ratio != 1].dropna(), taken[ratio != 1]
    for (runtime, way), some in found.groupby(["runtime", "way"], sort=False):
        other = some[some["ratio"] != 1]
        if way in ("min-transpose", "push") and len(other):
            told.append(
                f"""`{way}` in {runtime} {mean(other["ratio"]):.2f} (median {other["ratio"].median():.2f}, of
                {len(other)} models {(other["low"] > 1).sum()} slower and {(other["high"] < 1).sum()} faster)"""
            )
    return f"""**The fewest Transposes are not the least work** (*Where the fewest Transposes are slower*;
        [figure](plots/slower.svg), rows `runtimes.csv`). Time by that of `{DEFAULT}`, where files differ:
        {"; ".join(told)}. In ONNX Runtime the fewest Transposes take up to {ratio.max():.2f}, and tend to take more
        where more layout penalty is taken for them (rank correlation {ratio.rank().corr(taken.rank()):.2f}): they are
        saved by slower kernels of products and normalizations. It could be false for a runtime whose kernels take all
        layouts alike, and of another processor: the prices are those of ONNX Runtime on x86, where it is measured. In a
        runtime for which a file is not made `push` may be faster, and a mean beside a median of 1 is one of few
        models."""


def labels(rows: Rows) -> str:
    """What two orders for each tensor leave."""
    found = good(rows, "ablation").query("objective == 'min-transpose'")
    wide = found.assign(without=found["without"].fillna("")).pivot(
        index="model", columns="without", values=["value", "proven"]
    )
    values = wide["value"][wide["proven"][["", "more than two labels"]].astype(bool).all(axis=1)].astype(int)
    best, two = values[""], values["more than two labels"]
    push = good(rows, "strategies").query("strategy == 'push' and objective == 'min-transpose'")
    same = push.set_index("model")["value"].reindex(values.index)
    worst = (two - best).sort_values(ascending=False)[:3]
    share = 100 * worst.sum() / max((two - best).sum(), 1)
    return f"""**Two labels for each tensor are not enough, even when they are chosen optimally** (*What each part of
        the formulation is worth*; [figure](plots/ablation.svg), rows `ablation.csv`). The optimum where each tensor has
        its own order and the one with channels at the other end, which is what minimum cuts over NCHW and NHWC choose
        from, leaves {two.sum()} Transposes under `min-transpose` where {best.sum()} are enough and the greedy `push`
        leaves {int(same.sum())} ({len(values)} models of which both optima are proven; two labels lose on
        {(two > best).sum()}, and {share:.0f} % of it on {", ".join(map(str, worst.index))}): what an exact method gains
        comes from what it may move, and not from how it searches alone. It could be false of models in which no Reshape
        and no attention meets an image, and of labels that also name dimensions which a Reshape has merged."""


FINDINGS: tuple[tuple[str, Callable[[Rows], str]], ...] = (
    ("strategies", greedy),
    ("engines", integral),
    ("runtimes", fewest),
    ("ablation", labels),
)
"""The findings in their order, each with the measurement that it is made of."""


def findings(rows: Rows, folder: str = "") -> str:
    """All findings of what was measured, in Markdown, for a page in the report's folder, or beside that ``folder``;
    nothing of fewer models than :data:`FEWEST`.
    """
    told = [tell(rows) for name, tell in FINDINGS if good(rows, name)["model"].nunique() >= FEWEST]
    placed = (each.replace("](plots/", f"]({folder}/plots/") if folder else each for each in told)
    numbered = (_wrapped(f"{number}. {each}", 3) for number, each in enumerate(placed, 1))
    return "\n\n".join([_wrapped(corpus(rows)), "\n".join(numbered)]).strip()


def _wrapped(sentences: str, indent: int = 0) -> str:
    words = " ".join(sentences.split())
    return fill(words, 120, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False)


def with_findings(page: str, found: str) -> str:
    """A page whose findings are these. A page without marks stays."""
    start, end = (page.find(mark) for mark in MARKS)
    if start < 0 or end < start:
        return page
    return f"{page[: start + len(MARKS[0])]}\n\n{found}\n\n{page[end:]}"
