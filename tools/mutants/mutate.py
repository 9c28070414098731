"""Which small mistakes could a program have: every one is a copy of it with one thing changed."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
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
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}

Change = Callable[[ast.AST], None]


@dataclass(frozen=True)
class Mutant:
    """One mistake: where it is and what it is."""

    line: int
    what: str
    tree: ast.Module
    number: int
    change: Change

    @property
    def text(self) -> str:
        """The whole program with the mistake."""
        twin = copy.deepcopy(self.tree)
        self.change(next(node for count, node in enumerate(ast.walk(twin)) if count == self.number))
        return ast.unparse(ast.fix_missing_locations(twin)) + "\n"


def mutants(source: str) -> Iterator[Mutant]:
    """Every mutant of a program."""
    tree = ast.parse(source)
    words = {id(word) for node in ast.walk(tree) for part in _types(node) for word in ast.walk(part)}
    for number, node in enumerate(ast.walk(tree)):
        if id(node) not in words:
            for what, change in _changes(node):
                yield Mutant(getattr(node, "lineno", 0), what, tree, number, change)


def normal(source: str) -> str:
    """A program as its mutants are written, so that a difference shows the mistake alone."""
    return ast.unparse(ast.parse(source)) + "\n"


def _types(node: ast.AST) -> Iterator[ast.AST]:
    """What is said about types and classes: mistakes there are the type checker's to find."""
    match node:
        case ast.AnnAssign(annotation=annotation) | ast.arg(annotation=ast.expr() as annotation):
            yield annotation
        case ast.FunctionDef(returns=ast.expr() as annotation):
            yield annotation
        case ast.ClassDef(keywords=keywords):
            yield from keywords


def _changes(node: ast.AST) -> Iterator[tuple[str, Change]]:
    match node:
        case ast.Compare(ops=ops):
            for place, op in enumerate(ops):
                for other in COMPARISONS.get(type(op), ()):
                    yield f"{type(op).__name__} becomes {other.__name__}", _compare(place, other)
        case ast.BoolOp(op=op, values=values):
            yield "and becomes or" if isinstance(op, ast.And) else "or becomes and", _swap_bool
            for place in range(len(values)):
                yield f"operand {place + 1} is left out", _drop_operand(place)
        case ast.BinOp(op=op) if type(op) in ARITHMETIC:
            yield f"{type(op).__name__} becomes {ARITHMETIC[type(op)].__name__}", _swap_operator
        case ast.UnaryOp(op=ast.Not()):
            yield "not is left out", _drop_not
        case ast.If() | ast.IfExp() | ast.While():
            yield "the condition is negated", _negate
        case ast.comprehension(ifs=ifs) if ifs:
            yield "the filter is left out", _drop_filter
        case ast.Call(keywords=keywords):
            for place, keyword in enumerate(keywords):
                if keyword.arg is not None:
                    yield f"argument {keyword.arg} is left out", _drop_keyword(place)
        case ast.Return(value=value) if value is not None and not _is_none(value):
            yield "None is returned", _return_none
        case ast.Constant(value=value) if _counts(value):
            yield from _constants(value)
        case ast.FunctionDef() | ast.For():
            yield from _statements(node)


def _statements(node: ast.FunctionDef | ast.For) -> Iterator[tuple[str, Change]]:
    """Statements whose absence leaves a program that still makes sense."""
    for place, one in enumerate(node.body):
        is_text = isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)
        if isinstance(one, ast.Expr | ast.AugAssign | ast.If | ast.Raise | ast.For) and not is_text:
            yield f"line {one.lineno} is left out", _drop_statement(place)


def _constants(value: object) -> Iterator[tuple[str, Change]]:
    if isinstance(value, bool):
        yield f"{value} becomes {not value}", _constant(not value)
    elif isinstance(value, int | float):
        yield f"{value} becomes {value + 1}", _constant(value + 1)
        yield f"{value} becomes {value - 1}", _constant(value - 1)


def _counts(value: object) -> bool:
    return isinstance(value, bool | int | float)


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _compare(place: int, other: type[ast.cmpop]) -> Change:
    def change(node: ast.AST) -> None:
        assert isinstance(node, ast.Compare)
        node.ops[place] = other()

    return change


def _drop_operand(place: int) -> Change:
    def change(node: ast.AST) -> None:
        assert isinstance(node, ast.BoolOp)
        del node.values[place]

    return change


def _drop_keyword(place: int) -> Change:
    def change(node: ast.AST) -> None:
        assert isinstance(node, ast.Call)
        del node.keywords[place]

    return change


def _drop_statement(place: int) -> Change:
    def change(node: ast.AST) -> None:
        assert isinstance(node, ast.FunctionDef | ast.For)
        node.body[place] = ast.Pass()

    return change


def _constant(value: bool | int | float) -> Change:
    def change(node: ast.AST) -> None:
        assert isinstance(node, ast.Constant)
        node.value = value

    return change


def _swap_bool(node: ast.AST) -> None:
    assert isinstance(node, ast.BoolOp)
    node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()


def _swap_operator(node: ast.AST) -> None:
    assert isinstance(node, ast.BinOp)
    node.op = ARITHMETIC[type(node.op)]()


def _drop_not(node: ast.AST) -> None:
    # Twice not is what an absent one means, and keeps the node in its place.
    assert isinstance(node, ast.UnaryOp)
    node.operand = ast.UnaryOp(ast.Not(), node.operand)


def _negate(node: ast.AST) -> None:
    assert isinstance(node, ast.If | ast.IfExp | ast.While)
    node.test = ast.UnaryOp(ast.Not(), node.test)


def _drop_filter(node: ast.AST) -> None:
    assert isinstance(node, ast.comprehension)
    node.ifs = []


def _return_none(node: ast.AST) -> None:
    assert isinstance(node, ast.Return)
    node.value = ast.Constant(None)
