"""The matrix as a table and as a picture: outputs down, inputs across; inputs that take the same share a column."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from matrix.cells import OF_FAMILIES, Cell
from matrix.inputs import Key

WHOLE, PART, REFUSED = "whole", "part", "refused"
Table = dict[Key, dict[str, str]]  # input, output: what becomes of it

_FAMILIES = {
    "tiny_dst": "TRACKER",
    "ft_t5": "ft_t5|pt_t5",
    "classifier": "classifier",
    "damd": "damd|soloist",
    "nearest": "BABI",
}
_SIZE, _LEFT, _FONT = 13, 150, 10
_LABEL = 250  # height of the labels above
# Colours of Okabe and Ito, and shapes that tell the same.
_MARKS = {
    WHOLE: '<circle id="whole" r="4.6" fill="#0072B2"/>',
    PART: '<path id="part" d="M0 -5L5 0L0 5L-5 0Z" fill="none" stroke="#D55E00" stroke-width="1.7"/>',
    REFUSED: '<path id="refused" d="M-2 -2L2 2M-2 2L2 -2" stroke="#a0a0a0"/>',
}
_LEGEND = {
    WHOLE: "runs: the output as a whole",
    PART: "runs: a part of it (a set, a variant, a file), but not the whole",
    REFUSED: "refused with a reason: the whole, and each part that was tried",
}


def is_shown(key: Key) -> bool:
    """Whether an input has a place: one model stands for each family, but each takes its own ``--model``."""
    command, action, flag = key
    return command not in ("train", "predict") or action in OF_FAMILIES or flag == "--model"


def table_of(cells: Iterable[Cell]) -> Table:
    """What becomes of each output at each input that is shown, see :func:`is_shown`."""
    table: Table = {}
    for cell in cells:
        if not is_shown(cell[2:5]):
            continue
        row = table.setdefault((cell.command, cell.action, cell.flag), {})
        before = row.get(cell.producer, REFUSED)
        if cell.status == 0:
            row[cell.producer] = before if before == WHOLE else PART if cell.relative else WHOLE
        else:
            row[cell.producer] = before
    return table


def label_of(key: Key) -> str:
    """``perturb --sgd``; ``evaluate dst --sets``; of a model that stands for its family the family's name."""
    command, action, flag = key
    if command in ("train", "predict") and flag != "--model":
        action = _FAMILIES[action]
    return " ".join(part for part in (command, action, flag) if part)


def summary_of(cells: Sequence[Cell], table: Table) -> dict[str, Any]:
    """What the documentation has: how many cells, and of each input the outputs that it takes."""
    ran = sum(cell.status == 0 for cell in cells)
    inputs = {
        label_of(key): {state: [name for name, of in sorted(row.items()) if of == state] for state in (WHOLE, PART)}
        for key, row in sorted(table.items())
    }
    return {"cells": len(cells), "ran": ran, "refused": len(cells) - ran, "inputs": inputs}


def columns_of(table: Mapping[Key, Mapping[str, str]]) -> list[tuple[list[Key], Mapping[str, str]]]:
    """Inputs that take the same outputs and parts, together; those that take most first."""
    alike: dict[tuple[tuple[str, str], ...], list[Key]] = {}
    for key, row in table.items():
        alike.setdefault(tuple(sorted(row.items())), []).append(key)
    columns = [(keys, dict(row)) for row, keys in alike.items()]
    return sorted(columns, key=lambda of: (-sum(state != REFUSED for state in of[1].values()), of[0]))


def svg_of(table: Table, outputs: Sequence[str]) -> str:
    """The picture."""
    columns = columns_of(table)
    width, height = _LEFT + len(columns) * _SIZE + 20, _LABEL + len(outputs) * _SIZE + 66
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="Helvetica, Arial, sans-serif" font-size="{_FONT}" role="img">',
        "<title>What fits where</title>",
        f"<desc>{len(outputs)} outputs of commands down, {len(table)} inputs across in {len(columns)} columns.</desc>",
        f"<defs>{''.join(_MARKS.values())}</defs>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for j, output in enumerate(outputs):
        y = _LABEL + j * _SIZE
        if j % 2 == 0:
            parts.append(f'<rect x="0" y="{y}" width="{width}" height="{_SIZE}" fill="#f4f4f4"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 10}" text-anchor="end">{escape(output)}</text>')
    for i, (keys, row) in enumerate(columns):
        x = _LEFT + i * _SIZE + _SIZE / 2
        more = f" +{len(keys) - 1}" if len(keys) > 1 else ""
        names = escape(", ".join(map(label_of, keys)))
        place = f'transform="translate({x + 3.5} {_LABEL - 6}) rotate(-90)"'
        parts.append(f"<text {place}>{escape(label_of(keys[0]))}{more}<title>{names}</title></text>")
        for j, output in enumerate(outputs):
            if state := row.get(output):
                parts.append(_mark(state, x, _LABEL + j * _SIZE + _SIZE / 2))
    for n, (state, text) in enumerate(_LEGEND.items()):
        y = height - 50 + n * 16
        parts += [_mark(state, _LEFT, y), f'<text x="{_LEFT + 12}" y="{y + 4}">{text}</text>']
    return "\n".join([*parts, "</svg>", ""])


def _mark(state: str, x: float, y: float) -> str:
    return f'<use href="#{state}" x="{x:g}" y="{y:g}"/>'
