"""An example as text, with its first link marked: the query, the right key and the rivals."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from rolecall.probes.base import Example, Positions
from rolecall.reports.visible import visible

MARKS = {
    "query": ("[[", "]]", "bold cyan"),
    "target": ("{{", "}}", "bold green"),
    "rival": ("<<", ">>", "magenta"),
}


def marked(example: Example, tokenizer: Any, *, link: int = 0) -> Text:
    """The example's text with one link marked."""
    chosen = example.links[link]
    role: dict[int, str] = {}
    for kind, spans in (
        ("rival", chosen.rivals),
        ("target", (chosen.target,)),
        ("query", (chosen.query,)),
    ):
        role |= {p: kind for span in spans for p in span}
    text = Text()
    position, length = 0, len(example.token_ids)
    while position < length:
        end = position + 1
        while end < length and role.get(end) is not None and role.get(end) == role.get(position):
            if not _joined(position, end, role[position], chosen.rivals):
                break
            end += 1
        piece = visible(tokenizer.decode(example.token_ids[position:end]))
        if _starts_word(tokenizer, example.token_ids[position]) and not piece.startswith(" "):
            piece = " " + piece
        if position in role:
            left, right, style = MARKS[role[position]]
            lead = " " if piece.startswith(" ") else ""
            text.append(lead).append(f"{left}{piece.lstrip(' ')}{right}", style=style)
        else:
            text.append(piece)
        position = end
    return text


def _joined(one: int, other: int, kind: str, rivals: tuple[Positions, ...]) -> bool:
    return kind != "rival" or any(one in rival and other in rival for rival in rivals)


def _starts_word(tokenizer: Any, token: int) -> bool:
    return str(tokenizer.convert_ids_to_tokens(token)).startswith(("▁", "Ġ"))
