"""Words that must not stand in file names, documentation, messages and docstrings, each with the field's word.

`python -m tests.words` prints how often each of them stands where; `python -m tests.words -v` prints every place; names
of places or files select.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
ROOMS = ("layoutsolve", "frontend", "solver", "emit")

WORDS: Mapping[str, Sequence[str]] = {
    "int8, uint8, quantized": (
        r"(?<!number )(?<!amount )(?<!budget )\b(?:[Oo]f|[Oo]n) bytes\b(?! objects)",
        r"\bfloats? (?:by|and|or|to) (?:weights of )?bytes\b|\bbetween bytes\b|\bbytes by weights\b",
        r"\b(?:reads?|gives?|into) bytes\b(?! \d)|\b(?:those|they) are bytes\b|\bmultip(?:ly|lies) bytes\b",
        r"\|\s*bytes\s*\|",
        r"\bnumbers of (?:\d+|8 and 16|4 or 16) bits\b|\b[Qq]uanti[sz]ed numbers\b",
    ),
    "float, dequantized value": (r"\breal numbers?\b|\breal values?\b",),
    "elements, values": (r"\b(?:other|same) numbers (?:than|as)\b|% of (?:its|the) numbers\b",),
    "LSB": (
        r"\b(?:one|two|half a|quarter of a|a|\d+|nearest|neighbouring) (?:quantization )?steps?"
        r" (?:off|from|apart|beyond|per operator|of (?:LiteRT|both|their|its own|what))\b",
        r"\bwithin (?:one|a|two|half a) steps?\b|\bneighbouring steps?\b|\bnearest steps?\b",
    ),
    "round half up, ties": (r"\bhalves (?:otherwise|of a step)\b",),
    "signed, unsigned; int8, uint8": (r"\bwith(?:out)? a sign\b|\bno sign\b|\btheir sign\b|\bof unlike signs\b",),
    "fully-connected": (r"\bdense layers?\b",),
    "reference kernels": (r"\bplain (?:TensorFlow Lite |LiteRT )?kernels\b",),
    "mean error within 1.1x of XNNPACK's": (r"\bas far off as LiteRT's\b",),
    "diverge, first diverging operator": (r"\bdepart(?:s|ed|ure)?\b",),
    "initializer": (
        r"\bconstants? (?:in|beside) (?:a |an|other |its |of their )*(?:files?|own)\b",
        r"\bconstants? (?:that are )?stored\b|\bcop(?:y|ies) of constants?\b|\bbytes of constants?\b",
    ),
    "graph inputs and outputs": (
        r"\b(?:the|free|all|other|moved|their|its|both|which|what|how) ends\b(?! (?:at|in|with|up|of their range)\b)",
        r"\bends (?:are|of (?:the|a) (?:model|graph))\b|\b(?:each|every|an|no) end\b(?! of)",
    ),
    "constant folding": (r"\b(?:known|computed|folded) (?:ahead|before(?:hand| (?:it|they|the model) runs?))\b",),
    "optimisation barrier": (r"\bguards?\b",),
    "dynamic (symbolic) shape": (
        r"\bsizes that depend on\b|\bopen (?:sizes?|ones?)\b|\bsizes (?:that|which) have names\b|\bof unknown sizes?\b",
    ),
    "subgraph": (r"\bregions?\b",),
    "iteration; permutation, transposition": (r"(?<!in )\bturns?\b(?! (?:on|off|into)\b)",),
    "class of permutation": (r"\bmotions?\b",),
    "propagation": (r"\bflood(?:s|ed|ing)?\b",),
    "alternative": (
        r"\bways? to run\b|\bways of (?:an|each|running)\b",
        r"\brows? (?:of|for) (?:an|each|every|all|some|the|random) operators?\b|\brows (?:cost|there are)\b",
        r"\b(?:chosen|cheapest|possible|struck out|stated|other|an operator's) rows?\b",
    ),
    "layout penalty": (r"\bhidden (?:ones?|transpos\w*|Transposes?|in kernels)\b|\+ hidden\b",),
    "objective level": (r"\btiers?\b",),
    "conditional on the previous levels": (r"\bfor these (?:orders|layouts)\b",),
    "candidate generation, to a fixed point": (r"\bclosure\b",),
    "candidate limit": (r"\bcapped\b|\bcap on candidates\b|\bcandidate cap\b",),
    "dual value; candidate": (r"\boffers?\b|\boffered\b",),
    "reduced cost": (r"\bwhat is paid\b|\bpaid (?:back|beyond)\b",),
    "dominated alternatives removed, reduced-cost fixing": (r"\bstruck out\b",),
    "connected component": (r"\bhangs? together\b",),
    "exact conversion costs": (r"\bcharged\b",),
    "deterministic work limit": (r"\bcounted work\b",),
    "rejected": (r"\bout of the question\b",),
    "reports, describes, lists": (r"\btold\b|\btells?\b|\btelling\b",),
    "quantized, quantization": (r"\b\w*[Qq]uantis\w*",),
    "states, describes, shows": (r"\bsays?\b|\bsaid\b|\bsaying\b",),
}
"""By the field's word, patterns of what stands in its place."""

NAMES: Mapping[str, Sequence[str]] = {
    "local search, tie-breaking": ("exactly", "nearby", "near", "alike", "settle", "changing", "improved"),
    "size-1 dimensions; projection": ("brought", "units", "unseen", "shown"),
    "diagnostics; memo": ("told", "known", "said"),
    "passthrough; provenance; lazy_imports": ("kept", "made", "lean", "deferred"),
    "the inequality or the split": ("halts", "stops", "charged", "covered", "widened", "spare"),
    "batch; enumeration": ("many", "filler", "placer", "arranger"),
    "as in WORDS": ("ends", "bytes", "texts", "turns", "motions", "guards", "regions", "closure", "offers"),
}
"""By the field's word, words of file names that stand in its place."""

PATTERNS = [(re.compile("|".join(each)), better) for better, each in WORDS.items()]
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"``[^`\n]*``|`[^`\n]*`")
TARGET = re.compile(r"\]\([^)]*\)|<!--.*?-->|^\[[^\]]*\]: .*$", re.MULTILINE)
Place = Iterator[tuple[str, str]]


def pages() -> Place:
    """Prose of the documentation: pages without code, inline code and targets of links, lines joined."""
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))):
        text = TARGET.sub("]", CODE.sub("`", FENCE.sub("", page.read_text(encoding="utf-8"))))
        yield str(page.relative_to(ROOT)), re.sub(r"\n[ ]*(?=[^|\n#*])", " ", text)


def _sources(*folders: str) -> Iterator[tuple[Path, str]]:
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield path, str(path.relative_to(ROOT))


def _public(node: ast.Module | ast.ClassDef) -> Iterator[ast.Module | ast.ClassDef | ast.FunctionDef]:
    """Modules, classes and functions whose names have no leading underscore, and are in none that has one."""
    yield node
    for each in node.body:
        if isinstance(each, ast.ClassDef | ast.FunctionDef) and not each.name.startswith("_"):
            yield from _public(each) if isinstance(each, ast.ClassDef) else [each]


def docstrings() -> Place:
    """First lines of public docstrings."""
    for path, name in _sources(*ROOMS):
        for node in _public(ast.parse(path.read_text(encoding="utf-8"))):
            text = ast.get_docstring(node) or ""
            yield f"{name}:{getattr(node, 'lineno', 1)}", CODE.sub("`", text.partition("\n")[0])


def _literal(node: ast.expr) -> str:
    """The text of a string or formatted string, with `{}` for what is put in."""
    if isinstance(node, ast.JoinedStr):
        return "".join(_literal(each) for each in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else "{}"


def messages() -> Place:
    """String literals of several words, but docstrings: help, errors, summaries, verdicts."""
    for path, name in _sources(*ROOMS):
        skipped: set[int] = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                skipped.add(id(node.value))
            elif isinstance(node, ast.JoinedStr | ast.Constant) and id(node) not in skipped:
                skipped |= {id(each) for each in ast.walk(node)}
                text = _literal(node)
                if " " in text.strip():
                    yield f"{name}:{node.lineno}", CODE.sub("`", text)


PLACES = {"docs": pages, "messages": messages, "docstrings": docstrings}


def foreign(place: str) -> Iterator[tuple[str, str, str, str]]:
    """Where a word of WORDS stands: the place, the word, what is around it, and the field's word."""
    for where, text in PLACES[place]():
        for pattern, better in PATTERNS:
            for match in pattern.finditer(text):
                around = text[max(0, match.start() - 60) : match.end() + 40].replace("\n", " ")
                yield where, match[0], around, better


def foreign_names() -> Iterator[tuple[str, str, str, str]]:
    """File names of the package and the experiments with a word of NAMES."""
    for path, name in _sources(*ROOMS, "experiments"):
        for better, found in NAMES.items():
            yield from ((name, word, name, better) for word in path.stem.split("_") if word in found)


def main() -> None:
    """Print how often each word stands where, or every place."""
    chosen = [each for each in sys.argv[1:] if each != "-v"]
    total: list[str] = []
    for place in (*PLACES, "names"):
        found = [
            (where, word, around, better)
            for where, word, around, better in (foreign_names() if place == "names" else foreign(place))
            if not chosen or any(each == place or where.startswith(each) for each in chosen)
        ]
        total.append(f"{place} {len(found)}")
        if "-v" in sys.argv:
            lines = [f"{where}: {word} -> {better}: ...{around}..." for where, word, around, better in found]
        else:
            words, files = (Counter(each[at] for each in found) for at in (3, 0))
            files = Counter(where.partition(":")[0] for where in files.elements())
            lines = [f"{count:7} {each}" for each, count in (*words.most_common(), *files.most_common(20))]
        print(place, *lines, sep="\n")
    print(", ".join(total))


if __name__ == "__main__":
    main()
