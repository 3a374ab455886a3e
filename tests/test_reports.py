"""Figures: what they show is what the tables say, at any size, in files that open anywhere."""

from __future__ import annotations

import html
import json
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection, QuadMesh
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image

from rolecall.analyses.compare import role_depths
from rolecall.reports.all_figures import FIGURES, draw_all, figures_of
from rolecall.reports.atlas import atlas, cell_colour
from rolecall.reports.attention_figure import attention_figure
from rolecall.reports.compare_figure import depth_comparison
from rolecall.reports.composition_figure import composition_graph
from rolecall.reports.depth import depth_profile, role_layers
from rolecall.reports.effect_figures import effect_forest, effect_heatmap
from rolecall.reports.emergence import best_by_step, emergence
from rolecall.reports.heatmap import role_heatmap
from rolecall.reports.palette import LETTERS, PALE, ROLE_COLOURS, ink_on, role_colour, role_letters
from rolecall.reports.point_labels import label_points
from rolecall.reports.profile import evidence_profile
from rolecall.reports.pruning_figure import pruning_curves
from rolecall.reports.repair import largest, total_direct_repair
from rolecall.reports.run import NO_LABEL, Run, labels_of, parse_head, read_run, significant
from rolecall.reports.saving import save_figure
from rolecall.reports.score_effect import score_against_effect, scores_with_effects
from rolecall.reports.sensitivity_figure import label_sensitivity
from rolecall.reports.similarity import clustered, head_profiles, similarity_clusters
from rolecall.reports.ticks import step
from tests.run_folders import draw_scores, write_run

Draw = Callable[[Run, int], Axes]

DRAWN: dict[str, Draw] = {
    "map": lambda run, columns: role_heatmap(run, "previous_token", columns=columns),
    "margin": lambda run, columns: role_heatmap(run, "bracket", column="margin", columns=columns),
    "atlas": lambda run, columns: atlas(run, columns=columns),
    "profile": lambda run, columns: evidence_profile(run, (1, 3), columns=columns),
    "effect": lambda run, columns: score_against_effect(run, columns=columns),
    "depth": lambda run, columns: depth_profile(run, columns=columns),
    "repair": lambda run, columns: total_direct_repair(run, "induction", columns=columns),
    "pruning": lambda run, columns: pruning_curves(run, "coreference", columns=columns),
    "composition": lambda run, columns: composition_graph(run, columns=columns),
    "similarity": lambda run, columns: similarity_clusters(run, columns=columns),
    "sensitivity": lambda run, columns: label_sensitivity(run, columns=columns),
    "forest": lambda run, columns: effect_forest(run, "coreference", columns=columns),
    "effect map": lambda run, columns: effect_heatmap(run, "induction", "mean", columns=columns),
    "depths": lambda run, columns: depth_comparison(
        role_depths({n: labels_of(run) for n in ("one", "two")}, {"one": 5, "two": 5}),
        columns=columns,
    ),
    "emergence": lambda run, columns: emergence(
        {at: draw_scores(run.shape, seed=at) for at in (0, 100)}, columns=columns
    ),
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return read_run(write_run(tmp_path_factory.mktemp("run")))


def mesh(axes: Axes) -> np.ndarray:
    """The numbers of a map, [layer, head]."""
    (found,) = [c for c in axes.collections if isinstance(c, QuadMesh)]
    return np.ma.filled(found.get_array(), np.nan)


def test_c53_layers_are_rows_and_heads_columns(run: Run) -> None:
    grid = mesh(role_heatmap(run, "previous_token"))
    assert grid.shape == (5, 8)
    assert np.nanargmax(grid) == 11
    rows = run.tables["scores"].query("role == 'previous_token'")
    for row in rows.to_dict("records"):
        assert grid[row["layer"], row["head"]] == row["score"]


@pytest.mark.real
def test_c53_on_the_attention_of_a_real_model(stories: Path) -> None:
    import torch

    from rolecall.analyses.hooks import read_patterns
    from rolecall.analyses.models import load_model

    model = load_model(str(stories))
    text = (
        "Once upon a time, there was a little girl named Lily. "
        "She loved to play outside in the park."
    )
    parts = []

    def see(layer: int, pattern: torch.Tensor) -> None:
        scores = pattern[0].diagonal(offset=-1, dim1=-2, dim2=-1).mean(dim=-1)
        parts.extend((layer, head, float(score)) for head, score in enumerate(scores))

    read_patterns(model, model.tokenizer(text, return_tensors="pt").input_ids, see)
    rows = draw_scores((5, 8), seed=0).query("role == 'previous_token'")
    measured = pd.DataFrame(parts, columns=["layer", "head", "score"])
    rows = rows.drop(columns="score").merge(measured, on=["layer", "head"])
    grid = mesh(role_heatmap(rows, "previous_token"))
    assert grid.shape == (5, 8)
    assert np.argmax(grid) == 11
    assert grid[1, 3] == pytest.approx(0.6506, abs=1e-3)


def test_c54_many_heads_and_long_text_in_a_small_file(tmp_path: Path) -> None:
    started = time.perf_counter()
    tokens = [f"token number {i}" for i in range(300)]
    pattern = np.tril(np.random.default_rng(0).random((300, 300)))
    pattern /= pattern.sum(axis=1, keepdims=True)
    view = attention_figure(pattern, tokens, columns=2, save=tmp_path / "view")
    whole = role_heatmap(draw_scores((32, 32), seed=0), "induction", save=tmp_path / "map")
    assert time.perf_counter() - started < 20
    for name in ("view", "map"):
        assert (tmp_path / f"{name}.png").stat().st_size < 5e6
    assert len(view.get_xticklabels()) <= 60
    assert len(whole.get_xticklabels()) <= 32
    assert not overlapping(view)
    assert not overlapping(whole)


def test_c55_saved_rows_are_strict_json(tmp_path: Path) -> None:
    import torch

    from rolecall.analyses.tables import write_json
    from rolecall.reports.page import json_in_page

    value = {
        "score": np.float32(0.25),
        "one": torch.tensor(1.5),
        "none": float("nan"),
        "layer": np.int64(3),
    }

    def refuse(name: str) -> None:
        raise ValueError(f"{name} is no JSON")

    write_json(tmp_path / "x.json", value)
    for text in ((tmp_path / "x.json").read_text(encoding="utf-8"), str(json_in_page(value))):
        read = json.loads(text, parse_constant=refuse)
        assert read == {"score": 0.25, "one": 1.5, "none": None, "layer": 3}
        assert isinstance(read["layer"], int)


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("name", DRAWN)
def test_no_label_covers_another_or_leaves_the_figure(run: Run, name: str, columns: int) -> None:
    axes = DRAWN[name](run, columns)
    assert not overlapping(axes), overlapping(axes)
    assert not clipped(axes), clipped(axes)


def test_pruning_of_many_heads_has_ticks_that_can_be_read(run: Run) -> None:
    rows = run.tables["pruning"].query("task == 'coreference'")
    many = rows.assign(removed=rows["removed"] * 128)
    for columns in (1, 2):
        axes = pruning_curves(many, "coreference", columns=columns)
        assert not overlapping(axes), overlapping(axes)
        assert len(axes.get_xticks()) >= 5


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(30, 9), (80, 64), (2, 2), (12, 1)])
def test_figures_hold_at_other_sizes(shape: tuple[int, int], tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path, shape))
    for name, draw in DRAWN.items():
        if name == "profile":
            continue
        for columns in (1, 2):
            axes = draw(run, columns)
            assert not overlapping(axes), (name, columns, overlapping(axes))
            assert not clipped(axes), (name, columns, clipped(axes))


@pytest.mark.parametrize("columns", [1, 2])
def test_a_figure_is_as_wide_as_its_columns(run: Run, columns: int, tmp_path: Path) -> None:
    atlas(run, columns=columns, save=tmp_path / "atlas")
    with Image.open(tmp_path / "atlas.png") as picture:
        width = picture.width
    assert width == pytest.approx({1: 3.4, 2: 7.0}[columns] * 200, abs=1)


def test_a_figure_is_saved_four_times_with_its_rows(run: Run, tmp_path: Path) -> None:
    role_heatmap(run, "induction", save=tmp_path / "deep" / "map")
    kinds = {path.suffix for path in (tmp_path / "deep").iterdir()}
    assert kinds == {".svg", ".pdf", ".png", ".csv"}
    rows = pd.read_csv(tmp_path / "deep" / "map.csv")
    expected = run.tables["scores"].query("role == 'induction'")
    assert rows["score"].to_numpy() == pytest.approx(expected["score"].to_numpy())


def test_the_same_figure_gives_the_same_bytes(run: Run, tmp_path: Path) -> None:
    for name in ("one", "two"):
        atlas(run, save=tmp_path / name)
    for kind in ("svg", "pdf", "png", "csv"):
        one, two = ((tmp_path / f"{name}.{kind}").read_bytes() for name in ("one", "two"))
        assert one == two, kind


@pytest.mark.parametrize("name", DRAWN)
def test_text_stays_text(run: Run, tmp_path: Path, name: str) -> None:
    axes = DRAWN[name](run, 1)
    # Numbers on an axis are chosen anew for each file; words are not.
    words = {w for text in texts(axes) for w in text.get_text().split() if w[0].isalpha()}
    figure = axes.get_figure(root=True)
    assert figure is not None
    svg, pdf, _, _ = save_figure(figure, pd.DataFrame(), tmp_path / "figure")
    vector = html.unescape(svg.read_text(encoding="utf-8"))
    assert not [word for word in words if word not in vector]
    raw = pdf.read_bytes().replace(b" ", b"")
    assert b"/Type3" not in raw
    assert b"/FontFile2" in raw  # TrueType, embedded
    if shutil.which("pdftotext"):
        command = ["pdftotext", "-raw", str(pdf), "-"]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert not [word for word in words if word not in said.split()]


def test_saving_leaves_the_layout_to_the_user(run: Run, tmp_path: Path) -> None:
    figure = role_heatmap(run, "bracket").get_figure(root=True)
    assert figure is not None
    engine = figure.get_layout_engine()
    save_figure(figure, pd.DataFrame(), tmp_path / "x")
    assert figure.get_layout_engine() is engine


def test_what_the_user_set_stays(run: Run) -> None:
    with mpl.rc_context({"font.size": 23.0}):
        before = dict(mpl.rcParams)
        atlas(run)
        assert dict(mpl.rcParams) == before


def test_figures_leave_their_tables_alone(run: Run) -> None:
    before = {name: rows.copy() for name, rows in run.tables.items()}
    for draw in DRAWN.values():
        draw(run, 1)
    for name, rows in before.items():
        pd.testing.assert_frame_equal(rows, run.tables[name])


def test_heads_without_evidence_are_hatched_and_others_outlined(run: Run) -> None:
    scores = run.tables["scores"]
    rows = scores[(scores["role"] == "previous_token") & (scores["layer"] != 2)]
    axes = role_heatmap(rows, "previous_token")
    grid = mesh(axes)
    assert np.isnan(grid[2]).all()
    patches = [c for c in axes.collections if isinstance(c, PatchCollection)]
    hatched, framed = patches
    assert len(hatched.get_paths()) == 8
    assert len(framed.get_paths()) == int(significant(rows).sum()) == 1
    assert framed.get_paths()[0].get_extents().bounds == (3, 1, 1, 1)


def test_a_head_that_nobody_judged_is_not_said_to_lack_a_label(run: Run, tmp_path: Path) -> None:
    unjudged = read_run(write_run(tmp_path, tables=("scores", "manifest")))
    for shown, judged in ((run, True), (unjudged, False)):
        legend = " ".join(text.get_text() for text in texts(atlas(shown)))
        assert (NO_LABEL in legend) == judged
        assert ("stands out for no role" in legend) != judged


def test_the_atlas_never_forces_a_label(run: Run) -> None:
    heads = labels_of(run)
    drawn = [c for c in atlas(run).collections if isinstance(c, PatchCollection)][1]
    colours = [mpl.colors.to_hex(c).upper() for c in drawn.get_facecolor()]
    pale = [label == NO_LABEL for label in heads["label"]]
    assert 0 < sum(pale) < len(pale)
    assert [colour == PALE for colour in colours] == pale


def test_a_stronger_tier_is_a_stronger_colour() -> None:
    grey = [np.mean(mpl.colors.to_rgb(cell_colour("induction", tier))) for tier in ("A", "B", "C")]
    assert grey[0] < grey[1] - 0.05 < grey[2] - 0.1


def test_without_verdicts_the_atlas_shows_candidates_only(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path, tables=("scores",)))
    heads = labels_of(run)
    shown = run.tables["scores"][significant(run.tables["scores"])]
    named = heads[heads["label"] != NO_LABEL]
    assert set(named["tier"]) == {"pattern only"}
    assert len(named) == len(shown[["layer", "head"]].drop_duplicates())


def test_roles_are_told_apart_by_letters_colour_and_ink() -> None:
    roles = [*LETTERS, "my_own_role", "my_other_role", "mine"]
    letters = role_letters(roles)
    assert len(set(letters.values())) == len(roles)
    assert all(len(two) == 2 for two in letters.values())
    assert len(set(ROLE_COLOURS.values())) == len(ROLE_COLOURS)
    for role in roles:
        assert contrast(role_colour(role), ink_on(role_colour(role))) > 4.5


def test_a_profile_has_a_bar_for_every_role(run: Run, tmp_path: Path) -> None:
    evidence_profile(run, (1, 3), save=tmp_path / "profile")
    rows = pd.read_csv(tmp_path / "profile.csv")
    assert len(rows) == run.tables["scores"]["role"].nunique()
    assert set(zip(rows["layer"], rows["head"], strict=True)) == {(1, 3)}
    with pytest.raises(ValueError, match=r"no head L9H9 .* L4H7"):
        evidence_profile(run, (9, 9))


def test_depth_counts_every_role_of_every_head(run: Run) -> None:
    heads = labels_of(run)
    counts = role_layers(heads)
    assert counts["heads"].sum() == sum(len(roles) for roles in heads["roles"])
    three = [
        roles for layer, roles in zip(heads["layer"], heads["roles"], strict=True) if layer == 3
    ]
    assert counts.query("layer == 3")["heads"].sum() == sum(map(len, three))


def test_effects_stand_beside_the_scores_of_the_same_head(run: Run) -> None:
    rows = scores_with_effects(run)
    assert set(rows["role"]) <= set(run.tables["effects"]["task"])
    one = rows.iloc[7]
    effects = run.tables["effects"].query("ablation == 'mean'").set_index(["task", "layer", "head"])
    assert one["total"] == effects.loc[(one["role"], one["layer"], one["head"]), "total"]


def test_the_largest_effects_are_shown(run: Run) -> None:
    rows = run.tables["effects"].query("task == 'coreference' and ablation == 'zero'")
    top = largest(rows, 3)
    assert np.abs(top["total"]).max() == np.abs(rows["total"]).max()
    with pytest.raises(ValueError, match="no task 'nothing'"):
        total_direct_repair(run, "nothing")


def test_a_task_that_the_model_cannot_do_is_not_shown_as_an_effect(run: Run) -> None:
    rows = scores_with_effects(run)
    assert not rows.query("role == 'bracket'")["usable"].any()
    assert rows.query("role == 'coreference'")["usable"].all()
    names = [t.get_text() for t in score_against_effect(run).figure.legends[0].get_texts()]
    assert "bracket (task not done)" in names
    assert "coreference" in names
    title = total_direct_repair(run, "bracket").get_title(loc="left")
    assert "the model cannot do this task" in title
    assert "(logits;" in total_direct_repair(run, "coreference").get_xlabel()
    assert "(nats;" in total_direct_repair(run, "induction").get_xlabel()


def test_no_name_covers_a_point() -> None:
    axes = Figure(figsize=(3, 3)).subplots()
    x, y = [0.0, 1.0, 1.2], [0.0, 1.0, 1.0]
    axes.scatter(x, y)
    written = label_points(axes, x[:2], y[:2], ["one", "a long name"], avoid=[(1.2, 1.0)])
    assert written == 2
    (name,) = [t for t in axes.texts if t.get_text() == "a long name"]
    point = axes.transData.transform((1.2, 1.0))
    assert not name.get_window_extent().contains(*point)


def test_lines_and_dots_are_told_apart_without_colour(run: Run) -> None:
    axes = pruning_curves(run, "induction")
    looks = [(line.get_linestyle(), line.get_marker()) for line in axes.lines]
    assert len(set(looks)) == len(looks) == 4
    dots = score_against_effect(run).collections[1:]
    shapes = {str(drawn.get_paths()[0].vertices.tolist()) for drawn in dots}
    assert len(shapes) == len(dots) > 2


def test_more_than_all_of_an_effect_made_good_has_no_size(run: Run) -> None:
    rows = run.tables["effects"].query("task == 'coreference'")
    axes = total_direct_repair(rows.assign(self_repair=10.4), "coreference")
    said = {text.get_text() for text in axes.texts}
    assert said == {"repaired", "> 100 %"}


@pytest.mark.parametrize("steps", [(0, 1000, 4000, 16000), (0, 1, 2, 4, 512, 1000, 143000), (7,)])
@pytest.mark.parametrize("columns", [1, 2])
def test_steps_of_training_are_told_apart(steps: tuple[int, ...], columns: int) -> None:
    runs = {step: draw_scores((2, 4), seed=step) for step in steps}
    axes = emergence(runs, columns=columns)
    assert not overlapping(axes), overlapping(axes)
    assert not clipped(axes), clipped(axes)
    assert set(axes.get_xticks()) <= set(steps)
    assert steps[0] in axes.get_xticks()


def test_emergence_follows_the_best_head() -> None:
    runs = {step: draw_scores((5, 8), seed=step) for step in (0, 10)}
    rows = best_by_step(runs).set_index(["role", "step"])
    for at, scores in runs.items():
        best = scores.query("role == 'bracket'")["score"].max()
        assert rows.loc[("bracket", at), "score"] == best


def test_heads_with_one_profile_are_one_cluster() -> None:
    scores = draw_scores((2, 4), seed=0)
    twin = scores.query("layer == 0 and head == 1")
    copy = twin.assign(layer=1, head=2)
    others = scores.query("not (layer == 1 and head == 2)")
    profiles = head_profiles(pd.concat([others, copy]))
    ordered, clusters = clustered(profiles)
    cluster = dict(zip(ordered.index, clusters, strict=True))
    assert cluster["L0H1"] == cluster["L1H2"]


def test_all_figures_that_the_tables_allow(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path, tables=("scores", "manifest")))
    drawn = list(draw_all(run, tmp_path / "figures").names)
    roles = sorted(set(run.tables["scores"]["role"]))
    assert drawn == ["atlas", "depth", "similarity", *(f"scores-{role}" for role in roles)]
    assert {path.stem for path in (tmp_path / "figures").iterdir()} == set(drawn)


def test_a_whole_run_has_every_figure(run: Run) -> None:
    names = [name for name, _ in figures_of(run)]
    assert set(FIGURES) <= set(names)
    assert "effects-induction-forest" in names
    assert "total-direct-coreference" in names
    assert "pruning-coreference" in names
    assert len(names) == len(set(names))


def test_empty_things_say_why_they_are_empty(tmp_path: Path) -> None:
    scores = draw_scores((2, 2), seed=0).assign(p_max=1.0)
    axes = depth_profile(labels_of(Run(tmp_path, {}, {"scores": scores})))
    assert "no head has a label" in {text.get_text() for text in axes.texts}
    axes = depth_comparison(
        pd.DataFrame(columns=["run", "role", "heads", "share", "depth", "first", "last"])
    )
    assert any("no head" in text.get_text() for text in axes.texts)


@pytest.mark.parametrize(
    ("draw", "says"),
    [
        (lambda run: role_heatmap(run, "nope"), "no role 'nope'; it has adjective"),
        (lambda run: role_heatmap(run, "bracket", column="nope"), "no column 'nope'"),
        (lambda run: atlas(run, columns=3), "1 or 2 columns wide, not 3"),
        (lambda run: attention_figure([[1.0]], ["a", "b"]), "2 × 2, not 1 × 1"),
        (lambda run: parse_head("L5", run), "is named like L5H1"),
        (lambda run: parse_head("L5H0", run), "no head L5H0; they go from L0H0 to L4H7"),
    ],
)
def test_errors_say_the_way_out(run: Run, draw: Callable[[Run], object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        draw(run)


def test_a_folder_without_tables_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="run `rolecall scan` into it first"):
        read_run(tmp_path)
    with pytest.raises(ValueError, match="is no folder"):
        read_run(tmp_path / "nowhere")
    (tmp_path / "heads.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(ValueError, match="is not rolecall's heads table"):
        read_run(tmp_path).table("heads")


@pytest.mark.parametrize(("n", "most"), [(1, 5), (24, 24), (25, 24), (300, 60), (5120, 7)])
def test_thinning_keeps_at_most_so_many(n: int, most: int) -> None:
    assert len(range(0, n, step(n, most))) <= most + 1


def test_saving_gives_the_paths(run: Run, tmp_path: Path) -> None:
    figure = role_heatmap(run, "bracket").get_figure(root=True)
    assert figure is not None
    paths = save_figure(figure, pd.DataFrame({"a": [1]}), tmp_path / "x.y")
    assert [path.name for path in paths] == ["x.y.svg", "x.y.pdf", "x.y.png", "x.y.csv"]
    assert all(path.stat().st_size for path in paths)


def texts(axes: Axes) -> list[Text]:
    """Every text that can be seen, after the layout is known."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()
    beyond = set()  # ticks that are kept for later, and not drawn
    for axis in (axis for part in figure.axes for axis in (part.xaxis, part.yaxis)):
        drawn = {id(tick) for tick in axis._update_ticks()}
        spare = [t for t in (*axis.majorTicks, *axis.minorTicks) if id(t) not in drawn]
        beyond |= {id(label) for tick in spare for label in (tick.label1, tick.label2)}
    found = [text for text in figure.findobj(Text) if isinstance(text, Text)]
    return [t for t in found if t.get_visible() and t.get_text().strip() and id(t) not in beyond]


def overlapping(axes: Axes) -> list[tuple[str, str]]:
    """Pairs of texts that cover one another by more than a hair."""
    # Text's own extent: an annotation's would hold its arrow too.
    boxes = [(t.get_text(), Text.get_window_extent(t).padded(-0.6)) for t in texts(axes)]
    boxes = [(said, box) for said, box in boxes if box.width > 0 and box.height > 0]
    return [
        (a, b)
        for i, (a, one) in enumerate(boxes)
        for b, two in boxes[i + 1 :]
        if one.overlaps(two) and (a, one.bounds) != (b, two.bounds)
    ]


def clipped(axes: Axes) -> list[str]:
    """Texts that reach out of the figure."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    page = figure.bbox.padded(1.5)
    found = []
    for text in texts(axes):
        box = Text.get_window_extent(text)
        if box.x0 < page.x0 or box.x1 > page.x1 or box.y0 < page.y0 or box.y1 > page.y1:
            found.append(text.get_text())
    return found


def contrast(one: str, other: str) -> float:
    """WCAG's contrast ratio."""

    def luminance(colour: str) -> float:
        channels = np.array(mpl.colors.to_rgb(colour))
        linear = np.where(
            channels <= 0.03928, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4
        )
        return float(linear @ [0.2126, 0.7152, 0.0722])

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)
