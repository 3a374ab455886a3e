"""What a reader takes from a figure: the names, the keys and the units are there and are true."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from matplotlib.text import Annotation, Text

from rolecall.reports.all_figures import draw_all
from rolecall.reports.atlas import atlas
from rolecall.reports.compare_figure import depth_comparison
from rolecall.reports.composition_figure import composition_graph
from rolecall.reports.depth import depth_profile
from rolecall.reports.effect_figures import KIND_MARKS, effect_forest, effect_heatmap
from rolecall.reports.emergence import emergence
from rolecall.reports.heatmap import role_heatmap
from rolecall.reports.palette import ROLE_COLOURS, text_colour
from rolecall.reports.point_labels import label_points
from rolecall.reports.precision_figure import recall_curve
from rolecall.reports.profile import evidence_profile
from rolecall.reports.pruning_figure import pruning_curves
from rolecall.reports.repair import total_direct_repair
from rolecall.reports.run import NO_LABEL, Run, labels_of, read_run
from rolecall.reports.saving import figure_name
from rolecall.reports.score_effect import leading, score_against_effect, scores_with_effects
from rolecall.reports.sensitivity_figure import label_sensitivity
from rolecall.reports.similarity import similarity_clusters
from tests.run_folders import draw_scores, write_run
from tests.test_reports import clipped, contrast, overlapping

Draw = Callable[[Run], Axes]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return read_run(write_run(tmp_path_factory.mktemp("run")))


def legend(axes: Axes) -> list[str]:
    figure = axes.get_figure(root=True)
    assert isinstance(figure, Figure)
    return [text.get_text() for found in figure.legends for text in found.get_texts()]


def with_tables(run: Run, **tables: pd.DataFrame) -> Run:
    return Run(run.folder, run.manifest, {**run.tables, **tables})


def helped(run: Run, effects: dict[tuple[str, int, int], float]) -> Run:
    """The run with these totals, everywhere else a head without pattern or effect."""
    table, scores = run.tables["effects"].copy(), run.tables["scores"].assign(p_max=1.0)
    table["total"] = 0.001
    for (task, layer, head), total in effects.items():
        at = (table["task"] == task) & (table["layer"] == layer) & (table["head"] == head)
        table.loc[at, "total"] = total
    table = table.assign(total_low=table["total"] - 0.05, total_high=table["total"] + 0.05)
    return with_tables(run, effects=table, scores=scores)


@pytest.mark.parametrize("columns", [1, 2])
def test_heads_of_large_effect_are_named_without_a_pattern(run: Run, columns: int) -> None:
    """Of either sign, even where another head takes the largest effects on several tasks."""
    told = {(task, 0, 1): 9.0 - i for i, task in enumerate(("induction", "coreference"))}
    told |= {("subject_verb", 2, 6): 5.3, ("duplicate_token", 3, 2): -4.0}
    axes = score_against_effect(helped(run, told), columns=columns)
    names = {text.get_text() for text in axes.texts}
    assert {"L2H6 subject verb", "L3H2 duplicate token"} <= names
    assert {"L0H1 induction", "L0H1 coreference"} <= names


def test_what_is_not_seen_or_not_done_does_not_lead(run: Run) -> None:
    told = {("induction", 0, 1): 3.0, ("bracket", 1, 1): 8.0}
    rows = scores_with_effects(helped(run, told))
    top = leading(rows, 8)
    assert [tuple(row) for row in top[["layer", "head"]].to_numpy()] == [(0, 1)]


def test_no_two_names_of_points_are_alike(run: Run) -> None:
    axes = score_against_effect(run, columns=2)
    shown = leading(scores_with_effects(run), 16)
    marked = {
        f"L{row.layer}H{row.head}" for row in shown[shown["significant"]].itertuples(index=False)
    }
    plain = [text.get_text() for text in axes.texts if " " not in text.get_text()]
    assert set(plain) <= marked  # those whose colour and mark tell the role
    rest = [text.get_text() for text in axes.texts if " " in text.get_text()]
    assert len(rest) == len(set(rest))


def test_the_rows_of_score_and_effect_draw_the_same_figure(run: Run, tmp_path: Path) -> None:
    score_against_effect(run, save=tmp_path / "one")
    score_against_effect(scores_with_effects(run), save=tmp_path / "two")
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def test_effects_have_the_units_that_were_measured(run: Run) -> None:
    assert "(logits or nats)" in score_against_effect(run).get_ylabel()
    loss = run.tables["effects"].query("metric == 'loss'")
    assert "(nats)" in score_against_effect(with_tables(run, effects=loss)).get_ylabel()
    assert "generic damage (nats)" in legend(effect_forest(run, "coreference"))


def test_crowded_points_are_named_further_off_with_a_line() -> None:
    axes = Figure(figsize=(3, 3)).subplots()
    x, y = [0.5, 0.5, 0.51, 0.5, 0.5, 0.51], [0.5, 0.51, 0.49, 0.52, 0.48, 0.5]
    axes.set(xlim=(0, 1), ylim=(0, 1))
    assert label_points(axes, x, y, [f"L{i}H1 induction" for i in range(6)]) == 6
    assert any(t.arrow_patch is not None for t in axes.texts if isinstance(t, Annotation))
    boxes = [Text.get_window_extent(text) for text in axes.texts]
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[i + 1 :])


def test_a_map_says_what_its_frames_and_hatches_are(run: Run) -> None:
    scores = run.tables["scores"].query("role == 'induction'")
    assert legend(role_heatmap(scores.assign(p_max=1.0), "induction")) == []
    assert legend(role_heatmap(scores.assign(p_max=0.01, margin_low=0.1), "induction")) == [
        "significant"
    ]
    part = scores.assign(p_max=1.0).query("layer != 1")
    assert legend(role_heatmap(part, "induction")) == ["no evidence"]
    seen = legend(effect_heatmap(run, "coreference", "mean", column="self_repair"))
    assert seen == ["total effect significant", "no value"]


def test_a_pdf_of_plain_letters_holds_one_font(run: Run, tmp_path: Path) -> None:
    scores = run.tables["scores"].query("role == 'induction'").assign(p_max=0.01, margin_low=0.1)
    assert legend(role_heatmap(scores, "induction", save=tmp_path / "map")) == ["significant"]
    assert (tmp_path / "map.pdf").read_bytes().count(b"/Type /FontDescriptor") == 1


def test_a_map_says_what_a_score_is_a_share_of(run: Run) -> None:
    assert role_heatmap(run, "subject_verb").get_title() == "subject verb (share of links hit)"
    assert role_heatmap(run, "induction").get_title() == "induction (share of attention)"
    assert role_heatmap(run, "induction", column="margin").get_title() == "induction"
    scores = run.tables["scores"].query("score_kind == 'hit'")
    assert evidence_profile(scores, (0, 0)).get_xlabel() == "score (share of links hit)"


def test_what_a_figure_marks_its_key_tells(run: Run) -> None:
    heads = labels_of(run)
    assert "effect without the pattern (1)" not in legend(atlas(heads))
    at = heads.index[heads["label"] == NO_LABEL][0]
    heads.loc[at, "tier"] = "D"
    assert "effect without the pattern (1)" in legend(atlas(heads))
    assert {"significant", "not significant"} <= set(legend(evidence_profile(run, (1, 3))))
    weak = run.tables["scores"].assign(p_max=1.0)
    assert "significant" not in legend(evidence_profile(weak, (1, 3)))


@pytest.mark.parametrize("draw", [similarity_clusters, composition_graph])
def test_a_head_with_a_role_is_told_in_grey_too(run: Run, draw: Draw) -> None:
    axes = draw(run)
    names = [t.get_text().split() for t in (*axes.texts, *axes.get_yticklabels())]
    letters = {name[1] for name in names if len(name) == 2 and name[0].startswith("L")}
    assert letters
    key = {text.split()[0] for text in legend(axes)}
    assert letters <= key


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("draw", [similarity_clusters, composition_graph])
def test_many_roles_fit_their_key(draw: Callable[..., Axes], columns: int, run: Run) -> None:
    axes = draw(run, columns=columns)
    assert not overlapping(axes), overlapping(axes)
    assert not clipped(axes), clipped(axes)


def test_kinds_of_replacement_are_told_apart_without_colour(run: Run) -> None:
    assert len(set(KIND_MARKS.values())) == len(KIND_MARKS)
    axes = effect_forest(run, "coreference")
    dots = [c for c in axes.collections if isinstance(c, PathCollection)]
    shapes = {
        str(c.get_label()): str(c.get_paths()[0].vertices.tolist())
        for c in dots
        if c.get_label() in ("zero", "mean")
    }
    assert len(set(shapes.values())) == len(shapes) == 2


def test_names_in_a_roles_colour_read_on_white() -> None:
    for role in ROLE_COLOURS:
        assert contrast(text_colour(role), "#FFFFFF") >= 4.5, role


def test_a_threshold_is_said_to_move_where_it_moved() -> None:
    """A threshold that is capped moves less than the others; no common factor is claimed."""
    rows = pd.DataFrame(
        {
            "threshold": ["alpha", "alpha", "dormant", "dormant"],
            "value": [0.05, 0.05, 0.9, 0.9],
            "moved_to": [0.0375, 0.0625, 0.675, 1.0],
            "flips": [0, 3, 2, 1],
        }
    )
    axes = label_sensitivity(rows)
    said = {text.get_text() for text in axes.texts}
    assert said == {"0 at 0.0375", "3 at 0.0625", "2 at 0.675", "1 at 1"}
    assert legend(axes) == ["lowered", "raised"]
    assert [t.get_text() for t in axes.get_yticklabels()] == ["alpha = 0.05", "dormant = 0.9"]


def test_a_model_of_one_layer_has_one_layer_on_the_axis() -> None:
    heads = pd.DataFrame(
        {"layer": 0, "head": range(4), "label": "induction", "tier": "A", "roles": "induction"}
    )
    axes = depth_profile(heads)
    assert axes.get_xticks().tolist() == [0]
    assert "largest dot: 4 heads" in axes.get_xlabel()


def odd(run: Run) -> Run:
    """The run with roles whose names have what markup, mathematics and legends take apart."""
    names = {"subject_verb": "a$b_c$<d>&", "coreference": "naïve ß", "induction": "_lead_$x"}

    def renamed(rows: pd.DataFrame) -> pd.DataFrame:
        held = [c for c in ("role", "task", "label", "roles", "order") if c in rows]
        return rows.assign(**{c: rows[c].replace(names, regex=False) for c in held})

    roles = {names.get(role, role): said for role, said in run.manifest["roles"].items()}
    tables = {name: renamed(rows) for name, rows in run.tables.items()}
    return Run(run.folder, {**run.manifest, "roles": roles}, tables)


ODD: dict[str, Draw] = {
    "a$b c$<d>&": lambda run: role_heatmap(run, "a$b_c$<d>&"),
    "a$b c$<d>& score": lambda run: pruning_curves(
        run.tables["pruning"].replace("_lead_$x", "a$b_c$<d>&"), "a$b_c$<d>&"
    ),
    "a$b c$<d>&, mean ablation": lambda run: total_direct_repair(run, "a$b_c$<d>&"),
    "naïve ß": lambda run: depth_profile(run),
}


@pytest.mark.parametrize("name", ODD)
def test_names_are_drawn_letter_by_letter(run: Run, name: str, tmp_path: Path) -> None:
    axes = ODD[name](odd(run))
    figure = axes.get_figure(root=True)
    assert isinstance(figure, Figure)
    with mpl.rc_context({"svg.fonttype": "none"}):
        figure.savefig(tmp_path / "x.svg")
    drawn = (tmp_path / "x.svg").read_text(encoding="utf-8")
    assert name.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;") in drawn


def test_every_run_is_in_the_key_of_a_comparison() -> None:
    runs = ("_hidden", "$a$", "a very long name of a model, 7B instruct")
    depths = pd.DataFrame(
        {"run": runs, "role": "induction", "heads": 1, "share": 0.1}
        | {"depth": 0.5, "first": 0.4, "last": 0.6}
    )
    axes = depth_comparison(depths)
    key = [text.strip() for text in legend(axes)]
    assert key[:2] == ["_hidden", "$a$"]
    assert key[2].startswith("a very long name")
    assert not clipped(axes), clipped(axes)


def test_one_step_of_training_is_beside_its_names(run: Run) -> None:
    axes = emergence({7: run})
    assert axes.get_xlim()[1] == 7


def test_recall_names_keep_off_the_mean() -> None:
    draw = np.random.default_rng(0)
    table = pd.DataFrame(
        {"role": f"role_{i}", "noise": noise, "recall": float(1 - noise * draw.random())}
        for i in range(6)
        for noise in (0.0, 0.1, 0.4)
    )
    axes = recall_curve(table)
    assert all("_" not in text.get_text() for text in axes.texts)
    assert not clipped(axes), clipped(axes)


def test_effects_of_key_groups_alone_are_said_not_to_be_drawn(run: Run, tmp_path: Path) -> None:
    groups = run.tables["effects"].assign(head=None)
    drawn = draw_all(with_tables(run, effects=groups), tmp_path)
    assert drawn.left_out["total-direct-induction"] == (
        "task 'induction' has no effects of single heads"
    )
    assert drawn.left_out["effects-induction-forest"] == drawn.left_out["total-direct-induction"]
    assert "atlas" in drawn.names


def test_groups_do_not_stand_among_heads(run: Run) -> None:
    effects = run.tables["effects"]
    group = effects.query("layer == 0 and head == 0").assign(head=None, heads="L0H0+L0H1", total=99)
    both = pd.concat([effects, group], ignore_index=True)
    for axes in (total_direct_repair(both, "induction"), effect_forest(both, "induction")):
        assert not any("+" in text.get_text() for text in axes.get_yticklabels())


def test_what_is_left_out_says_why(tmp_path: Path) -> None:
    found = read_run(write_run(tmp_path / "run", tables=("effects", "manifest")))
    left_out = draw_all(found, tmp_path / "figures").left_out
    assert left_out["atlas"] == "no scores: `rolecall scan` would add it"
    assert left_out["composition"] == "no composition: `rolecall weights` would add it"
    full = read_run(write_run(tmp_path / "full", (1, 4)))
    nothing = with_tables(full, composition=full.tables["composition"].iloc[:0])
    left_out = draw_all(nothing, tmp_path / "figures").left_out
    assert left_out == {"composition": "the composition table is empty"}


def test_effects_with_the_columns_of_the_design_alone_are_drawn(run: Run) -> None:
    bare = run.tables["effects"].drop(columns=["heads", "interpretable", "replaced_by", "kl"])
    assert effect_forest(bare, "induction").get_yticklabels()
    assert total_direct_repair(bare, "induction").get_yticklabels()
    assert effect_heatmap(bare, "induction", "mean").get_title()
    with pytest.raises(ValueError, match="no column 'kl'"):
        effect_heatmap(bare, "induction", "mean", column="kl")


def test_a_run_of_candidates_only_is_drawn(tmp_path: Path) -> None:
    """No role is significant anywhere: every figure says so and none fails."""
    scores = draw_scores((1, 3), seed=0).assign(p_max=1.0)
    drawn = draw_all(Run(tmp_path, {}, {"scores": scores}), tmp_path)
    assert {"atlas", "depth", "similarity"} <= set(drawn.names)


STRANGE = ("../out", "/abs", "a:b", "a b", "a/b", "a-b/", "x" * 400, "\0\n", ".", "..", "größe")


def test_a_name_of_a_figure_stays_in_its_folder_and_is_its_own() -> None:
    names = [figure_name("scores", name) for name in (*STRANGE, "a-b", "induction")]
    assert len(set(names)) == len(names)
    assert all(Path(name).name == name and len(name.encode()) < 200 for name in names)
    assert names[-1] == "scores-induction"


def test_figures_of_strange_names_stay_in_the_folder(tmp_path: Path) -> None:
    scores = draw_scores((2, 4), seed=0)
    new = dict(zip(scores["role"].unique(), STRANGE[:4], strict=False))
    renamed = scores[scores["role"].isin(new)].replace(new)
    drawn = draw_all(Run(tmp_path, {}, {"scores": renamed}), tmp_path / "a" / "figures")
    assert sum(name.startswith("scores-") for name in drawn.names) == 4
    assert {path.parent for path in tmp_path.rglob("*") if path.is_file()} == {
        tmp_path / "a" / "figures"
    }


def test_roles_of_a_table_are_read_whole() -> None:
    heads = pd.DataFrame(
        {
            "layer": [0],
            "head": [0],
            "label": ["nsubj:pass"],
            "tier": ["A"],
            "roles": ["nsubj:pass (A); obl(x), y (B)"],
        }
    )
    assert labels_of(heads)["roles"].tolist() == [("nsubj:pass", "obl(x), y")]


@pytest.mark.parametrize("n", [2, 12, 24, 60])
def test_runs_are_told_apart_on_a_figure_that_fits_a_page(n: int) -> None:
    rows = [(f"run {i}", role, 0.5, 0.4, 0.6) for i in range(n) for role in ROLE_COLOURS]
    table = pd.DataFrame(rows, columns=["run", "role", "depth", "first", "last"])
    axes = depth_comparison(table)
    marks = [c for c in axes.collections if isinstance(c, PathCollection)]
    looks = {
        (tuple(np.ravel(mark.get_facecolor())), mark.get_paths()[0].vertices.tobytes())
        for mark in marks
    }
    assert len(looks) == len(marks) == n
    figure = axes.get_figure(root=True)
    assert isinstance(figure, Figure)
    assert figure.get_figheight() <= 9


def test_what_the_readme_shows_in_a_notebook_has_a_rich_form(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each line of the example that is a value alone, and its last."""
    text = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    (example,) = [
        code for code in re.findall(r"```python\n(.*?)```", text, re.S) if "atlas(" in code
    ]
    (tmp_path / "rolecall-out").mkdir()
    (tmp_path / "rolecall-out" / "embedded").symlink_to(run.folder)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    shown = []
    for step in ast.parse(example).body:
        if isinstance(step, ast.Expr) and "samples" not in ast.unparse(step):
            shown.append(eval(ast.unparse(step), names))
        elif not isinstance(step, ast.Expr):
            exec(ast.unparse(step), names)
    assert len(shown) == 2
    for value in shown:
        ways = (getattr(value, name, None) for name in ("_repr_html_", "_repr_svg_"))
        assert any("<svg" in (way() or "") for way in ways if way is not None), value


@pytest.mark.parametrize("tables", [("scores",), ("effects",), ("scores", "heads", "verdicts")])
def test_a_run_draws_itself_whatever_it_has(tmp_path: Path, tables: tuple[str, ...]) -> None:
    found = read_run(write_run(tmp_path, (2, 4), tables=(*tables, "manifest"), name="<b>\u202e"))
    shown = found._repr_html_()
    assert "&lt;b&gt;" in shown
    assert "\u202e" not in shown
    assert ("<svg" in shown) == ("scores" in tables)
