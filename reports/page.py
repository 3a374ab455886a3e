"""The report: one HTML file (or Markdown) without network, made from a run folder's tables."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import jinja2
from markupsafe import Markup, escape

from rolecall.analyses.number_text import interval, number, p_text, share, times
from rolecall.analyses.tables import plain
from rolecall.reports.attention_view import Seen, attention_arcs, marked_words
from rolecall.reports.dropped import dropped_items
from rolecall.reports.grid_svg import Grid, shaded
from rolecall.reports.limits import limits
from rolecall.reports.manifest_lines import manifest_lines
from rolecall.reports.markdown_text import markdown_block, markdown_code, markdown_text
from rolecall.reports.matters import RoleStory, headline, role_stories
from rolecall.reports.own_task import not_done, thresholds_of
from rolecall.reports.page_data import page_data
from rolecall.reports.palette import (
    TIER_STRENGTH,
    inks_on_cell,
    role_colour,
    role_letters,
)
from rolecall.reports.redundancy import LEAST_REPAIR, alike, repaired
from rolecall.reports.reproduce import cite, commands
from rolecall.reports.run import (
    CANDIDATE,
    NO_LABEL,
    Run,
    labels_of,
    rows_of,
    significant,
    without_label,
)
from rolecall.reports.sensitivity_figure import sensitivity_rows
from rolecall.reports.shown_effect import largest_effects
from rolecall.reports.standing import tier_words
from rolecall.reports.stored_samples import stored_samples
from rolecall.reports.visible import visible

LETTER_ROOM = 17.0
"""Cells as wide and as high as this have letters."""

SHOWN = 3


def seen_in_html(value: Any) -> Any:
    """The value; text, unless it is markup, with what would turn the line round spelled out."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def atlas_grid(run: Run) -> Grid:
    """The atlas's cells, so that 48 layers have letters and a small model fits on a phone."""
    return Grid.fitting(run.shape, (860, 820), low=10.0, high=34.0)


def environment(put: Callable[[Any], Any] = seen_in_html) -> jinja2.Environment:
    """The templates, with everything that is put into them made harmless."""
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("rolecall.reports"),
        autoescape=True,
        finalize=put,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"linked": linked, "number": number, "interval": interval, "share": share}
    made.filters |= {"p_text": p_text, "times": times, "role_colour": role_colour}
    return made


def linked(sentence: str, tiers: dict[str, str]) -> Markup:
    """The sentence, escaped, with each head's name a link that shows the head's tier."""

    def chip(match: re.Match[str]) -> str:
        tier = tiers.get(match[0]) or ""
        letter = f' <span class="tier">{escape(tier)}</span>' if len(tier) == 1 else ""
        return f'<a class="chip" href="#{match[0]}">{match[0]}{letter}</a>'

    return Markup(re.sub(r"\bL\d+H\d+\b", chip, str(escape(visible(sentence)))))


def report_html(run: Run) -> str:
    """The page, whole; a run with scores alone gives what is there and says what is missing."""
    facts = report_facts(run)
    return environment().get_template("report.html.j2").render(**facts, **drawings(run, facts))


def report_markdown(run: Run) -> str:
    """The report in Markdown: its sentences and the tables of roles and of what was dropped.

    Drawings, all heads, redundancy, sensitivity and the manifest are on the page alone.
    """
    env = environment(markdown_text)
    env.filters |= {"code": markdown_code, "block": markdown_block}
    return env.get_template("report.md.j2").render(**report_facts(run))


def report_facts(run: Run) -> dict[str, Any]:
    """Everything that the report says, drawings apart."""
    stories, asked = role_stories(run), thresholds_of(run)
    scored, effects = "scores" in run.tables, run.table("effects")
    waiting = {CANDIDATE: "attention stands out; no verdict was worked out in this run"}
    return {
        "name": run.name,
        "model": run.manifest.get("model", {}),
        "shape": run.shape,
        "headline": headline(run),
        "stories": stories,
        "judged": "heads" in run.tables,
        "has_scores": scored,
        "has_effects": effects is not None,
        "direct_known": effects is not None and bool(effects["direct"].notna().any()),
        "parts": parts(run),
        "missing": run.missing(),
        "asked": asked,
        "tiers": tier_words(asked) if "heads" in run.tables else waiting,
        "dropped": dropped_items(run),
        "not_done": not_done(run),
        "largest": () if scored else largest_effects(run),
        "alike": alike(run) if scored else (),
        "repaired": repaired(run),
        "least_repair": LEAST_REPAIR,
        "limits": limits(run),
        "commands": commands(run),
        "cite": cite(run),
        "manifest": plain(dict(run.manifest)),
        "manifest_lines": manifest_lines(run),
        "sensitivity": sensitivity_rows(run),
    }


def parts(run: Run) -> dict[str, str]:
    """The sections of the page, by their ids: those that this run has something for."""
    scored, tested = "scores" in run.tables, "effects" in run.tables
    roles = {"roles": "Roles", "atlas": "Atlas", "heads": "Heads"} if scored else {}
    effects = {"effects": "Effects"} if tested and not scored else {}
    redundancy = {"redundancy": "Redundancy"} if scored or tested else {}
    rest = {"dropped": "Dropped", "limits": "Limits", "manifest": "Manifest"}
    return {**roles, **effects, **redundancy, **rest, "reproduce": "Cite and reproduce"}


def drawings(run: Run, facts: dict[str, Any]) -> dict[str, Any]:
    """The atlas, the maps, the attention views and the script's data, as markup."""
    if not facts["has_scores"]:
        return {"data": json_in_page({})}
    stories = facts["stories"]
    return {
        "data": json_in_page(page_data(run)),
        "atlas": Markup(atlas_svg(run)),
        "legend": atlas_legend(run),
        "marks": atlas_marks(run),
        "maps": {s.role: Markup(map_svg(run, s)) for s in stories},
        "views": {s.role: v for s in stories if (v := views(run, s))},
    }


def json_in_page(value: Any) -> Markup:
    """Strict JSON for a script element: it holds no `<`, so nothing in it can end the element."""
    text = json.dumps(plain(value), allow_nan=False, separators=(",", ":"), ensure_ascii=False)
    safe = text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return Markup(safe.replace("&", "\\u0026"))


def atlas_svg(run: Run) -> str:
    """All heads in their role's colour, as strong as the tier, with letters where they fit."""
    labels = labels_of(run)
    grid = atlas_grid(run)
    looks: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for head in labels.to_dict("records"):
        looks.setdefault((head["label"], head["tier"] or ""), []).append(_cell(head))
    body = [f'<path class="none" d="{grid.path(_cell(h) for h in labels.to_dict("records"))}"/>']
    for (label, tier), cells in sorted(looks.items()):
        if label != NO_LABEL:
            strength = TIER_STRENGTH.get(tier, 0.42)
            colour = f'class="held" fill="{role_colour(label)}" fill-opacity="{strength}"'
            body.append(f'<path {colour} d="{grid.path(cells)}"/>')
        elif tier == "D":
            body.append(f'<path class="needed" d="{grid.path(cells, gap=0.7 * grid.cell[1])}"/>')
    if min(grid.cell) >= LETTER_ROOM:
        letters = role_letters(role for held in labels["roles"] for role in held)
        body += [_letters(grid, head, letters) for head in labels.to_dict("records")]
    label = f"Atlas of {len(labels)} heads; every head is also in the table below."
    return grid.svg("".join(body), label=str(escape(label)), name="atlas")


def atlas_legend(run: Run) -> tuple[dict[str, Any], ...]:
    """The roles of the atlas: colour, letters, name and number of heads, most frequent first."""
    labels = labels_of(run)
    held = [role for roles in labels["roles"] for role in roles]
    letters = role_letters(held)
    return tuple(
        {
            "role": role,
            "title": role.replace("_", " "),
            "colour": role_colour(role),
            "letters": letters[role],
            "count": held.count(role),
        }
        for role in sorted(letters, key=lambda name: (-held.count(name), name))
    )


def atlas_marks(run: Run) -> tuple[tuple[Markup, str], ...]:
    """What else is drawn in the atlas: the mark, and what it means and how often it is there."""
    labels = labels_of(run)
    helping = int(((labels["label"] == NO_LABEL) & (labels["tier"] == "D")).sum())
    several = int(labels["roles"].map(len).gt(1).sum())
    without = int((labels["label"] == NO_LABEL).sum()) - helping
    grey = Markup('<span class="swatch"></span>')
    bar = Markup('<span class="swatch barred"></span>')
    marks = [(bar, f"no label, but some task needs it (D) {helping}")] if helping else []
    lettered = min(atlas_grid(run).cell) >= LETTER_ROOM
    marks += (
        [(Markup("<b>+</b>"), f"more roles than the one named {several}")]
        if (several and lettered)
        else []
    )
    return (*marks, *([(grey, f"{without_label(run)} {without}")] if without else []))


def map_svg(run: Run, story: RoleStory) -> str:
    """One role's scores over all heads; significant heads are framed."""
    scores = rows_of(run, "scores")
    rows = scores[scores["role"] == story.role]
    grid = Grid.fitting(run.shape, (220, 400), low=3.0, high=24.0)
    values = {
        (int(r["layer"]), int(r["head"])): float(r["score"])
        for r in rows.to_dict("records")
        if r["score"] is not None and r["score"] == r["score"]
    }
    sure = [_cell(r) for r in rows[significant(rows)].to_dict("records")]
    body = shaded(grid, values, colour=role_colour(story.role))
    body += f'<path class="sure" d="{grid.path(sure)}"/>' if sure else ""
    label = f"Scores of all heads for {story.title}; {len(sure)} stand out."
    return grid.svg(body, label=str(escape(label)), name=str(escape(story.role)))


def views(run: Run, story: RoleStory) -> list[dict[str, Any]]:
    """Stored examples of a role to show: of its heads, or of the strongest where none holds it."""
    stored = stored_samples(run.folder, story.role)
    names = {head["name"] for head in story.heads}
    holding = [e for e in stored if e.get("head") in names]
    first = stored[0]["head"] if stored else None
    shown = holding or [e for e in stored if e.get("head") == first]
    return [
        {
            "caption": seen.caption,
            "head": seen.head,
            "words": Markup(marked_words(seen)),
            "arcs": Markup(attention_arcs(seen)),
        }
        for seen in map(Seen.of, shown[:SHOWN])
    ]


def _letters(grid: Grid, head: dict[Any, Any], letters: dict[str, str]) -> str:
    if head["label"] == NO_LABEL:
        return ""
    x = grid.left + (head["head"] + 0.5) * grid.cell[0]
    y = grid.top + (head["layer"] + 0.5) * grid.cell[1] + 3.5
    more = "+" if len(head["roles"]) > 1 else ""
    inks = inks_on_cell(head["label"], head["tier"] or "")
    ink = f'class="ink" style="--by-day:{inks["day"]};--by-night:{inks["night"]}"'
    return f'<text {ink} x="{x:.4g}" y="{y:.4g}">{escape(letters[head["label"]])}{more}</text>'


def _cell(head: dict[Any, Any]) -> tuple[int, int]:
    return int(head["layer"]), int(head["head"])
