"""One example as a head sees it: tokens with arcs, or a matrix, as SVG for pages and notebooks.

The link's query, its right key and its rivals are marked; every arc and cell tells its number on
hover. Long texts are cut to a window round the link. Takes plain lists, no tensors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from rolecall.reports.ticks import shortened

MOST_TOKENS = 40
"""More tokens than this are cut to a window."""

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
    """

    head: str
    tokens: tuple[str, ...]
    pattern: tuple[tuple[float, ...], ...]
    query: tuple[int, ...] = ()
    target: tuple[int, ...] = ()
    rivals: tuple[tuple[int, ...], ...] = ()
    caption: str = ""

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Seen:
        """What a file of `attention/` holds of one example.

        Raises:
            ValueError: Something is missing, or the pattern does not fit the tokens.
        """
        try:
            seen = cls(
                head=str(stored["head"]),
                tokens=tuple(str(token) for token in stored["tokens"]),
                pattern=tuple(tuple(float(w) for w in row) for row in stored["pattern"]),
                query=tuple(stored.get("query", ())),
                target=tuple(stored.get("target", ())),
                rivals=tuple(tuple(rival) for rival in stored.get("rivals", ())),
                caption=str(stored.get("caption", "")),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"this is no stored attention ({error!r})") from None
        if len(seen.pattern) != len(seen.tokens):
            raise ValueError(
                f"{len(seen.tokens)} tokens, but {len(seen.pattern)} rows of attention"
            )
        return seen

    def kind(self, position: int) -> str:
        """`target`, `rival`, `query` or `other`."""
        if position in self.target:
            return "target"
        if any(position in rival for rival in self.rivals):
            return "rival"
        return "query" if position in self.query else "other"

    def row(self) -> tuple[float, ...]:
        """Attention from the query: the mean over its positions, or the last token's if none."""
        rows = [self.pattern[q] for q in self.query or (len(self.tokens) - 1,)]
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
        said = escape(f"{self.seen.head} {self.seen.caption}")
        caption = f"<figcaption>{said}</figcaption>"
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
    """The positions to show: all, or the first token and what stands nearest to the link."""
    n = len(seen.tokens)
    if n <= most:
        return list(range(n))
    anchors = {*seen.query, *seen.target, *(p for rival in seen.rivals for p in rival)} or {n - 1}
    nearness = sorted(range(1, n), key=lambda p: (min(abs(p - a) for a in anchors), p))
    return sorted({0, *nearness[: most - 1]})


def marked_words(seen: Seen, most: int = MOST_TOKENS * 3) -> str:
    """The text as HTML, the query, the right key and the rivals in `<mark>`s of their own."""
    shown = window(seen, most)
    parts = []
    for before, position in zip([shown[0] - 1, *shown], shown, strict=False):
        if position != before + 1:
            parts.append(" … ")
        token = seen.tokens[position]
        text = escape(token.replace("\n", "⏎"))
        kind = seen.kind(position)
        if kind == "other":
            parts.append(text)
            continue
        blank = " " if token.startswith(" ") else ""
        style = f"background:none;color:inherit;border-bottom:2px solid {COLOURS[kind]}"
        title = WORDS[kind]
        mark = f'<mark class="{kind}" style="{style}" title="{title}">{text.lstrip(" ")}</mark>'
        parts.append(blank + mark)
    return f'<p class="words">{"".join(parts)}</p>'


def attention_arcs(seen: Seen, *, most: int = MOST_TOKENS) -> str:
    """An SVG of the tokens in a row, with an arc from the query to each key it attends to."""
    shown, row = window(seen, most), seen.row()
    place = {position: 16 + 19 * i for i, position in enumerate(shown)}
    names = [shortened(seen.tokens[p].strip() or "␣") for p in shown]
    start = place[(seen.query or (shown[-1],))[-1]]
    weights = {p: row[p] for p in shown if p < len(row) and row[p] >= FAINTEST}
    tall = max((_lift(start - place[p]) for p in weights), default=20.0) * 0.75 + 12
    deep = 12 + 4.9 * max(map(len, names), default=1)
    parts = [
        _arc(seen, p, weight, ends=(start, place[p]), base=tall)
        for p, weight in sorted(weights.items(), key=lambda item: item[1])
    ]
    parts += [
        _token(seen, p, name, at=(place[p], tall + 5), weight=row[p] if p < len(row) else None)
        for p, name in zip(shown, names, strict=True)
    ]
    return _svg(parts, size=(28 + 19 * len(shown), tall + deep), label=summary(seen))


def attention_matrix(seen: Seen, *, most: int = MOST_TOKENS) -> str:
    """An SVG of the whole pattern, queries down and keys across; the link's cells are framed."""
    shown = window(seen, most)
    names = [shortened(seen.tokens[p].strip() or "␣") for p in shown]
    margin = 10 + 5.2 * max(map(len, names), default=1)
    side = 13
    parts = []
    for i, (query, name) in enumerate(zip(shown, names, strict=True)):
        y = margin + side * i
        parts.append(
            f'<text x="{margin - 4:.0f}" y="{y + 10:.0f}" text-anchor="end">{escape(name)}</text>'
        )
        x = margin + side * i
        turn = f'transform="translate({x + 10:.0f} {margin - 4:.0f}) rotate(-90)"'
        parts.append(f"<text {turn}>{escape(name)}</text>")
        for j, key in enumerate(shown):
            weight = seen.pattern[query][key] if key < len(seen.pattern[query]) else 0.0
            linked = query in seen.query and seen.kind(key) in ("target", "rival")
            if weight >= FAINTEST or linked:
                at = (margin + side * j, y)
                parts.append(_cell(seen, query, key, weight, at=at, side=side, linked=linked))
    size = margin + side * len(shown) + 6
    return _svg(parts, size=(size, size), label=summary(seen))


def summary(seen: Seen) -> str:
    """The head's attention from the query in words, largest first."""
    row = seen.row()
    order = sorted(range(len(row)), key=lambda p: (-row[p], p))[:4]
    named = (seen.query or (len(seen.tokens) - 1,))[-1]
    said = [
        f"{row[p]:.2f} to ‘{seen.tokens[p].strip()}’"
        + (f" ({WORDS[seen.kind(p)]})" if WORDS[seen.kind(p)] else "")
        for p in order
        if row[p] >= FAINTEST
    ]
    return f"{seen.head} from ‘{seen.tokens[named].strip()}’: {', '.join(said) or 'nothing'}"


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
    tip = f"{weight:.3f} to ‘{seen.tokens[key].strip()}’ {WORDS[kind]}".strip()
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
    tip = f"‘{seen.tokens[position]}’ {WORDS[kind]}".strip()
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
    tip = f"{weight:.3f} from ‘{seen.tokens[query].strip()}’ to ‘{seen.tokens[key].strip()}’"
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
