"""Style checker: docstring openers, parameter descriptions, banned words, error messages and commit subjects.

Run by ``make style``. The counts in ``.ci/style.json`` are a ratchet: a count that grows fails, and ``--update`` stores
counts that fell. ``--list KIND [PATH ...]`` prints the places of a kind.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).resolve().parent.parent
COUNTS = ROOT / ".ci" / "style.json"
PRODUCT = ("optimizer", "udfs", "vista_spark", "cerebro_spark")
OTHERS = ("tests", "benchmarks", "examples", ".ci")

QUESTION = {
    *("what", "who", "whoever", "whose", "whom", "where", "how", "whether", "which", "when", "why"),
    *("of", "as", "from", "if", "that"),
}
VAGUE = {
    *("give", "gives", "tell", "tells", "note", "notes", "hold", "holds", "say", "says", "know", "knows"),
    *("all", "one", "each", "every", "its", "their", "things", "something", "somebody"),
}
# Words that only this project uses in these senses, or that hide the subject of a sentence.
BANNED = re.compile(
    r"\b(whoever|somebody|nobody|anybody|front rooms?|mend(?:s|ed|ing)?|became of|becomes of|"
    r"nothing more|for want of|no more than|the house|house rules?|apiece|beside each other)\b",
    re.IGNORECASE,
)
BANNED_NAMES = {"own", "one", "found", "given", "held", "taken", "of", "which"}
# "threads=0: a whole number above 0" instead of "threads must be a positive integer, got 0".
BAD_ERROR = re.compile(
    r"^(?:[\w.]*=?\{\}|[\w.]+=\S*|[\w.]+): |^(?:no|not|nothing|neither|what|who|where|how)\b", re.IGNORECASE
)
# "where" is an argument too: "where of x must be a function, got 3."
GOOD_ERROR = re.compile(r"^[\w. {}]+ must \w")
SECTIONS = {"Parameters", "Returns", "Yields", "Attributes", "Other Parameters"}
SUBJECT = re.compile(r"^[\w., /-]+: [^A-Z\s].*[^.]$")
KINDS = {
    "question": "docstring of a function or class opens with a question word or a preposition",
    "module": "module docstring opens with a question word or a preposition",
    "vague": "docstring opens with a vague word",
    "of": "parameter or return description starts with 'Of'",
    "empty": "parameter or return description is missing",
    "banned": "banned word in a docstring, a comment or a string",
    "name": "function, parameter or variable has a banned name",
    "error": "error message does not follow '<argument> must be <requirement>, got <value>.'",
}


@dataclass(frozen=True)
class Finding:
    """One violation: its kind, its place and the offending text."""

    kind: str
    path: str
    line: int
    text: str


def first_word(text: str) -> str:
    """Return the first word of a docstring in lower case."""
    match = re.match(r"\W*([A-Za-z']+)", text)
    return match[1].lower() if match else ""


def sections(doc: str) -> Iterator[tuple[str, int, list[str]]]:
    """Split a numpy docstring into ``(section, first line, lines)``."""
    lines = doc.splitlines()
    heads = [
        at
        for at in range(len(lines) - 1)
        if re.fullmatch(r"[A-Z][A-Za-z ]+", lines[at].strip()) and re.fullmatch(r"-{3,}", lines[at + 1].strip())
    ]
    for at, end in pairwise([*heads, len(lines)]):
        yield lines[at].strip(), at + 2, lines[at + 2 : end]


def descriptions(doc: str) -> Iterator[tuple[int, str, str]]:
    """Yield ``(line, entry, description)`` of each entry in the parameter-like sections."""
    for name, start, lines in sections(doc):
        if name not in SECTIONS:
            continue
        filled = [line for line in lines if line.strip()]
        if not filled:
            continue
        margin = min(len(line) - len(line.lstrip()) for line in filled)
        entry, at, body = "", 0, []
        for number, line in enumerate(lines):
            if line.strip() and len(line) - len(line.lstrip()) == margin:
                if entry:
                    yield at, entry, " ".join(body).strip()
                entry, at, body = line.strip(), start + number, []
            else:
                body.append(line.strip())
        if entry:
            yield at, entry, " ".join(body).strip()


def message_of(call: ast.expr | None) -> str | None:
    """Return the literal text of a raised error, with ``{}`` for each value."""
    if not isinstance(call, ast.Call) or not call.args:
        return None
    match call.args[0]:
        case ast.Constant(value=str() as text):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in parts)
    return None


def names_of(node: ast.AST) -> Iterator[str]:
    """Yield the names that a node introduces."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.arg(arg=name):
            yield name
        case ast.Name(id=name, ctx=ast.Store()):
            yield name


def docstring_findings(path: str, node: ast.AST) -> Iterator[Finding]:
    """Check the docstring of a module, class or function."""
    doc = ast.get_docstring(node, clean=True)  # type: ignore[arg-type]
    if not doc:
        return
    line = 1 if isinstance(node, ast.Module) else node.lineno  # type: ignore[attr-defined]
    opener, head = first_word(doc), doc.splitlines()[0]
    if opener in QUESTION:
        yield Finding("module" if isinstance(node, ast.Module) else "question", path, line, head)
    if opener in VAGUE:
        yield Finding("vague", path, line, head)
    for at, entry, text in descriptions(doc):
        if not text:
            yield Finding("empty", path, line + at, entry)
        elif re.match(r"Of\b", text):
            yield Finding("of", path, line + at, f"{entry}: {text[:60]}")


def file_findings(path: Path) -> Iterator[Finding]:
    """Check one Python file."""
    name, source = str(path.relative_to(ROOT)), path.read_text()
    tree = ast.parse(source)
    product = name.startswith(PRODUCT)
    for node in ast.walk(tree):
        if product and isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from docstring_findings(name, node)
        if product:
            for word in names_of(node):
                if word in BANNED_NAMES:
                    yield Finding("name", name, node.lineno, word)  # type: ignore[attr-defined]
        if product and isinstance(node, ast.Raise):
            message = message_of(node.exc)
            if message and BAD_ERROR.search(message) and not GOOD_ERROR.search(message):
                yield Finding("error", name, node.lineno, message[:100])
    if not name.startswith(".ci"):
        for number, line in enumerate(source.splitlines(), 1):
            yield from (
                Finding("banned", name, number, f"{match[0]}: {line.strip()[:90]}") for match in BANNED.finditer(line)
            )


def prose_findings(path: Path) -> Iterator[Finding]:
    """Check one Markdown file for banned words."""
    name = str(path.relative_to(ROOT))
    for number, line in enumerate(path.read_text().splitlines(), 1):
        yield from (
            Finding("banned", name, number, f"{match[0]}: {line.strip()[:90]}") for match in BANNED.finditer(line)
        )


def all_findings(paths: Iterable[str]) -> list[Finding]:
    """Check the files below some paths, or the whole tree if there are none."""
    roots = [Path(path).resolve() for path in paths] or [ROOT / top for top in (*PRODUCT, *OTHERS, "docs")] + sorted(
        ROOT.glob("*.md")
    )
    files = {file for root in roots for file in ([root] if root.is_file() else root.rglob("*.*"))}
    # Decisions and the migration table quote former names.
    kept = sorted(file for file in files if file.name not in {"decisions.md", "migration.md"})
    return [
        *(finding for file in kept if file.suffix == ".py" for finding in file_findings(file)),
        *(finding for file in kept if file.suffix == ".md" for finding in prose_findings(file)),
    ]


def check_subject(file: Path) -> int:
    """Validate the first line of a commit message."""
    subject = file.read_text().splitlines()[0]
    if subject.startswith(("Merge ", "Revert ", "fixup! ", "squash! ")):
        return 0
    if len(subject) > 72 or not SUBJECT.match(subject):
        sys.stderr.write(
            f"commit subject must be 'area: imperative sentence' of at most 72 characters, got {subject!r}.\n"
        )
        return 1
    return 0


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", help="files or folders; the whole tree by default")
    parser.add_argument("--list", dest="kind", choices=[*KINDS, "any"], help="print the places of a kind")
    parser.add_argument("--update", action="store_true", help="store counts that fell")
    parser.add_argument("--subject", type=Path, help="file with a commit message to check")
    options = parser.parse_args()
    if options.subject:
        return check_subject(options.subject)
    findings = all_findings(options.paths)
    if options.kind:
        for finding in findings:
            if options.kind in {finding.kind, "any"}:
                print(f"{finding.path}:{finding.line}: {finding.kind}: {finding.text}")
        return 0
    counts = Counter(finding.kind for finding in findings)
    stored = json.loads(COUNTS.read_text()) if COUNTS.exists() else {}
    if options.paths:
        stored = {}
    grown = [kind for kind in KINDS if kind in stored and counts[kind] > stored[kind]]
    for kind, meaning in KINDS.items():
        limit = f" (at most {stored[kind]})" if kind in stored else ""
        print(f"{counts[kind]:6} {kind:9} {meaning}{limit}")
    if options.update and not options.paths:
        COUNTS.write_text(
            json.dumps({kind: min(counts[kind], stored.get(kind, counts[kind])) for kind in KINDS}, indent=2) + "\n"
        )
    if grown:
        sys.stderr.write(f"style counts must not grow: {', '.join(grown)}. Print them with --list KIND.\n")
    return bool(grown)


if __name__ == "__main__":
    sys.exit(main())
