"""Tables and plots of the report, each made of rows alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from experiments.compare.tflite_writers import RIGHT
from experiments.measure.runtime import mean

Rows = Mapping[str, pd.DataFrame]
"""The rows of each measurement."""

BASELINES = ("push", "propagate", "transpose")
"""The strategies that solve every model and prove nothing."""

OPTIMAL = "cpsat"

COLUMNS = {
    "strategies": ("family", "model", "objective", "strategy", "operators", "value", "bound", "transposes", "penalty",
                   "bytes", "reshapes", "seconds"),
    "ablation": ("family", "model", "objective", "without", "value"),
    "engines": ("family", "model", "component", "engine", "value", "bound", "seconds"),
    "runtimes": ("family", "model", "way", "transposes", "penalty", "executed", "ratio"),
    "tools": ("family", "model", "formats", "off", "transposes", "reshapes", "executed", "seconds", "megabytes",
              "tool"),
}  # fmt: skip
"""The columns of each measurement that tables read; every row that is no error has the last one."""

FITTED = 3
"""The fewest different sizes that an exponent is fitted to."""

QUANTILES = (0.5, 0.9, 0.99)
"""The quantiles of a distribution that a table has."""


@dataclass(frozen=True)
class Table:
    """A table: its name (of its file), a title, what it has, and a sentence on how to read it."""

    name: str
    title: str
    frame: pd.DataFrame
    note: str


def good(rows: Rows, name: str) -> pd.DataFrame:
    """The rows of a measurement that are no errors, nor of models that have nothing to be measured; empty where it was
    not made.
    """
    frame = rows.get(name, pd.DataFrame())
    frame = frame.reindex(columns=list(dict.fromkeys([*COLUMNS[name], *frame.columns])))
    bad = frame["error"].notna() if "error" in frame else False
    return frame[~(bad | frame[COLUMNS[name][-1]].isna())]


# -- tables --------------------------------------------------------------------------------------------------------


def models(rows: Rows) -> Table:
    """How many models of each family there are, and how large they are."""
    found = good(rows, "strategies")
    first = found.drop_duplicates("model").groupby("family", sort=True)["operators"]
    frame = pd.DataFrame({"models": first.count(), "operators, median": first.median(), "largest": first.max()})
    frame = frame.astype(int).reset_index()
    return Table("models", "Models", frame, "Operators are those of the graph that layouts are chosen for.")


def strategies(rows: Rows) -> Table:
    """What each strategy leaves, by objective."""
    found, made = good(rows, "strategies"), []
    bounds = found[found["strategy"] == OPTIMAL].set_index(["objective", "model"])
    for (objective, strategy), some in found.groupby(["objective", "strategy"], sort=False):
        other = bounds.loc[objective].loc[some["model"]]
        value, least = int(some["value"].sum()), int(other["bound"].sum())
        gap = f"{100 * (value - least) / max(least, 1):.1f} %"
        best = int((some["value"].to_numpy() == other["value"].to_numpy()).sum())
        proven = int((some["value"].to_numpy() == other["bound"].to_numpy()).sum())
        moved = some["bytes"].sum() / 1e6
        made.append(
            (objective, strategy, len(some), value, least, gap, best, proven, int(some["transposes"].sum()),
             int(some["penalty"].sum()), f"{moved:.1f}", int(some["reshapes"].sum()))
        )  # fmt: skip
    columns = ["objective", "strategy", "models", "value", "lower bound", "gap", "as good as cpsat", "at the bound",
               "Transposes", "penalty", "MB moved", "Reshapes"]  # fmt: skip
    note = (
        "The value is the sum of the objective's first level over the models that a strategy solves (mincut refuses "
        "tensors of more than two orders), the lower bound that proven by cpsat for the same models."
    )
    return Table("strategies", "Strategies", pd.DataFrame(made, columns=columns), note)


def excess(rows: Rows) -> pd.DataFrame:
    """Of each model and objective by how much each baseline is above the optimum, where that is proven."""
    found = good(rows, "strategies")
    wide = found.pivot(index=["objective", "family", "model"], columns="strategy", values=["value", "bound"])
    proven = wide["value"][OPTIMAL] == wide["bound"][OPTIMAL]
    return wide["value"][proven].sub(wide["value"][OPTIMAL][proven], axis=0)[list(BASELINES)].astype(float)


def greedy(rows: Rows) -> Table:
    """The price of greedy: how the excess over proven optima is distributed."""
    found, made = excess(rows), []
    for objective, some in found.groupby(level="objective"):
        for strategy in BASELINES:
            over = some[strategy]
            quantiles = [f"{value:g}" for value in over.quantile(list(QUANTILES), interpolation="higher")]
            made.append(
                (objective, strategy, len(over), f"{100 * (over > 0).mean():.0f} %", *quantiles, int(over.max()))
            )
    columns = ["objective", "strategy", "models", "above the optimum", *(f"{q:.0%} at most" for q in QUANTILES), "most"]
    note = "Models whose optimum is proven; the excess is counted in Transposes (min-executed: and layout penalty)."
    return Table("greedy", "The price of greedy", pd.DataFrame(made, columns=columns), note)


def greedy_by_family(rows: Rows) -> Table:
    """Where baselines lose: the mean excess by family."""
    found = excess(rows).loc["min-transpose"]
    means = found.groupby(level="family").mean().round(2)
    optimum = good(rows, "strategies").query("strategy == @OPTIMAL and objective == 'min-transpose'")
    means.insert(0, "optimum", optimum.groupby("family")["value"].mean().round(2))
    frame = means.sort_values("propagate", ascending=False).reset_index()
    return Table(
        "greedy_by_family", "Where greedy loses", frame, "Mean Transposes of the optimum, and mean excess, per model."
    )


def ablation(rows: Rows) -> Table:
    """What each part of the statement is worth."""
    found, made = good(rows, "ablation"), []
    found = found.assign(without=found["without"].fillna(""))
    wide = found.pivot(index=["objective", "model"], columns="without", values="value")
    for objective, some in wide.groupby(level="objective"):
        for way in (each for each in dict.fromkeys(found["without"]) if each):
            both = some[["", way]].dropna().astype(int)
            over = both[way] - both[""]
            made.append((objective, way, len(both), int(both[""].sum()), int(both[way].sum()), int((over > 0).sum()),
                         int(over.max())))  # fmt: skip
    columns = ["objective", "without", "models", "value", "value without", "models that lose", "most"]
    note = (
        "views: Transposes and Reshapes of the source stay operators; absorption into weights: constants are moved as "
        "data is; alternatives: each operator has one form; sharing: each reader pays for its own Transpose."
    )
    return Table("ablation", "What each part of the formulation is worth", pd.DataFrame(made, columns=columns), note)


def engines(rows: Rows) -> Table:
    """Solvers of others on the same instances."""
    found, made = good(rows, "engines"), []
    keys = ["model", "component"]
    best = found.groupby(keys)["value"].min().rename("best")
    for engine, some in found.groupby("engine", sort=False):
        known = some.set_index(keys).join(best)
        solved = known["value"] == known["best"]
        made.append(
            (engine, len(known), int(known["value"].notna().sum()), int(solved.sum()),
             int((known["bound"] == known["best"]).sum()), f"{known['seconds'].sum():.1f}",
             f"{known['seconds'].median():.3f}", f"{known['seconds'].max():.1f}")
        )  # fmt: skip
    columns = ["engine", "instances", "solved", "best value", "bound tight", "seconds", "median", "most"]
    note = (
        "Components with more than 4,096 combinations of alternatives, first level of min-executed, within 5 s each "
        "on one thread; seconds are the processor's. The relaxation gives a bound alone, the dynamic program is given "
        "up on where a table has more than 16 million entries. layoutsolve minimises three levels in its time."
    )
    return Table("engines", "Engines on the same instances", pd.DataFrame(made, columns=columns), note)


def growth(rows: Rows) -> Table:
    """Time against size, with the exponent of a fit."""
    found, made = good(rows, "strategies"), []
    for (objective, strategy), some in found.groupby(["objective", "strategy"], sort=False):
        large = some[some["operators"] >= 20]
        if large["operators"].nunique() < FITTED:
            continue
        slope = np.polyfit(np.log(large["operators"]), np.log(large["seconds"].clip(lower=1e-4)), 1)[0]
        each = large["seconds"] / large["operators"] * 1e3
        made.append(
            (objective, strategy, len(large), f"{slope:.2f}", f"{each.median():.2f}", f"{large['seconds'].max():.1f}")
        )
    columns = ["objective", "strategy", "models", "exponent", "ms per operator, median", "most seconds"]
    note = (
        "Least squares on logarithms over models of 20 operators and more, of different kinds: not one family's growth."
    )
    return Table("growth", "Time of solving against size", pd.DataFrame(made, columns=columns), note)


def runtimes(rows: Rows) -> Table:
    """Times of the files by strategy and objective."""
    found, made = good(rows, "runtimes"), []
    for way, some in found.groupby("way", sort=False):
        differs = some[some["ratio"] != 1]
        made.append(
            (way, len(some), len(differs), f"{mean(some['ratio']):.3f}",
             f"{mean(differs['ratio']):.3f}" if len(differs) else "", f"{some['ratio'].min():.2f}",
             f"{some['ratio'].max():.2f}", int(some["transposes"].sum()), int(some["executed"].sum()))
        )  # fmt: skip
    columns = ["way", "models", "other file", "time", "time of those", "least", "most", "Transposes", "executed"]
    note = (
        "Time in ONNX Runtime on one thread by that of min-executed's file, in turn; geometric means over all models, "
        "and over those of which the file is another one. Executed are the Transposes that its optimiser leaves."
    )
    return Table("runtimes", "Run time", pd.DataFrame(made, columns=columns), note)


def slower(rows: Rows) -> Table:
    """Models on which the fewest Transposes are slower, and what they cost instead."""
    found = good(rows, "runtimes")
    wide = found.pivot(index="model", columns="way", values=["transposes", "penalty", "ratio"])
    least = wide.xs("min-transpose", axis=1, level="way")
    default = wide.xs("min-executed", axis=1, level="way")
    frame = pd.DataFrame(
        {
            "Transposes": default["transposes"].astype(int),
            "penalty": default["penalty"].astype(int),
            "Transposes, fewest": least["transposes"].astype("Int64"),
            "penalty, fewest": least["penalty"].astype("Int64"),
            "time, fewest": least["ratio"],
        }
    )
    frame = frame[frame["time, fewest"] > 1.05].sort_values("time, fewest", ascending=False).head(15).reset_index()
    note = "Files of min-executed and of min-transpose (fewest), and the latter's time by the former's, above 1.05."
    return Table("slower", "Where the fewest Transposes are slower", frame, note)


def tools(rows: Rows) -> Table:
    """Tools side by side: on how many models they are right, and what they leave where they and ours both are."""
    frame = rows.get("tools", pd.DataFrame())
    found = frame.reindex(columns=[*COLUMNS["tools"], "error"]).dropna(subset=["tool"])
    found = found[found["error"] != "not installed"]
    right, made = found["off"] <= RIGHT, []
    own = {
        "tflite to onnx": "layoutsolve",
        "onnx to onnx": "layoutsolve, onnx",
        "onnx to tflite": "layoutsolve, tflite",
    }
    for (formats, tool), some in found.groupby(["formats", "tool"], sort=False):
        ours = found[(found["tool"] == own[formats]) & right].set_index("model")
        theirs = some[right.loc[some.index]].set_index("model")
        both = theirs.index.intersection(ours.index)
        wrong = int((some["off"] > RIGHT).sum())
        sums = [f"{int(theirs.loc[both, name].sum())} ({int(ours.loc[both, name].sum())})" for name in COUNTED]
        spent = mean(theirs.loc[both, "seconds"] / ours.loc[both, "seconds"]) if len(both) else float("nan")
        made.append((formats, tool, len(some), len(theirs), wrong, len(some) - len(theirs) - wrong, len(both), *sums,
                     f"{spent:.2f}", f"{some['megabytes'].median():.0f}"))  # fmt: skip
    columns = ["formats", "tool", "models", "right", "wrong", "refused", "both right", "Transposes (ours)",
               "Reshapes (ours)", "executed (ours)", "processor time by ours", "MB"]  # fmt: skip
    note = (
        "Right: within 0.1 % of the range of the source's output (LiteRT's reference kernels, ONNX Runtime without "
        "optimisation); 8-bit results may be further off by their steps and count as wrong here for all. Counts are "
        "sums over the models that a tool and layoutsolve both have right, layoutsolve's in brackets."
    )
    return Table("tools", "Tools", pd.DataFrame(made, columns=columns), note)


OWN = ("layoutsolve", "layoutsolve, onnx", "layoutsolve, tflite")
"""The tools that others are compared with."""

COUNTED = ("transposes", "reshapes", "executed")

TABLES: tuple[tuple[str, Callable[[Rows], Table]], ...] = (
    ("strategies", models),
    ("strategies", strategies),
    ("strategies", greedy),
    ("strategies", greedy_by_family),
    ("ablation", ablation),
    ("engines", engines),
    ("strategies", growth),
    ("runtimes", runtimes),
    ("runtimes", slower),
    ("tools", tools),
)
"""The tables in the order of the report, each with the measurement that it is made of."""


def tables(rows: Rows) -> list[Table]:
    """Those of what was measured."""
    return [make(rows) for measurement, make in TABLES if not good(rows, measurement).empty]


# -- plots ---------------------------------------------------------------------------------------------------------


def plot_greedy(rows: Rows) -> Figure:
    """The share of models that are at most so far above the optimum."""
    found = excess(rows)
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    for axes, objective in zip(figure.subplots(1, 2, sharey=True), ("min-executed", "min-transpose"), strict=True):
        for strategy in BASELINES:
            over = np.sort(found.loc[objective][strategy].to_numpy())
            axes.step(over, np.arange(1, len(over) + 1) / len(over), where="post", label=strategy)
        axes.set(title=objective, xlabel="above the proven optimum", xscale="symlog", ylim=(0, 1.02))
        axes.grid(alpha=0.3)
    figure.axes[0].set_ylabel("share of models")
    figure.axes[0].legend()
    return figure


def plot_growth(rows: Rows) -> Figure:
    """Seconds of solving against operators."""
    found = good(rows, "strategies").query("strategy == @OPTIMAL")
    figure = Figure(figsize=(6, 3.4), layout="constrained")
    axes = figure.subplots()
    for objective, some in found.groupby("objective"):
        axes.scatter(some["operators"], some["seconds"], s=9, alpha=0.6, label=objective)
    axes.set(xscale="log", yscale="log", xlabel="operators", ylabel="seconds of the processor")
    axes.grid(alpha=0.3)
    axes.legend()
    return figure


def plot_engines(rows: Rows) -> Figure:
    """How many instances each engine solves, with proof, within so many seconds."""
    found = good(rows, "engines")
    figure = Figure(figsize=(6, 3.4), layout="constrained")
    axes = figure.subplots()
    for engine, some in found.groupby("engine", sort=False):
        spent = np.sort(some[some["value"] == some["bound"]]["seconds"].to_numpy())
        if len(spent):
            axes.step(spent, np.arange(1, len(spent) + 1), where="post", label=engine)
    axes.set(xscale="log", xlabel="seconds of the processor", ylabel="instances proven")
    axes.grid(alpha=0.3)
    axes.legend()
    return figure


PLOTS: Mapping[str, Callable[[Rows], Figure]] = {"greedy": plot_greedy, "growth": plot_growth, "engines": plot_engines}
"""The plots, each beside the table of its name."""
