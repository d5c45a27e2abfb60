"""Certificates: what a conversion claims about its price, in a form that can be checked without a search.

A certificate records how the source was read, the row of every operator, and a lower bound with its proof for every
level of the objective. :mod:`layoutsolve.certification.checker` says what of it is proven again. It has only what that
can refute, and a seal over all of it shows that the text is as it was written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from layoutsolve.base.digest import digest
from layoutsolve.conversion.json_sidecar import Document
from layoutsolve.errors import CertificateError
from layoutsolve.frontend import Reading
from layoutsolve.ir.storage_options import COUNTS, FLAGS, WEIGHTS, Dynamic, Storage, WeightStorage
from layoutsolve.solver.proof.serialisation import layout_of, layout_text, tree_facts, tree_of
from layoutsolve.solver.proof.tree import Tree
from layoutsolve.solver.statement.boundary import Boundary, Ends
from layoutsolve.solver.statement.objective import OBJECTIVES
from layoutsolve.solver.theory.layout import Layout
from layoutsolve.solver.theory.row import Price

FORMAT = "layoutsolve certificate 13"


@dataclass(frozen=True)
class CertifiedRow:
    """The alternative of an operator: its title, the layouts of its ports, and which of the ways with these it is run
    in.
    """

    title: str
    layouts: tuple[Layout, ...]
    way: int


@dataclass(frozen=True)
class Bound:
    """A lower bound on a level of the price, where all levels before it are no higher than recorded, and its proof.

    What no level can be below, 0, needs none.
    """

    tier: tuple[str, ...]
    bound: int
    proof: Tree | None


@dataclass(frozen=True)
class Certificate(Document):
    """Certificate of a conversion: its alternatives, costs, and proofs of lower bounds.

    ``source`` and ``model`` are the SHA-256 of the two files, ``data`` that of the external data, None where there is
    none. ``name`` is that of the model. ``reading``, ``boundary``, ``objective`` and ``opset`` are the options of the
    conversion; ``target`` is the name of the target, ``table`` the SHA-256 of its fields. ``rows`` are the chosen
    alternatives, ``price`` is their cost; ``bounds`` has a bound for each level of the objective but the last,
    duplicated initializers. In the bounds the variables whose numbers are in ``charged`` have exact conversion costs,
    all others their cheapest conversion, where orders come first. ``unseen`` are the numbers of the factors that the
    projection leaves out. ``version`` and ``options`` are the provenance in the model's metadata.
    """

    kind = "certificate"
    error = CertificateError
    remedy = ": write one with --certify FILE"

    source: str
    model: str
    data: str | None
    name: str
    objective: str
    target: str
    table: str
    opset: int
    boundary: Boundary
    rows: tuple[CertifiedRow, ...]
    price: Price
    charged: tuple[int, ...]
    unseen: tuple[int, ...]
    bounds: tuple[Bound, ...]
    reading: Reading
    version: str
    options: str

    def to_json(self) -> str:
        """JSON text of the certificate, one line per operator."""
        facts = {
            "format": FORMAT,
            **{name: fact for name, fact in vars(self).items() if name not in ("rows", "bounds")},
        }
        facts.update({name: asdict(facts[name]) for name in ("boundary", "price", "reading")})
        facts["rows"] = [f"{' | '.join(map(layout_text, row.layouts))} : {row.way} : {row.title}" for row in self.rows]
        facts["bounds"] = [
            {"tier": each.tier, "bound": each.bound, "proof": None if each.proof is None else tree_facts(each.proof)}
            for each in self.bounds
        ]
        return json.dumps({**facts, "seal": _seal(facts)}, indent=1) + "\n"

    @classmethod
    def _of(cls, facts: Any) -> Certificate:
        """What JSON says, as a certificate."""
        return _parsed(facts)


def _seal(facts: Mapping[str, Any]) -> str:
    """The SHA-256 of all that a certificate says, whatever the order and spacing of its text."""
    said = {name: fact for name, fact in facts.items() if name != "seal"}
    return digest(json.dumps(said, sort_keys=True, separators=(",", ":")).encode())


def _parsed(facts: Mapping[str, Any]) -> Certificate:
    if facts["format"] != FORMAT:
        raise ValueError(f"its format is not '{FORMAT}'")
    if facts["seal"] != _seal(facts):
        raise ValueError("it was altered: its seal does not fit the rest")
    if facts["objective"] not in OBJECTIVES:
        raise ValueError(f"its objective is not one of {', '.join(OBJECTIVES)}")
    limits = facts["boundary"]
    layouts = {name: (str(source), str(target)) for name, (source, target) in limits["layouts"].items()}
    return Certificate(
        str(facts["source"]),
        str(facts["model"]),
        None if facts["data"] is None else str(facts["data"]),
        str(facts["name"]),
        facts["objective"],
        str(facts["target"]),
        str(facts["table"]),
        int(facts["opset"]),
        Boundary(_ends(limits["inputs"]), _ends(limits["outputs"]), layouts),
        tuple(_row(text) for text in facts["rows"]),
        Price(**{name: int(count) for name, count in facts["price"].items()}),
        tuple(map(int, facts["charged"])),
        tuple(map(int, facts["unseen"])),
        tuple(_bound(each) for each in facts["bounds"]),
        _reading(facts["reading"]),
        str(facts["version"]),
        str(facts["options"]),
    )


def _row(text: str) -> CertifiedRow:
    layouts, way, title = text.split(" : ", 2)
    return CertifiedRow(title, tuple(map(layout_of, layouts.split(" | "))), int(way))


def _bound(facts: Mapping[str, Any]) -> Bound:
    proof = None if facts["proof"] is None else tree_of(facts["proof"])
    return Bound(tuple(map(str, facts["tier"])), int(facts["bound"]), proof)


def _reading(facts: Mapping[str, Any]) -> Reading:
    shapes = {str(name): tuple(map(int, shape)) for name, shape in facts["shapes"].items()}
    said = facts["storage"]
    found: dict[str, Any] = {name: said[name] is True for name in FLAGS}
    found |= {name: int(said[name]) for name in COUNTS}
    storage = Storage(weights=_weights(said["weights"]), **found)
    steps = facts["dynamic"]
    dynamic = None if steps is None else Dynamic(int(steps["tensor"]), int(steps["rows"]))
    asked = str(facts["custom"]), str(facts["signature"]), shapes, facts.get("max_size")
    return Reading(
        *asked, storage, str(facts["quant"]), dynamic, str(facts["weights"]), str(facts["initializer_inputs"])
    )


def _weights(said: Any) -> WeightStorage:
    return WEIGHTS[WEIGHTS.index(said)]


def _ends(facts: Any) -> Ends:
    if isinstance(facts, str):
        return facts
    return {name: said if isinstance(said, str) else (str(said[0]), str(said[1])) for name, said in facts.items()}
