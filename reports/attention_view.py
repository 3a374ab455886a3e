"""One example as a head sees it: tokens with arcs, or a matrix, as SVG for pages and notebooks.

The link's query, its right key and its rivals are marked; every arc and cell tells its number on
hover. Long texts are cut to a window, with "…" for what is left out. Takes plain lists, no tensors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Any

from rolecall.reports.visible import shortened, token_name, token_text, visible

MOST_TOKENS = 40
"""More tokens than this are cut to a window."""

STRONGEST = 8
"""So many of the keys with most attention are always in the window."""

FAINTEST = 0.02
"""Attention below it gets no arc and no cell."""

COLOURS = {
    "query": "var(--query, #0072B2)",
    "target": "var(--target, #00805d)",
    "rival": "var(--rival, #B3408A)",
    "other": "var(--faint, #7a828a)",
}
WORDS = {"target": "right key", "rival": "rival", "query": "query", "other": ""}


@dataclass(frozen=True)
class Seen:
    """One example and one head's attention on it.

    Attributes:
        head: Its name, `L5H1`.
        tokens: The text of each token, blanks included.
        pattern: Attention, [query][key]; rows may be empty for queries that were not kept.
        query: Positions of the link's query.
        target: Positions of the right key.
        rivals: Positions of each rival.
        caption: What the example is.

    Raises:
        ValueError: The parts do not fit each other, or a weight is no share.
    """

    head: str
    tokens: tuple[str, ...]
    pattern: tuple[tuple[float, ...], ...]
    query: tuple[int, ...] = ()
    target: tuple[int, ...] = ()
    rivals: tuple[tuple[int, ...], ...] = ()
    caption: str = ""

    def __post_init__(self) -> None:
        n = len(self.tokens)
        if not n or len(self.pattern) != n:
            raise ValueError(f"{n} tokens, but {len(self.pattern)} rows of attention")
        for position in {*self.query, *self.target, *(p for rival in self.rivals for p in rival)}:
            if not 0 <= position < n:
                raise ValueError(f"position {position} is not among the {n} tokens")
        longest = max(map(len, self.pattern))
        if longest > n:
            raise ValueError(f"a row has {longest} weights for {n} tokens")
        for weight in (weight for row in self.pattern for weight in row):
            if not 0 <= weight <= 1:
                raise ValueError(f"attention should be from 0 to 1, not {weight}")
        for position in self.looking:
            if not self.pattern[position]:
                raise ValueError(f"there is no attention from the query, position {position}")

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Seen:
        """What a file of `attention/` holds of one example.

        Raises:
            ValueError: Something is missing, of another kind, or does not fit the tokens.
        """
        try:
            return cls(
                head=_text(stored["head"]),
                tokens=tuple(map(_text, _listed(stored["tokens"]))),
                pattern=tuple(
                    tuple(map(_number, _listed(row))) for row in _listed(stored["pattern"])
                ),
                query=_positions(stored.get("query", ())),
                target=_positions(stored.get("target", ())),
                rivals=tuple(map(_positions, _listed(stored.get("rivals", ())))),
                caption=_text(stored.get("caption", "")),
            )
        except KeyError as error:
            raise ValueError(f"this is no stored attention: it has no {error.args[0]!r}") from None
        except ValueError as error:
            raise ValueError(f"this is no stored attention: {error}") from None

    @property
    def looking(self) -> tuple[int, ...]:
        """Positions of the query, or the last token's where no query is named."""
        return self.query or (len(self.tokens) - 1,)

    def kind(self, position: int) -> str:
        """`target`, `rival`, `query` or `other`."""
        if position in self.target:
            return "target"
        if any(position in rival for rival in self.rivals):
            return "rival"
        return "query" if position in self.query else "other"

    def row(self) -> tuple[float, ...]:
        """Attention from the query: the mean over its positions, or the last token's if none."""
        rows = [self.pattern[q] for q in self.looking]
        width = max(map(len, rows), default=0)
        padded = [[*row, *[0.0] * (width - len(row))] for row in rows]
        return tuple(sum(column) / len(rows) for column in zip(*padded, strict=True))


@dataclass(frozen=True)
class AttentionView:
    """What a notebook shows of a `Seen`: its text, and arcs (or a matrix)."""

    seen: Seen
    matrix: bool = False

    def _repr_html_(self) -> str:
        drawing = attention_matrix(self.seen) if self.matrix else attention_arcs(self.seen)
        said = escape(visible(f"{self.seen.head} {self.seen.caption}"))
        caption = f"<figcaption><bdi>{said}</bdi></figcaption>"
        return f"<figure>{caption}{marked_words(self.seen)}{drawing}</figure>"


def attention_views(stored: Iterable[Mapping[str, Any]], *, matrix: bool = False) -> Views:
    """What a notebook shows of stored or fresh examples, one below the other.

    Args:
        stored: From `stored_samples.samples_of_head`, or
            `rolecall.analyses.attention_sample.look_at_text`.
        matrix: The whole pattern instead of arcs.

    Raises:
        ValueError: An entry is no stored attention.
    """
    return Views(tuple(AttentionView(Seen.of(entry), matrix) for entry in stored))


@dataclass(frozen=True)
class Views:
    """Several views in a notebook's cell."""

    views: tuple[AttentionView, ...]

    def _repr_html_(self) -> str:
        return "".join(view._repr_html_() for view in self.views)


def window(seen: Seen, most: int = MOST_TOKENS) -> list[int]:
    """The positions to show, in order: all, or at most so many.

    First of all the query and the keys with most attention, then the right key, the rivals and the
    first token, and what stands nearest to these.
    """
    n = len(seen.tokens)
    if n <= most:
        return list(range(n))
    row = seen.row()

    def strongest(positions: Iterable[int]) -> list[int]:
        return sorted(positions, key=lambda p: (-row[p] if p < len(row) else 0.0, p))

    keys = [p for p in strongest(range(len(row)))[:STRONGEST] if row[p] >= FAINTEST]
    rivals = strongest(p for rival in seen.rivals for p in rival)
    first = [seen.looking[-1], *keys[:1], *strongest(seen.target), *keys, *seen.query, *rivals, 0]
    anchors = list(dict.fromkeys(first))
    nearness = sorted(range(n), key=lambda p: (min(abs(p - a) for a in anchors), p))
    return sorted([*dict.fromkeys([*anchors, *nearness])][:most])


def with_gaps(shown: Sequence[int], n: int) -> list[int | range]:
    """The positions shown of `n`, and between them the ranges of those that are not."""
    found: list[int | range] = []
    for before, position in pairwise([-1, *shown, n]):
        if position > before + 1:
            found.append(range(before + 1, position))
        found.append(position)
    return found[:-1]


def marked_words(seen: Seen, most: int = MOST_TOKENS * 3) -> str:
    """The text as HTML, the query, the right key and the rivals in `<mark>`s of their own."""
    slots = with_gaps(window(seen, most), len(seen.tokens))
    words = (" … " if isinstance(slot, range) else _word(seen, slot) for slot in slots)
    return f'<p class="words" dir="auto">{"".join(words)}</p>'


def _word(seen: Seen, position: int) -> str:
    token = seen.tokens[position]
    text, kind = escape(token_text(token)), seen.kind(position)
    if kind == "other":
        return text
    blank = " " if token.startswith(" ") else ""
    style = f"background:none;color:inherit;border-bottom:2px solid {COLOURS[kind]}"
    mark = f'<mark class="{kind}" style="{style}" title="{WORDS[kind]}">{text.lstrip(" ")}</mark>'
    return blank + mark


def attention_arcs(seen: Seen, *, most: int = MOST_TOKENS) -> str:
    """An SVG of the tokens in a row, with an arc from the query to each key it attends to."""
    row, slots = seen.row(), with_gaps(window(seen, most), len(seen.tokens))
    x = [16 + 19 * i for i in range(len(slots))]
    place = {slot: at for slot, at in zip(slots, x, strict=True) if isinstance(slot, int)}
    start = place[seen.looking[-1]]
    weights = {p: row[p] for p in place if p < len(row) and row[p] >= FAINTEST}
    tall = max((_lift(start - place[p]) for p in weights), default=20.0) * 0.75 + 12
    names = {p: shortened(token_name(seen.tokens[p])) for p in place}
    deep = 12 + 4.9 * max(map(len, names.values()))
    parts = [
        _arc(seen, p, weight, ends=(start, place[p]), base=tall)
        for p, weight in sorted(weights.items(), key=lambda item: item[1])
    ]
    for slot, at in zip(slots, x, strict=True):
        if isinstance(slot, range):
            parts.append(_gap(slot, at=(at, tall + 9), tip=_unseen(slot, row)))
        else:
            weight = row[slot] if slot < len(row) else None
            parts.append(_token(seen, slot, names[slot], at=(at, tall + 5), weight=weight))
    return _svg(parts, size=(28 + 19 * len(slots), tall + deep), label=summary(seen))


def attention_matrix(seen: Seen, *, most: int = MOST_TOKENS) -> str:
    """An SVG of the whole pattern, queries down and keys across; the link's cells are framed."""
    slots = with_gaps(window(seen, most), len(seen.tokens))
    names = [
        "…" if isinstance(slot, range) else shortened(token_name(seen.tokens[slot]))
        for slot in slots
    ]
    margin = 10 + 5.2 * max(map(len, names))
    side = 13
    size = margin + side * len(slots) + 6
    starts = [margin + side * i for i in range(len(slots))]
    parts = []
    for slot, name, y in zip(slots, names, starts, strict=True):
        kept = isinstance(slot, range) or bool(seen.pattern[slot])
        parts.append(_labels(name, at=y, margin=margin, kept=kept))
        if isinstance(slot, range):
            parts.append(_crossing(slot, at=y + side / 2, ends=(margin, size - 6)))
            continue
        for key, x in zip(slots, starts, strict=True):
            if isinstance(key, range):
                continue
            weight = seen.pattern[slot][key] if key < len(seen.pattern[slot]) else 0.0
            linked = slot in seen.query and seen.kind(key) in ("target", "rival")
            if weight >= FAINTEST or linked:
                parts.append(_cell(seen, slot, key, weight, at=(x, y), side=side, linked=linked))
    return _svg(parts, size=(size, size), label=summary(seen))


def summary(seen: Seen) -> str:
    """The head's attention from the query in words, largest first."""
    row = seen.row()
    order = sorted(range(len(row)), key=lambda p: (-row[p], p))[:4]
    said = [
        f"{row[p]:.2f} to ‘{token_name(seen.tokens[p])}’"
        + (f" ({WORDS[seen.kind(p)]})" if WORDS[seen.kind(p)] else "")
        for p in order
        if row[p] >= FAINTEST
    ]
    named = token_name(seen.tokens[seen.looking[-1]])
    return f"{visible(seen.head)} from ‘{named}’: {', '.join(said) or 'nothing'}"


def _listed(value: Any) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        raise ValueError(f"a list is wanted where {value!r:.40} stands")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"text is wanted where {value!r:.40} stands")
    return value


def _number(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ValueError(f"a number is wanted where {value!r:.40} stands")
    return float(value)


def _positions(value: Any) -> tuple[int, ...]:
    for position in _listed(value):
        if not isinstance(position, int) or isinstance(position, bool):
            raise ValueError(f"a token's position is wanted where {position!r:.40} stands")
    return tuple(value)


def _unseen(gap: range, row: Sequence[float]) -> str:
    """How many tokens are left out, and what they get of the attention."""
    inside = sum(row[p] for p in gap if p < len(row))
    return f"{len(gap)} tokens not shown: {inside:.3f} in all"


def _gap(gap: range, *, at: tuple[float, float], tip: str) -> str:
    x, y = at
    said = f"…<title>{escape(tip)}</title>"
    return f'<text class="gap" x="{x:.0f}" y="{y:.0f}" text-anchor="middle">{said}</text>'


def _crossing(gap: range, *, at: float, ends: tuple[float, float]) -> str:
    """A dotted line down and one across, where queries and keys are left out."""
    low, high = ends
    path = f"M{low:.0f} {at:.0f}H{high:.0f}M{at:.0f} {low:.0f}V{high:.0f}"
    return (
        f'<path class="gap" d="{path}" stroke="currentColor" stroke-dasharray="1 3" opacity=".6">'
        f"<title>{len(gap)} tokens not shown</title></path>"
    )


def _labels(name: str, *, at: float, margin: float, kept: bool) -> str:
    """A token's name at its row and at its column; a row that was not kept says so."""
    said = escape(name)
    faint = "" if kept else ' opacity=".4"'
    tip = "" if kept else "<title>what it attends to was not kept</title>"
    turn = f"translate({at + 10:.0f} {margin - 4:.0f}) rotate(-90)"
    return (
        f'<text x="{margin - 4:.0f}" y="{at + 10:.0f}" text-anchor="end"{faint}>{said}{tip}</text>'
        f'<text transform="{turn}">{said}</text>'
    )


def _lift(distance: float) -> float:
    return 18 + 0.42 * abs(distance) if abs(distance) < 260 else 127 + 0.06 * (abs(distance) - 260)


def _arc(seen: Seen, key: int, weight: float, *, ends: tuple[float, float], base: float) -> str:
    start, end = ends
    kind = seen.kind(key)
    top = base - _lift(start - end)
    if start == end:  # attention to itself: a small loop
        out, back, start, end = start - 12, start + 12, start - 3, start + 3
    else:
        out, back = start, end
    path = f"M{start:.0f} {base:.0f}C{out:.0f} {top:.0f} {back:.0f} {top:.0f} {end:.0f} {base:.0f}"
    colour = COLOURS["other" if kind == "query" else kind]
    tip = f"{weight:.3f} to ‘{token_name(seen.tokens[key])}’ {WORDS[kind]}".strip()
    return (
        f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="{0.6 + 5 * weight:.1f}"'
        f' opacity="{0.35 + 0.6 * weight:.2f}" stroke-linecap="round">'
        f"<title>{escape(tip)}</title></path>"
    )


def _token(
    seen: Seen, position: int, name: str, *, at: tuple[float, float], weight: float | None
) -> str:
    kind = seen.kind(position)
    x, y = at
    bold = ' font-weight="700"' if kind != "other" else ""
    colour = COLOURS[kind] if kind != "other" else "currentColor"
    tip = f"‘{token_text(seen.tokens[position])}’ {WORDS[kind]}".strip()
    tip += f": {weight:.3f}" if weight is not None else ": not visible to the query"
    return (
        f'<text transform="translate({x + 3:.0f} {y:.0f}) rotate(-90)" text-anchor="end"'
        f' fill="{colour}"{bold}>{escape(name)}<title>{escape(tip)}</title></text>'
    )


def _cell(
    seen: Seen,
    query: int,
    key: int,
    weight: float,
    *,
    at: tuple[float, float],
    side: float,
    linked: bool,
) -> str:
    frame = f' stroke="{COLOURS[seen.kind(key)]}" stroke-width="1.6"' if linked else ""
    tip = f"{weight:.3f} from ‘{token_name(seen.tokens[query])}’"
    tip += f" to ‘{token_name(seen.tokens[key])}’"
    return (
        f'<rect x="{at[0]:.0f}" y="{at[1]:.0f}" width="{side - 1:.0f}" height="{side - 1:.0f}"'
        f' fill="currentColor" fill-opacity="{weight:.2f}"{frame}>'
        f"<title>{escape(tip)}</title></rect>"
    )


def _svg(parts: Sequence[str], *, size: tuple[float, float], label: str) -> str:
    width, height = size
    return (
        f'<svg class="attention" role="img" aria-label="{escape(label)}"'
        f' viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}"'
        ' font-family="sans-serif" font-size="9" fill="currentColor"'
        f' xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>'
    )
