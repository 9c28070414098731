"""Draws lines of a terminal, with their colours, as an SVG."""

from __future__ import annotations

import re
from html import escape

TEXT, GREY, BACKGROUND = "#d7dae0", "#7f848e", "#1e222a"
COLOURS = {
    "31": "#e06c75",
    "32": "#98c379",
    "33": "#e5c07b",
    "34": "#61afef",
    "35": "#c678dd",
    "36": "#56b6c2",
}
WIDTH, LINE, TOP, LEFT = 930, 19, 44, 16
BUTTONS = zip((20, 38, 56), ("#e06c75", "#e5c07b", "#98c379"), strict=True)


def svg(lines: list[str], label: str) -> str:
    """Returns the picture. It has no script, no font of its own and no link."""
    height = TOP + LINE * len(lines)
    rows = (
        f'<text x="{LEFT}" y="{TOP + LINE * number}" xml:space="preserve">{_spans(line)}</text>'
        for number, line in enumerate(lines)
    )
    buttons = "".join(f'<circle cx="{x}" cy="16" r="5" fill="{colour}"/>' for x, colour in BUTTONS)
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
            f'viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}">',
            f'<rect width="{WIDTH}" height="{height}" rx="8" fill="{BACKGROUND}"/>',
            buttons,
            '<g font-family="ui-monospace, Menlo, Consolas, monospace" font-size="14">',
            *rows,
            "</g>",
            "</svg>",
            "",
        )
    )


def _spans(line: str) -> str:
    """One span for each run of characters of one colour."""
    spans, colour = [], TEXT
    for piece in re.split(r"(\x1b\[[0-9;]*m)", line):
        if piece.startswith("\x1b"):
            codes = piece[2:-1].split(";")
            named = [COLOURS[code] for code in codes if code in COLOURS]
            colour = named[0] if named else GREY if "2" in codes else TEXT
        elif piece:
            spans.append(f'<tspan fill="{colour}">{escape(piece, quote=False)}</tspan>')
    return "".join(spans)
