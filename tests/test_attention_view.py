"""The view of one example: nothing of weight is hidden, nothing damaged is drawn."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from rolecall.reports import attention_view
from rolecall.reports.attention_view import (
    AttentionView,
    Seen,
    attention_arcs,
    attention_matrix,
    marked_words,
    summary,
    window,
)
from rolecall.reports.cli import main
from rolecall.reports.compare_command import compare
from rolecall.reports.head_command import head
from rolecall.reports.page import report_html
from rolecall.reports.report_command import report
from rolecall.reports.run import read_run
from rolecall.reports.stored_samples import stored_samples
from rolecall.reports.table_command import table as table_command
from rolecall.reports.terminal import Terminal
from rolecall.reports.top_effects import print_top_effects
from rolecall.reports.top_heads import print_top_heads
from rolecall.reports.visible import token_name, visible
from tests.run_folders import draw_effects, draw_scores, manifest, write_run

GAP = "tokens not shown"


def seen_of(
    n: int,
    weights: dict[int, float],
    *,
    query: int,
    target: tuple[int, ...] = (),
    rivals: tuple[tuple[int, ...], ...] = (),
) -> Seen:
    """A text of `n` tokens, and what the query gives to some of them."""
    row = tuple(weights.get(p, 0.0) for p in range(n))
    pattern = tuple(row if q == query else () for q in range(n))
    tokens = tuple(f" t{p}" for p in range(n))
    return Seen("L1H3", tokens, pattern, query=(query,), target=target, rivals=rivals)


@st.composite
def links(draw: st.DrawFn) -> Seen:
    """Any marked positions within any length."""
    n = draw(st.integers(1, 400))
    position = st.integers(0, n - 1)
    return seen_of(
        n,
        {p: 0.9 / 5 for p in draw(st.sets(position, max_size=5))} | {draw(position): 0.1},
        query=draw(position),
        target=tuple(sorted(draw(st.sets(position, max_size=60)))),
        rivals=tuple((p,) for p in draw(st.lists(position, max_size=60))),
    )


@given(seen=links(), most=st.integers(2, 80))
def test_the_window_holds_the_query_the_strongest_key_and_the_right_key(
    seen: Seen, most: int
) -> None:
    shown = window(seen, most)
    row = seen.row()
    strongest = max(row)
    assert shown == sorted(set(shown))
    assert len(shown) == min(most, len(seen.tokens))
    assert set(seen.query) <= set(shown)
    assert any(row[p] == strongest for p in shown)
    if len({*seen.target, *seen.query, row.index(strongest)}) <= most:
        assert set(seen.target) <= set(shown)
    elif seen.target:
        assert any(p in seen.target for p in shown) or most == 2


@given(seen=links())
def test_every_view_of_any_link_can_be_drawn(seen: Seen) -> None:
    shown = window(seen)
    gaps = sum(b - a > 1 for a, b in zip([-1, *shown], [*shown, len(seen.tokens)], strict=True))
    assert attention_arcs(seen).count(GAP) == gaps
    assert attention_matrix(seen).count(GAP) == gaps
    assert (" … " in marked_words(seen, 40)) == (gaps > 0)


def test_a_key_far_from_the_link_is_drawn_if_it_has_the_attention() -> None:
    seen = seen_of(700, {500: 0.9, 5: 0.02}, query=690, target=(5,))
    assert "0.900 to ‘t500’" in attention_arcs(seen)
    assert "0.900 from ‘t690’ to ‘t500’" in attention_matrix(seen)
    for said in re.findall(r"to (‘\w+’)", summary(seen)):
        assert said in attention_arcs(seen)


def test_a_gap_tells_what_attention_it_hides() -> None:
    weights = {p: 0.03 for p in range(100, 130)}
    drawn = attention_arcs(seen_of(700, weights, query=690, target=(5,)))
    shown = [float(weight) for weight in re.findall(r">([\d.]+) to ‘", drawn)]
    hidden = [float(weight) for weight in re.findall(rf"{GAP}: ([\d.]+) in all", drawn)]
    assert hidden
    assert sum(shown) + sum(hidden) == pytest.approx(0.9)


SOUND: dict[str, Any] = {
    "head": "L4H2",
    "caption": "on a typical example",
    "tokens": ["<s>", " Mary", " left"],
    "pattern": [[1.0], [0.5, 0.5], [0.1, 0.8, 0.1]],
    "query": [2],
    "target": [1],
    "rivals": [[0]],
    "raises": [" her"],
    "lowers": [" it"],
}
DAMAGED = [
    {"query": [9999]},
    {"query": [-1]},
    {"query": "ab"},
    {"query": 2},
    {"query": None},
    {"query": [1.0]},
    {"query": [True]},
    {"target": [3]},
    {"rivals": [[7]]},
    {"rivals": [1]},
    {"tokens": []},
    {"tokens": [], "pattern": []},
    {"tokens": "abc"},
    {"tokens": ["a", None, "c"]},
    {"tokens": ["a", "b"]},
    {"pattern": [[1.0], [0.5, 0.5], [0.1, None, 0.1]]},
    {"pattern": [[1.0], [0.5, 0.5], [0.1, float("nan"), 0.1]]},
    {"pattern": [[1.0], [0.5, 0.5], [0.1, 7.0, 0.1]]},
    {"pattern": [[1.0], [0.5, 0.5], ["a", 0.8, 0.1]]},
    {"pattern": [[1.0], [0.5, 0.5], [0.1, 0.8, 0.1, 0.0]]},
    {"pattern": [[1.0], [0.5, 0.5], []]},
    {"pattern": 3},
    {"head": None},
    {"head": 3},
    {"caption": 3},
    {"raises": " her"},
    {"lowers": [3]},
    *({key: ...} for key in ("head", "tokens", "pattern", "raises", "lowers")),
]
"""What may be wrong with an entry; `...` stands for a key that is not there."""


def keep(folder: Path, role: str, *entries: Any) -> Path:
    """The file that holds these entries."""
    path = folder / "attention" / f"{role}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"role": role, "examples": entries}), encoding="utf-8")
    return path


def damaged(change: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in (SOUND | change).items() if value is not ...}


@pytest.mark.parametrize("entry", [*map(damaged, DAMAGED), 3, None, "ab", []])
def test_a_damaged_entry_is_left_out_by_name_and_the_sound_one_shown(
    tmp_path: Path, entry: Any
) -> None:
    path = keep(tmp_path, "coreference", entry, SOUND)
    with pytest.warns(UserWarning, match=re.escape(f"{path}: example 0")):
        found = stored_samples(tmp_path, "coreference")
    assert found == [SOUND | {"role": "coreference"}]


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"examples": 3}', "\ud800"])
def test_a_damaged_file_is_left_out_by_name(tmp_path: Path, text: str) -> None:
    path = keep(tmp_path, "coreference")
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    with pytest.warns(UserWarning, match=re.escape(str(path))):
        assert stored_samples(tmp_path, "coreference") == []


@pytest.mark.filterwarnings("ignore:.*left out")
def test_a_report_and_a_dossier_do_without_damaged_entries(tmp_path: Path) -> None:
    write_run(tmp_path)
    keep(tmp_path, "coreference", *map(damaged, DAMAGED), 3)
    page = tmp_path / "head.html"
    for command, given_ in (
        (report, [str(tmp_path), "--no-figures"]),
        (head, [str(tmp_path), "L4H2"]),
        (head, [str(tmp_path), "L4H2", "--html", str(page)]),
    ):
        done = CliRunner().invoke(command, given_)
        assert done.exit_code == 0, done.exception
    assert "<svg" in report_html(read_run(tmp_path))


STEERING = ("\x1b[31mred", "a\x07\r", "\u202eturned", "\u200b", "\u2028", "\x9b2J", "\ufe0f")


def steers(text: str) -> list[str]:
    """The characters that a terminal obeys, or that nobody sees."""
    return re.findall("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\ufe0f]", text)


@given(st.text())
def test_nothing_that_steers_stays_in_visible_text(text: str) -> None:
    assert not steers(visible(text))
    assert not steers(token_name(text))
    assert visible(visible(text)) == visible(text)


@pytest.mark.parametrize("token", STEERING)
def test_tokens_are_visible_and_cannot_steer(tmp_path: Path, token: str) -> None:
    entry = SOUND | {"tokens": ["<s>", token, " left"], "caption": token, "raises": [token]}
    seen = Seen.of(entry)
    for drawn in (AttentionView(seen), AttentionView(seen, matrix=True)):
        assert not steers(drawn._repr_html_())
        assert "⟨U+" in drawn._repr_html_()
    write_run(tmp_path, name=f"m{token}")
    keep(tmp_path, "coreference", entry)
    done = CliRunner().invoke(head, [str(tmp_path), "L4H2"])
    assert done.exit_code == 0, done.exception
    assert not steers(done.output)
    assert "⟨U+" in done.output


@pytest.mark.parametrize("name", STEERING)
def test_names_in_tables_are_visible(tmp_path: Path, name: str) -> None:
    write_run(tmp_path, name=name)
    for table, column in (("scores", "role"), ("effects", "task")):
        rows = pd.read_parquet(tmp_path / f"{table}.parquet")
        rows[column] = rows[column].replace({"coreference": name})
        rows.to_parquet(tmp_path / f"{table}.parquet", index=False)
    for command, given_ in (
        (head, [str(tmp_path), "L1H3"]),
        (table_command, [str(tmp_path), "scores"]),
        (table_command, [str(tmp_path), "roles"]),
        (compare, [str(tmp_path), str(tmp_path)]),
    ):
        done = CliRunner().invoke(command, given_)
        assert done.exit_code == 0, done.exception
        assert not steers(done.output)


def test_an_error_cannot_steer(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["report", "\x1b[31m\u202e"])
    assert not steers(capsys.readouterr().err)


def test_commands_print_to_the_terminal_that_spells_out() -> None:
    folder = Path(attention_view.__file__).parent
    plain = [
        path.name
        for path in sorted(folder.glob("*.py"))
        if re.search(r"(?<!class )\bConsole\((?!\))|\bConsole\(\)", path.read_text("utf-8"))
        and path.name != "terminal.py"
    ]
    assert plain == []


@pytest.mark.parametrize("columns", [20, 60, 80])
def test_a_dossier_cuts_no_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    write_run(tmp_path)
    long = "a_role_of_thirty_two_letters_or_more"
    for table, column in (("scores", "role"), ("effects", "task")):
        rows = pd.read_parquet(tmp_path / f"{table}.parquet")
        rows[column] = rows[column].replace({"coreference": long})
        rows.to_parquet(tmp_path / f"{table}.parquet", index=False)
    monkeypatch.setenv("COLUMNS", "1000")
    wide = CliRunner().invoke(head, [str(tmp_path), "L1H3"]).output
    monkeypatch.setenv("COLUMNS", str(columns))
    narrow = CliRunner().invoke(head, [str(tmp_path), "L1H3"]).output
    assert long in narrow
    assert narrow.split() == wide.split()


@pytest.mark.parametrize("columns", [20, 60, 80])
def test_printed_tables_of_a_run_cut_no_number(tmp_path: Path, columns: int) -> None:
    long = "a_role_of_thirty_two_letters_or_more"
    scores = draw_scores((2, 4), seed=0).assign(role=long)
    effects = draw_effects(draw_scores((2, 4), seed=0), seed=0)
    effects = effects.assign(per_damage=1.0, kl=0.1, control=None)
    said = []
    for width in (1000, columns):
        console = Terminal(file=io.StringIO(), width=width)
        print_top_heads(scores, manifest((2, 4), "m"), console)
        print_top_effects(effects, ["induction"], [], console)
        said.append(console.file.getvalue().split())  # type: ignore[attr-defined]
    assert said[0] == said[1]


@pytest.mark.filterwarnings("default")
def test_a_warning_is_told_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path)
    keep(tmp_path, "coreference", 3)
    for arguments in (["report", str(tmp_path), "--no-figures"], ["head", str(tmp_path), "L1H3"]):
        with pytest.raises(SystemExit):
            main(arguments)
        assert capsys.readouterr().err.count("coreference.json: example 0") == 1
