"""The small changes that can be made to a module."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
LONGEST = 110


@dataclass(frozen=True, slots=True)
class Change:
    """One small change to a module."""

    line: int
    where: str
    """The function, class, field or constant it is in; empty at the top."""
    words: str
    """What was there and what is there now."""
    node: int
    """Which node of the tree it replaces, in the order of `ast.walk`."""
    new: ast.AST

    def made(self, source: str) -> ast.Module:
        """Return the tree of a module with this change made."""
        tree = ast.parse(source)
        _Swap(list(ast.walk(tree))[self.node], self.new).visit(tree)
        return ast.fix_missing_locations(tree)


class _Swap(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        if node is self._old:
            return ast.copy_location(self._new, node)
        return self.generic_visit(node)


def changes_of(source: str) -> list[Change]:
    """Return all changes that can be made to a module, in the order of its lines."""
    tree = ast.parse(source)
    places = dict(_places(tree, ""))
    found = [
        Change(line, places[node], f"{_shown(node)}  →  {_shown(new)}", number, new)
        for number, node in enumerate(ast.walk(tree))
        if node in places and (line := getattr(node, "lineno", 0))
        for new in _instead_of(node)
    ]
    return sorted(found, key=lambda change: (change.line, change.node))


def _places(node: ast.AST, where: str) -> Iterator[tuple[ast.AST, str]]:
    """Yield what may be changed, and where it is: no notes to readers, types or decorators."""
    yield node, where
    inside = f"{where}.{_name_of(node)}".strip(".")
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params", "bases", "pattern"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _is_remark(child):
                yield from _places(child, inside)


def _name_of(node: ast.AST) -> str:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return name
        case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
            return name
    return ""


def _is_remark(node: ast.AST) -> bool:
    """Is it a docstring, an import, a message with values in it, or a note to a tool?"""
    match node:
        case ast.Import() | ast.ImportFrom() | ast.JoinedStr() | ast.keyword(arg="strict"):
            return True
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            # A number that has a name is a choice: a test that repeats it proves nothing.
            return name.startswith("__") or (name.isupper() and _is_number(value))
    return False


def _instead_of(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.stmt):
        yield from _other_statements(node)
    elif isinstance(node, ast.expr):
        yield from _other_expressions(node)


def _other_statements(node: ast.stmt) -> Iterator[ast.stmt]:
    match node:
        case ast.If(test=test, body=body, orelse=orelse) if not isinstance(test, ast.UnaryOp):
            yield ast.If(ast.UnaryOp(ast.Not(), test), body, orelse)
        case ast.Return(value=ast.expr() as value) if not _is_fixed(value):
            yield ast.Return(ast.Constant(None))
        case ast.Expr() | ast.AugAssign() | ast.Continue() | ast.Break() | ast.Raise():
            yield ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield ast.Pass()


def _other_expressions(node: ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.Compare(left=left, ops=[comparison], comparators=comparators):
            for other in COMPARISONS[type(comparison)]:
                yield ast.Compare(left, [other()], comparators)
        case ast.BoolOp(op=operator, values=values):
            yield ast.BoolOp(ast.Or() if isinstance(operator, ast.And) else ast.And(), values)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield operand
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in ARITHMETIC:
            yield ast.BinOp(left, ARITHMETIC[type(sign)](), right)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            yield ast.IfExp(test, orelse, body)
        case ast.Constant(value=value):
            yield from map(ast.Constant, _other_values(value))


def _other_values(value: object) -> Iterator[bool | int | float | str]:
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int | float):
        yield value + 1
        yield value - 1
    elif isinstance(value, str):
        yield "" if value else "x"


def _is_number(value: ast.expr) -> bool:
    """Is it a number, one that is worked out of others, or a table of nothing but numbers?"""
    if isinstance(value, ast.Dict):
        return bool(value.values) and all(map(_is_number, value.values))
    if isinstance(value, ast.BinOp):
        return _is_number(value.left) and _is_number(value.right)
    return isinstance(value, ast.Constant) and isinstance(value.value, int | float)


def _is_fixed(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and isinstance(value.value, bool | None)


def _shown(node: ast.AST) -> str:
    if isinstance(node, ast.If):
        return f"if {ast.unparse(node.test)}"
    words = " ".join(ast.unparse(ast.fix_missing_locations(node)).split())
    return words if len(words) <= LONGEST else words[: LONGEST - 1] + "…"
