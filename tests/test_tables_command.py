"""`rolecall table` and `rolecall head`: what a reader takes from a run by the command line."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner

from rolecall.reports.dossier import dossier
from rolecall.reports.head_command import head
from rolecall.reports.report_command import report
from rolecall.reports.run import read_run
from rolecall.reports.table_command import DERIVED, labelled_heads, table
from rolecall.reports.table_text import as_latex, as_markdown, escaped
from tests.run_folders import draw_sensitivity, write_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("run"))


def said(command, *arguments: object) -> str:  # type: ignore[no-untyped-def]
    done = CliRunner().invoke(command, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.output or done.exception
    return done.output


@pytest.mark.parametrize("name", ["scores", "effects", "weights", "verdicts", "heads"])
def test_csv_gives_every_row_in_full(folder: Path, name: str) -> None:
    rows = read_run(folder).tables[name]
    read = pd.read_csv(io.StringIO(said(table, folder, name, "--csv")))
    assert len(read) == len(rows)
    for column in ("score", "total", "ov_copying"):
        if column in rows:
            assert read[column].to_numpy() == pytest.approx(rows[column].to_numpy(), nan_ok=True)


def test_labelled_heads_are_the_labelled_ones(folder: Path) -> None:
    run = read_run(folder)
    rows = labelled_heads(run)
    heads = run.tables["heads"].query("label != 'no clean label'")
    names = {f"L{layer}H{number}" for layer, number in heads[["layer", "head"]].to_numpy()}
    assert set(rows["head"]) == names
    assert list(rows) == ["head", "role", "tier", "score", "margin", "effect", "direct"]


def test_latex_is_whole_and_escaped(folder: Path) -> None:
    text = said(table, folder, "labelled", "--latex")
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == 1
    body = text[text.index(r"\midrule") : text.index(r"\bottomrule")].splitlines()[1:]
    assert len(body) == len(labelled_heads(read_run(folder)))
    assert all(line.count("&") == 6 and line.endswith(r"\\") for line in body)
    assert escaped(r"a_b & 5% {x} \y") == r"a\_b \& 5\% \{x\} \textbackslash{}y"
    one = as_latex(pd.DataFrame({"a_b": ["x&y"], "n": [0.25]}))
    assert r"a b & n \\" in one
    assert r"x\&y & 0.250 \\" in one


def test_latex_numbers_have_a_true_minus_and_words_keep_their_hyphens() -> None:
    text = as_latex(pd.DataFrame({"a": ["well-known"], "n": [-0.5]}))
    assert r"well-known & $-$0.500 \\" in text


@pytest.mark.parametrize("kind", ["--csv", "--latex", "--markdown"])
@pytest.mark.parametrize(
    "name",
    [
        *("scores", "effects", "weights", "verdicts", "heads", "composition", "pruning"),
        *("sensitivity", "labelled", "roles"),
    ],
)
def test_every_table_comes_in_every_form(folder: Path, name: str, kind: str) -> None:
    text = said(table, folder, name, kind)
    run = read_run(folder)
    n = len(DERIVED[name](run) if name in DERIVED else run.tables[name])
    if kind == "--csv":
        assert len(pd.read_csv(io.StringIO(text))) == n
    elif kind == "--markdown":
        assert len(text.splitlines()) == n + 2
        bars = {len(re.findall(r"(?<!\\)\|", line)) for line in text.splitlines()}
        assert len(bars) == 1
    else:
        body = text[text.index(r"\midrule") : text.index(r"\bottomrule")].splitlines()[1:]
        assert len(body) == n
        columns = re.search(r"(?:tabular|longtable)}{([lr]+)}", text)
        assert columns is not None
        for line in body:
            assert len(re.findall(r"(?<!\\)&", line)) == len(columns[1]) - 1
            assert not re.search(r"(?<!\\)[_%#]", line)
            assert line.endswith(r"\\")


def test_roles_in_words_fit_a_terminal(folder: Path) -> None:
    text = said(table, folder, "roles")
    assert max(map(len, text.splitlines())) <= 80
    assert "coreference" in text
    one = said(table, folder, "roles", "--role", "bracket")
    assert "bracket" in one
    assert "coreference" not in one


def test_markdown_escapes_its_bars() -> None:
    text = as_markdown(pd.DataFrame({"a": ["x|y", None], "n": [1.0, float("nan")]}))
    assert text.splitlines() == [
        "| a | n |",
        "| --- | ---: |",
        "| x\\|y | 1.000 |",
        "|  |  |",
    ]


def test_a_wide_table_is_not_folded(folder: Path) -> None:
    lines = said(table, folder, "scores").splitlines()
    assert len(lines) == 1 + len(read_run(folder).tables["scores"])
    assert "margin_low" in lines[0]


def test_one_role_alone(folder: Path) -> None:
    text = said(table, folder, "scores", "--csv", "--role", "bracket")
    assert set(pd.read_csv(io.StringIO(text))["role"]) == {"bracket"}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("nothing",), "it has composition, effects, heads"),
        (("scores", "--role", "nobody"), "no row of role 'nobody'; there are adjective"),
        (("weights", "--role", "bracket"), "has no roles"),
    ],
)
def test_mistakes_are_answered(folder: Path, arguments: tuple[str, ...], says: str) -> None:
    done = CliRunner().invoke(table, [str(folder), *arguments])
    assert isinstance(done.exception, ValueError)
    assert says in str(done.exception)


def test_without_verdicts_there_are_no_labelled_heads(tmp_path: Path) -> None:
    write_run(tmp_path, tables=("scores",))
    done = CliRunner().invoke(table, [str(tmp_path), "labelled"])
    assert "run `rolecall verdict` first" in str(done.exception)


def test_a_dossier_holds_what_the_tables_say(folder: Path) -> None:
    run = read_run(folder)
    facts = dossier(run, (1, 3))
    assert facts.name == "L1H3"
    held = run.tables["verdicts"].query("layer == 1 and head == 3")
    assert {role for role, _, _ in facts.reasons} == set(held["role"])
    assert len(facts.scores) == run.tables["scores"]["role"].nunique()
    assert {row["role"] for row in facts.scores if row["sure"]} == set(held["role"])
    effects = run.tables["effects"].query("layer == 1 and head == 3 and ablation == 'mean'")
    totals = [abs(row["total"]) for row in facts.effects]
    assert (
        totals
        == sorted(totals, reverse=True)
        == pytest.approx(sorted(effects["total"].abs(), reverse=True))
    )
    edges = run.tables["composition"].query("layer == 1 and head == 3")
    assert len(facts.fed_by) == min(len(edges), 6)


def test_the_terminal_tells_all_of_a_head(folder: Path) -> None:
    text = said(head, folder, "l1h3")
    for part in ("L1H3", "Where it looks", "What breaks without it", "Weights", "previous_token"):
        assert part in text
    assert "missing: examples of this head (rolecall head RUN L1H3 --model)" in text


def test_a_dossier_fits_a_terminal(folder: Path) -> None:
    lines = said(head, folder, "L1H3").splitlines()
    assert max(map(len, lines)) <= 80
    assert not [line for line in lines if "…" in line and not line.startswith("By template")]
    assert any(line.startswith("bracket*") for line in lines)
    assert any(line.startswith("* the model is not shown to do ") for line in lines)


def test_a_heads_evidence_is_saved_as_a_figure(folder: Path, tmp_path: Path) -> None:
    said(head, folder, "L1H3", "--figure", tmp_path / "profile")
    assert {path.suffix for path in tmp_path.iterdir()} == {".svg", ".pdf", ".png", ".csv"}


def test_a_head_has_a_page(folder: Path, tmp_path: Path) -> None:
    store(folder, "L1H3", "</p><script>")
    said(head, folder, "L1H3", "--html", tmp_path / "head.html")
    page = (tmp_path / "head.html").read_text(encoding="utf-8")
    assert "<h1>L1H3</h1>" in page
    assert "<script" not in page
    assert "previous token" in page
    assert "What breaks without it" in page


def test_partial_runs_have_dossiers_too(tmp_path: Path) -> None:
    text = said(head, write_run(tmp_path, tables=("scores",)), "L0H0")
    assert "missing: effects (rolecall ablate)" in text


def test_a_run_that_names_no_head_has_no_dossier(tmp_path: Path) -> None:
    draw_sensitivity().to_csv(tmp_path / "sensitivity.csv", index=False)
    done = CliRunner().invoke(head, [str(tmp_path), "L0H0"])
    assert "names a head; run `rolecall scan` into it first" in str(done.exception)


def store(folder: Path, name: str, token: str) -> None:
    example = {"head": name, "caption": "on it", "tokens": [token, " b"], "query": [1]}
    more = {"pattern": [[1.0], [0.5, 0.5]], "target": [0], "rivals": [], "raises": [token]}
    (folder / "attention").mkdir(exist_ok=True)
    text = json.dumps({"examples": [{**example, **more, "lowers": []}]})
    (folder / "attention" / "previous_token.json").write_text(text, encoding="utf-8")


@pytest.mark.parametrize("damaged", ["composition.parquet", "sensitivity.csv", "weights.parquet"])
@pytest.mark.parametrize("there", ["manifest.json", "no manifest"])
def test_a_damaged_table_costs_only_what_reads_it(tmp_path: Path, damaged: str, there: str) -> None:
    write_run(tmp_path)
    (tmp_path / damaged).write_bytes(b"")
    if there == "no manifest":
        (tmp_path / "manifest.json").unlink()
    assert said(table, tmp_path, "labelled")
    assert said(table, tmp_path, "effects")
    done = CliRunner().invoke(table, [str(tmp_path), damaged.partition(".")[0]])
    assert isinstance(done.exception, ValueError)
    assert damaged in str(done.exception)
    assert "make it again" in str(done.exception)


@pytest.mark.parametrize("form", ["html", "md"])
def test_with_out_nothing_is_written_to_the_run(tmp_path: Path, form: str) -> None:
    folder = write_run(tmp_path / "run", (2, 4), tables=("scores", "manifest"))
    before = sorted(folder.rglob("*"))
    said(report, folder, "--format", form, "--out", tmp_path / "else" / "page")
    assert sorted(folder.rglob("*")) == before
    assert (tmp_path / "else" / "figures" / "atlas.svg").is_file()


def test_a_run_that_cannot_be_written_to_is_told_of_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_run(tmp_path, (2, 4), tables=("scores",))

    def refuse(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("rolecall.reports.writable.TemporaryFile", refuse)
    done = CliRunner().invoke(report, [str(folder)])
    assert isinstance(done.exception, ValueError)
    assert "Read-only" in str(done.exception)
    assert "--out" in str(done.exception)
    assert not (folder / "report.html").exists()


def test_figures_that_cannot_be_written_are_told_of_before_the_page(tmp_path: Path) -> None:
    folder = write_run(tmp_path, (2, 4), tables=("scores",))
    (folder / "figures").write_text("a file", encoding="utf-8")
    done = CliRunner().invoke(report, [str(folder)])
    assert "--no-figures" in str(done.exception)
    assert not (folder / "report.html").exists()
    said(report, folder, "--no-figures")
    assert (folder / "report.html").is_file()


ODD = ("x\u202ey", "\0", "\x1b[31m", "[1]", "*a", "a|b<c>", "l\n\nm", "$x^2~\\", "größe–…×", "\r\t")


@pytest.mark.parametrize("n", [len(ODD), 5 * len(ODD)])
@pytest.mark.parametrize("caption", ["", "Of \u202ex_y"])
def test_latex_of_any_text_has_a_row_a_line_and_nothing_that_stops_it(n: int, caption: str) -> None:
    rows = pd.DataFrame({"a\n_b": (ODD * 5)[:n], "n": range(n)})
    text = as_latex(rows, caption=caption, label="tab:odd")
    assert sum(line.endswith(r"\\") for line in text.splitlines() if "&" in line) == n + 1
    assert all(letter.isprintable() or letter == "\n" for letter in text)
    assert not re.search(r"^[\[*]", text, re.MULTILINE)
    assert "$\\langle$U+202E$\\rangle$" in text
    assert "lualatex" not in text


def test_a_long_latex_table_goes_over_pages_with_its_head_on_each() -> None:
    short, long = (as_latex(pd.DataFrame({"n": range(n)}), caption="Of it") for n in (40, 41))
    assert r"\begin{tabular}" in short
    assert r"\begin{table}" in short
    assert "table}" not in long.replace("longtable}", "")
    assert r"\midrule\endhead" in long
    assert r"\caption{Of it}" in long
    assert long.startswith(r"% \usepackage{booktabs,longtable}")


@pytest.mark.parametrize("text", ["主语", "Ж", "∑"])
def test_latex_that_pdflatex_cannot_typeset_says_so_first(text: str) -> None:
    assert "xelatex or lualatex" in as_latex(pd.DataFrame({"a": [text]})).splitlines()[0]


def test_markdown_shows_any_text_as_it_is_on_one_line() -> None:
    shown = as_markdown(pd.DataFrame({"a_b": ["<b>", "*x*", "`c`", "a\nb", "\\|", "\0"]}))
    assert shown.splitlines() == [
        r"| a\_b |",
        "| --- |",
        r"| \<b> |",
        r"| \*x\* |",
        r"| \`c\` |",
        "| a<br>b |",
        r"| \\\| |",
        "| ⟨U+0000⟩ |",
    ]


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex")
@pytest.mark.parametrize("times", [1, 9])
def test_pdflatex_takes_it(tmp_path: Path, times: int) -> None:
    table = as_latex(pd.DataFrame({"a\n_b": ODD * times}), caption="Of \u202ex_y", label="tab:odd")
    packages = "\\documentclass{article}\\usepackage{booktabs,longtable}"
    text = f"{packages}\\begin{{document}}\n{table}\\end{{document}}\n"
    (tmp_path / "it.tex").write_text(text, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "it.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout[-600:]
