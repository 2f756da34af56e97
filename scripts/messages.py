"""Collect every message that a user can read, out of the source, without running it.

    python scripts/messages.py > tests/contract/messages.txt

A message is the text of an error that is raised, of what a command prints, or of a help text. Parts
that are filled in are shown as `{…}`. The file is made to be read as a diff.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "cli_agent_orchestrator"
PRINTING = ("echo", "secho", "confirm", "prompt", "warn", "Line", "Setting", "option", "_tell")
"""Functions and classes whose texts a user reads."""
SHORTEST = 2
"""Words; shorter texts are names and formats."""
FILLED = "{…}"


def messages_of(path: Path) -> list[str]:
    """Return the messages of a module, in their order."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found: list[str] = []
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.stmt | ast.expr)]
    for node in sorted(nodes, key=lambda node: (node.lineno, node.col_offset)):
        match node:
            case ast.Raise(exc=ast.Call() as call):
                found += _texts(call)
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in PRINTING:
                found += _texts(node)
            case ast.FunctionDef(decorator_list=[_, *_]) if _is_command(node):
                found += filter(None, [ast.get_docstring(node)])
    return [one for one in found if len(one.split()) >= SHORTEST]


def _is_command(function: ast.FunctionDef) -> bool:
    decorators = (ast.unparse(one) for one in function.decorator_list)
    return any(".command(" in one or ".group(" in one for one in decorators)


def _texts(call: ast.Call) -> Iterator[str]:
    """Yield the texts among the arguments of a call; a list or an expression is looked into."""
    for argument in (*call.args, *(keyword.value for keyword in call.keywords)):
        yield from _parts(argument)


def _parts(node: ast.expr) -> Iterator[str]:
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(values=values):
            texts = (one.value if isinstance(one, ast.Constant) else FILLED for one in values)
            yield "".join(map(str, texts))
        case ast.BinOp() | ast.IfExp() | ast.BoolOp() | ast.Tuple() | ast.List():
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    yield from _parts(child)


def collect() -> str:
    """Return all messages, module by module, each once."""
    parts = []
    for path in sorted(SOURCE.rglob("*.py")):
        found = dict.fromkeys(messages_of(path))
        if found:
            texts = (text.replace("\b", "").splitlines() for text in found)
            rows = ("\n    ".join(filter(str.strip, lines)) for lines in texts)
            parts.append("\n".join([str(path.relative_to(SOURCE)), *(f"  {row}" for row in rows)]))
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    sys.stdout.write(collect())
