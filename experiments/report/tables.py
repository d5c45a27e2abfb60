"""Tables and plots of the report, each made of rows alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from experiments.measure.runtime import DEFAULT, mean
from experiments.report.originals import UNEXPLAINED
from experiments.report.runtimes import ORT

Rows = Mapping[str, pd.DataFrame]
"""The rows of each measurement."""

BASELINES = ("push", "propagate", "transpose")
"""The strategies that solve every model and prove nothing."""

OPTIMAL = "cpsat"

COLUMNS = {
    "strategies": ("family", "model", "objective", "strategy", "format", "operators", "value", "bound", "transposes",
                   "penalty", "bytes", "reshapes", "seconds"),
    "ablation": ("family", "model", "objective", "without", "value"),
    "engines": ("family", "model", "component", "engine", "value", "bound", "seconds"),
    "growth": ("family", "model", "objective", "operators", "status", "seconds"),
    "runtimes": ("family", "model", "runtime", "way", "transposes", "penalty", "executed", "penalised", "low", "high",
                 "ratio"),
    "originals": ("family", "model", "strategy", "theirs", "ours", "cause", "original"),
    "cost": ("family", "model", "measurement", "seconds"),
    "tools": ("family", "model", "formats", "off", "allowed", "transposes", "reshapes", "executed", "moved", "seconds",
              "megabytes", "tool"),
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
        "tensors of more than two orders, propagate reads TensorFlow Lite alone), the lower bound that proven by cpsat "
        "for the same models."
    )
    return Table("strategies", "Strategies", pd.DataFrame(made, columns=columns), note)


def excess(rows: Rows) -> pd.DataFrame:
    """Of each model and objective by how much each baseline is above the optimum, where that is proven."""
    found = good(rows, "strategies")
    wide = found.pivot(index=["objective", "family", "model"], columns="strategy", values=["value", "bound"])
    proven = wide["value"][OPTIMAL] == wide["bound"][OPTIMAL]
    return (
        wide["value"][proven].sub(wide["value"][OPTIMAL][proven], axis=0).reindex(columns=list(BASELINES)).astype(float)
    )


def greedy(rows: Rows) -> Table:
    """The price of greedy: how the excess over proven optima is distributed."""
    found, made = excess(rows), []
    for objective, some in found.groupby(level="objective"):
        for strategy in BASELINES:
            over = some[strategy].dropna()
            if over.empty:
                continue
            quantiles = [f"{value:g}" for value in over.quantile(list(QUANTILES), interpolation="higher")]
            made.append(
                (objective, strategy, len(over), f"{100 * (over > 0).mean():.0f} %", *quantiles, int(over.max()))
            )
    columns = ["objective", "strategy", "models", "above the optimum", *(f"{q:.0%} at most" for q in QUANTILES), "most"]
    note = "Models whose optimum is proven; the excess is counted in Transposes (min-executed: and layout penalty). "
    note += "propagate begins with operators of a fixed layout, which only TensorFlow Lite has."
    return Table("greedy", "The price of greedy", pd.DataFrame(made, columns=columns), note)


def greedy_by_family(rows: Rows) -> Table:
    """Where baselines lose: the mean excess by family."""
    found = excess(rows).loc["min-transpose"]
    means = found.groupby(level="family").mean().round(2)
    optimum = good(rows, "strategies").query("strategy == @OPTIMAL and objective == 'min-transpose'")
    optimum = optimum[optimum["model"].isin(found.index.get_level_values("model"))]  # of the same models
    means.insert(0, "optimum", optimum.groupby("family")["value"].mean().round(2))
    frame = means.sort_values("push", ascending=False).reset_index()
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
        "data is; alternatives: each operator has one form; more than two labels: each tensor has its own order "
        "and the one with channels at the other end; sharing: each reader pays for its own Transpose."
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
    """Time against size in each family that grows, with the exponent of a fit."""
    found, made = good(rows, "growth"), []
    for (objective, family), some in found.groupby(["objective", "family"]):
        if some["operators"].nunique() < FITTED:
            continue
        largest = some.loc[some["operators"].idxmax()]
        sizes = f"{some['operators'].min()} to {largest['operators']}"
        proven = f"{(some['status'] == 'optimal').sum()} of {len(some)}"
        made.append((objective, family, sizes, proven, f"{exponent(some):.2f}", f"{largest['seconds']:.1f}"))
    columns = ["objective", "family", "operators", "proven", "exponent", "seconds, largest"]
    note = (
        "The same network in sizes that double; the exponent is that of a least-squares fit on logarithms, proven the "
        "sizes whose first level is proven."
    )
    return Table("growth", "Time of solving against size", pd.DataFrame(made, columns=columns), note)


def exponent(some: pd.DataFrame) -> float:
    """The slope of seconds against operators on logarithms."""
    seconds = np.log(some["seconds"].astype(float).clip(lower=1e-4))
    return float(np.polyfit(np.log(some["operators"].astype(float)), seconds, 1)[0])


def runtimes(rows: Rows) -> Table:
    """Times of the files by runtime, strategy and objective."""
    found, made = good(rows, "runtimes"), []
    for (runtime, way), some in found.groupby(["runtime", "way"], sort=False):
        differs = some[some["ratio"] != 1]
        if way == DEFAULT or differs.empty:
            continue
        means = tuple(f"{mean(differs[name]):.3f}" for name in ("ratio", "low", "high"))
        made.append(
            (runtime, way, len(some), len(differs), means[0], f"{means[1]} to {means[2]}",
             int((differs["low"] > 1).sum()), int((differs["high"] < 1).sum()), f"{some['ratio'].min():.2f}",
             f"{some['ratio'].max():.2f}")
        )  # fmt: skip
    columns = ["runtime", "way", "models", "other file", "time", "interval", "slower", "faster", "least", "most"]
    note = (
        "Time on one thread by that of min-executed's file in the same rounds, where the file is another one (in more "
        "than its metadata): "
        "geometric means of medians and of the ends of their 95 % intervals. Slower and faster are the models whose "
        "interval is above or below 1. LiteRT runs files in its own format, which are laid out for its kernels."
    )
    return Table("runtimes", "Run time", pd.DataFrame(made, columns=columns), note)


def slower(rows: Rows) -> Table:
    """Models on which the fewest Transposes are slower, and what they cost instead."""
    found = good(rows, "runtimes")
    found = found[found["runtime"] == ORT]
    wide = found.pivot(index="model", columns="way", values=["transposes", "penalty", "executed", "penalised", "ratio",
                                                             "low", "high"])  # fmt: skip
    least, default = (wide.xs(way, axis=1, level="way") for way in ("min-transpose", DEFAULT))
    frame = pd.DataFrame(
        {
            "executed": default["executed"].astype("Int64"),
            "penalty": default["penalty"].astype("Int64"),
            "executed, fewest": least["executed"].astype("Int64"),
            "penalty, fewest": least["penalty"].astype("Int64"),
            "time, fewest": least["ratio"].astype(float).map("{:.2f}".format),
            "interval": least["low"].astype(float).map("{:.2f}".format)
            + " to "
            + least["high"].astype(float).map("{:.2f}".format),
            "slower kernels of": least["penalised"].fillna(""),
        }
    )
    frame = frame[least["low"].astype(float) > 1].sort_values("time, fewest", ascending=False).head(15).reset_index()
    note = (
        "Files of min-executed and of min-transpose (fewest) in ONNX Runtime: Transposes that its optimiser leaves, "
        "the layout penalty, the latter's time by the former's, and the operators that the penalty is for: a "
        "Transpose is saved where their kernel is slower. Models whose interval is above 1, the slowest 15."
    )
    return Table("slower", "Where the fewest Transposes are slower", frame, note)


def originals(rows: Rows) -> Table:
    """Strategies beside the originals of their algorithms."""
    found, made = good(rows, "originals"), []
    for (original, strategy), some in found.groupby(["original", "strategy"], sort=False):
        both = some.dropna(subset=["theirs"])
        more, fewer = (both["theirs"] > both["ours"]).sum(), (both["theirs"] < both["ours"]).sum()
        made.append(
            (original, strategy, len(some), len(both), int((both["theirs"] == both["ours"]).sum()), int(more),
             int(fewer), int((both["cause"] == UNEXPLAINED).sum()), int(both["theirs"].sum()), int(both["ours"].sum()))
        )  # fmt: skip
    columns = ["original", "strategy", "models", "reads", "equal", "ours fewer", "ours more", "not explained",
               "Transposes", "ours"]  # fmt: skip
    note = (
        "Transposes of what is computed, and inputs and outputs that an original stores in another order. tflite2onnx "
        "refuses what has operators that it lacks; ONNX Runtime begins with the file of transpose; litert-torch reads "
        "the same network in PyTorch and writes TensorFlow Lite; convert_layout is an optimum for TVM's question, not "
        "its algorithm."
    )
    return Table("originals", "Strategies beside their originals", pd.DataFrame(made, columns=columns), note)


def causes(rows: Rows) -> Table:
    """Why originals and strategies differ."""
    found = good(rows, "originals").dropna(subset=["theirs", "cause"])
    found = found[found["theirs"] != found["ours"]]
    made = [
        (original, cause, len(some), int(some["theirs"].sum()), int(some["ours"].sum()))
        for (original, cause), some in found.groupby(["original", "cause"], sort=False)
    ]
    columns = ["original", "cause", "models", "Transposes", "ours"]
    note = (
        "A cause is one that was tried: with that part of either left out, or let in, the counts are equal or change "
        "sides; what is wrong is wrong against LiteRT's reference kernels. Each model is in rows/originals.csv."
    )
    return Table("causes", "Why they differ", pd.DataFrame(made, columns=columns), note)


def cost(rows: Rows) -> Table:
    """What the report takes."""
    found = good(rows, "cost")
    spent = found.groupby("measurement", sort=False)["seconds"]
    frame = pd.DataFrame({"models": spent.count(), "processor seconds": spent.sum().round().astype(int)})
    note = "Processor seconds of the processes that measured, with those of tools that they started."
    return Table("cost", "What the rows took", frame.reset_index(), note)


def tools(rows: Rows) -> Table:
    """Tools side by side: on how many models they are right, and what they leave where they and ours both are."""
    frame = rows.get("tools", pd.DataFrame())
    found = frame.reindex(columns=[*COLUMNS["tools"], "error"]).dropna(subset=["tool"])
    found = found[found["error"] != "not installed"]
    right, made = found["off"] <= found["allowed"], []
    own = {
        "tflite to onnx": "layoutsolve",
        "onnx to onnx": "layoutsolve, onnx",
        "onnx to tflite": "layoutsolve, tflite",
        "tflite to xml": "layoutsolve, OpenVINO",
        "onnx to xml": "layoutsolve, onnx, OpenVINO",
    }
    for (formats, tool), some in found.groupby(["formats", "tool"], sort=False):
        ours = found[(found["tool"] == own[formats]) & right].set_index("model")
        theirs = some[right.loc[some.index]].set_index("model")
        both = theirs.index.intersection(ours.index)
        wrong = int((some["off"] > some["allowed"]).sum())
        sums = [f"{int(theirs.loc[both, name].sum())} ({int(ours.loc[both, name].sum())})" for name in COUNTED]
        moved = [f"{side.loc[both, 'moved'].sum() / 1e6:.2f}" for side in (theirs, ours)]
        spent = mean(theirs.loc[both, "seconds"] / ours.loc[both, "seconds"]) if len(both) else float("nan")
        made.append((formats, tool, len(some), len(theirs), wrong, len(some) - len(theirs) - wrong, len(both), *sums,
                     f"{moved[0]} ({moved[1]})", f"{spent:.2f}", f"{some['megabytes'].median():.0f}"))  # fmt: skip
    columns = ["formats", "tool", "models", "right", "wrong", "refused", "both right", "Transposes (ours)",
               "Reshapes (ours)", "executed (ours)", "MB moved (ours)", "processor time by ours", "MB"]  # fmt: skip
    note = (
        "Right: within 0.1 % of the range of the source's output (LiteRT's reference kernels, ONNX Runtime without "
        "optimisation), of models with quantized tensors 2 %, as their steps are rounded in other places. Counts are "
        "sums over the models that a tool and layoutsolve both have right, layoutsolve's in brackets. XML is "
        "OpenVINO's own format: it reads the source, or the file that layoutsolve makes of it in ONNX."
    )
    return Table("tools", "Tools", pd.DataFrame(made, columns=columns), note)


COUNTED = ("transposes", "reshapes", "executed")

TABLES: tuple[tuple[str, Callable[[Rows], Table]], ...] = (
    ("strategies", models),
    ("strategies", strategies),
    ("strategies", greedy),
    ("strategies", greedy_by_family),
    ("ablation", ablation),
    ("engines", engines),
    ("growth", growth),
    ("runtimes", runtimes),
    ("runtimes", slower),
    ("originals", originals),
    ("originals", causes),
    ("tools", tools),
    ("cost", cost),
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
            over = np.sort(found.loc[objective][strategy].dropna().to_numpy())
            axes.step(over, np.arange(1, len(over) + 1) / len(over), where="post", label=strategy)
        axes.set(title=objective, xlabel="above the proven optimum", xscale="symlog", ylim=(0, 1.02))
        axes.grid(alpha=0.3)
    figure.axes[0].set_ylabel("share of models")
    figure.axes[0].legend()
    return figure


def plot_strategies(rows: Rows) -> Figure:
    """Of each model the Transposes that min-transpose saves, and the layout penalty that it takes for them."""
    found = good(rows, "strategies")
    found = found[found["strategy"] == OPTIMAL].pivot(
        index="model", columns="objective", values=["transposes", "penalty"]
    )
    saved = found["transposes", "min-executed"] - found["transposes", "min-transpose"]
    taken = found["penalty", "min-transpose"] - found["penalty", "min-executed"]
    figure = Figure(figsize=(6, 3.4), layout="constrained")
    axes = figure.subplots()
    axes.scatter(saved, taken, s=9, alpha=0.6)
    most = max(int(saved.max()), 1)
    axes.plot([0, most], [0, most], linewidth=0.8, color="grey")
    axes.set(xscale="symlog", yscale="symlog", xlabel="Transposes saved", ylabel="layout penalty taken")
    axes.grid(alpha=0.3)
    return figure


def plot_ablation(rows: Rows) -> Figure:
    """How much more the optimum is where a part of the formulation is left out, over all models."""
    found = good(rows, "ablation")
    sums = found.assign(without=found["without"].fillna("nothing")).pivot_table(
        index="without", columns="objective", values="value", aggfunc="sum", sort=False
    )
    figure = Figure(figsize=(7, 3), layout="constrained")
    axes = figure.subplots()
    for number, objective in enumerate(sums):
        axes.barh(np.arange(len(sums)) + 0.4 * number, sums[objective], 0.4, label=objective)
    axes.set_yticks(
        np.arange(len(sums)) + 0.2, [f"without {name}" if name != "nothing" else "all of it" for name in sums.index]
    )
    axes.set(xlabel="sum of optima")
    axes.legend()
    return figure


def plot_growth(rows: Rows) -> Figure:
    """Seconds of solving against operators, a line for each family."""
    found = good(rows, "growth")
    figure = Figure(figsize=(8, 3.6), layout="constrained")
    for axes, objective in zip(figure.subplots(1, 2, sharey=True), ("min-executed", "min-transpose"), strict=True):
        for family, some in found[found["objective"] == objective].groupby("family"):
            line = some.sort_values("operators")
            axes.plot(line["operators"], line["seconds"], marker=".", linewidth=1, label=family)
        axes.set(title=objective, xscale="log", yscale="log", xlabel="operators")
        axes.grid(alpha=0.3)
    figure.axes[0].set_ylabel("seconds of the processor")
    figure.axes[1].legend(fontsize=6)
    return figure


def plot_slower(rows: Rows) -> Figure:
    """The time of the file with the fewest Transposes, by the Transposes that it saves."""
    found = good(rows, "runtimes")
    found = found[found["runtime"] == ORT]
    wide = found.pivot(index="model", columns="way", values=["transposes", "ratio", "low", "high"])
    least, default = (wide.xs(way, axis=1, level="way").astype(float) for way in ("min-transpose", DEFAULT))
    least = least[least["ratio"] != 1]
    saved = default["transposes"].loc[least.index] - least["transposes"]
    figure = Figure(figsize=(6, 3.4), layout="constrained")
    axes = figure.subplots()
    spread = [(least["ratio"] - least["low"]).clip(lower=0), (least["high"] - least["ratio"]).clip(lower=0)]
    axes.errorbar(saved, least["ratio"], yerr=spread, fmt=".", capsize=2)
    axes.axhline(1, linewidth=0.8, color="grey")
    axes.set(xscale="symlog", yscale="log", xlabel="Transposes saved", ylabel="time by min-executed's")
    axes.grid(alpha=0.3)
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


PLOTS: Mapping[str, Callable[[Rows], Figure]] = {
    "strategies": plot_strategies,
    "greedy": plot_greedy,
    "growth": plot_growth,
    "engines": plot_engines,
    "slower": plot_slower,
    "ablation": plot_ablation,
}
"""The plots, each beside the table of its name."""
