"""A run of which parts are gone: what is said is true of what is left."""

from __future__ import annotations

import re
from itertools import combinations

import pandas as pd
import pytest

from rolecall.reports.matters import RoleStory, headline, role_stories
from rolecall.reports.page import report_html, report_markdown
from rolecall.reports.run import Run, read_run
from tests.run_folders import write_run

PARTS = ("scores", "effects", "weights", "verdicts", "heads", "manifest")
NOT_WORDS = re.compile(r"\b(None|nan|NaN|inf|<NA>)\b")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return read_run(write_run(tmp_path_factory.mktemp("run")))


def less(run: Run, gone: tuple[str, ...]) -> Run:
    """The run without some of its parts."""
    tables = {name: rows for name, rows in run.tables.items() if name not in gone}
    return Run(run.folder, {} if "manifest" in gone else run.manifest, tables)


def told(run: Run) -> dict[str, RoleStory]:
    return {story.role: story for story in role_stories(run)}


@pytest.mark.parametrize(
    "gone",
    [*combinations(PARTS, 1), *combinations(PARTS, 2), *combinations(PARTS, 3)],
    ids="+".join,
)
def test_no_sentence_has_a_hole_in_it(whole: Run, gone: tuple[str, ...]) -> None:
    run = less(whole, gone)
    if not run.tables:
        return
    for sentence in (*headline(run), *(story.sentence for story in role_stories(run))):
        assert not NOT_WORDS.search(sentence), sentence


@pytest.mark.parametrize("gone", list(combinations(PARTS, 2)), ids="+".join)
def test_pages_of_what_is_left_are_written(whole: Run, gone: tuple[str, ...]) -> None:
    run = less(whole, gone)
    assert not NOT_WORDS.search(
        re.sub(r"<script.*?</script>|<style.*?</style>", "", report_html(run), flags=re.S)
    )
    assert not NOT_WORDS.search(report_markdown(run))


def test_without_effects_the_verdicts_say_what_was_lost(whole: Run) -> None:
    before, after = told(whole), told(less(whole, ("effects",)))
    verdicts = whole.tables["verdicts"]
    assert "total" in verdicts
    for role, story in after.items():
        for head in story.heads:
            row = verdicts[
                (verdicts["role"] == role)
                & (verdicts["layer"] == head["layer"])
                & (verdicts["head"] == head["head"])
            ]
            total = row["total"].iloc[0]
            assert head["total"] == (None if pd.isna(total) else pytest.approx(total))
        assert {h["name"] for h in story.heads} == {h["name"] for h in before[role].heads}
