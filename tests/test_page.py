"""The report page: true sentences, nothing that can break it, no network, the same bytes."""

from __future__ import annotations

import html
import json
import re
from importlib import resources
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner
from markdown_it import MarkdownIt

from rolecall.reports.attention_view import (
    AttentionView,
    Seen,
    attention_arcs,
    attention_matrix,
    marked_words,
    summary,
    window,
)
from rolecall.reports.dossier import dossier
from rolecall.reports.head_page import head_html
from rolecall.reports.matters import RoleStory, headline, role_stories
from rolecall.reports.page import atlas_grid, linked, report_html, report_markdown
from rolecall.reports.page_data import page_data
from rolecall.reports.palette import (
    GROUNDS,
    ROLE_COLOURS,
    TIER_STRENGTH,
    blended,
    inks_on_cell,
    role_colour,
)
from rolecall.reports.redundancy import repaired
from rolecall.reports.report_command import report
from rolecall.reports.reproduce import commands
from rolecall.reports.run import NO_LABEL, Run, labels_of, read_run
from tests.run_folders import manifest, write_run
from tests.test_reports import contrast

NASTY = '</script><img src=x onerror="alert(1)">'


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = write_run(tmp_path_factory.mktemp("run"))
    store_sample(folder, "coreference", "L4H2")
    return read_run(folder)


@pytest.fixture(scope="module")
def page(run: Run) -> str:
    return report_html(run)


def store_sample(folder: Path, role: str, head: str, tokens: tuple[str, ...] = ()) -> None:
    """Nothing; keeps one example of a head."""
    tokens = tokens or ("<s>", " Mary", " saw", " Tom", " and", " she", " left")
    n = len(tokens)
    rows = [[0.1] * q + [1 - 0.1 * q] for q in range(n)]
    example = {"head": head, "caption": "on a typical example", "tokens": tokens, "pattern": rows}
    links = {"query": [n - 2], "target": [1], "rivals": [[3]]}
    writes = {"raises": [" her", " she"], "lowers": [" it"]}
    (folder / "attention").mkdir(exist_ok=True)
    text = json.dumps({"role": role, "examples": [{**example, **links, **writes}]})
    (folder / "attention" / f"{role}.json").write_text(text, encoding="utf-8")


def data_of(page: str) -> dict:
    """What the page's script reads, as strict JSON."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert found is not None

    def refuse(name: str) -> None:
        raise ValueError(f"{name} is no JSON")

    return json.loads(found[1], parse_constant=refuse)


def said(page: str) -> str:
    """The page's text."""
    body = re.sub(r"<(script|style).*?</\1>", " ", page, flags=re.S)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", body)).split())


def test_which_heads_do_coreference_and_does_it_matter(run: Run, page: str) -> None:
    (story,) = [s for s in role_stories(run) if s.role == "coreference"]
    verdicts = run.tables["verdicts"].query("role == 'coreference'")
    names = {f"L{layer}H{head}" for layer, head in verdicts[["layer", "head"]].to_numpy()}
    assert set(story.tiers) == names
    best = max(story.heads, key=lambda head: head["total"])
    assert story.verdict == "yes"
    assert f"removing {best['name']} lowers the logit difference on coreference" in story.sentence
    assert f"{best['total']:.2f}" in story.sentence
    first = page.index(">Which heads do what, and does it matter?<")
    link = page.index('href="#role-coreference">coreference</a>')
    assert first < link < page.index(">Atlas</h2>")


def test_the_headline_counts_heads(run: Run) -> None:
    heads = labels_of(run)
    named = int((heads["label"] != NO_LABEL).sum())
    none = 40 - named
    assert headline(run)[0] == (
        f"{named} of 40 heads have a clean label; the other {none} have none."
    )
    tiers = heads.loc[heads["label"] != NO_LABEL, "tier"].value_counts()
    assert tiers["A"] > 1
    assert headline(run)[1].startswith("Of those with a label, ")
    assert f"{tiers['A']} matter for their role above all (A)" in headline(run)[1]


def test_of_one_head_the_headline_speaks_in_the_singular(tmp_path: Path) -> None:
    heads = pd.DataFrame({"layer": [0, 0], "head": [0, 1], "label": ["x", NO_LABEL]})
    heads = heads.assign(tier=["A", None], roles=["x (A)", None])
    tables = {"scores": pd.DataFrame(), "effects": pd.DataFrame(), "heads": heads}
    said = headline(Run(tmp_path, {}, tables))
    assert said == (
        "1 of 2 heads has a clean label; the other 1 has none.",
        "Of those with a label, 1 matters for its role above all (A).",
    )


def test_a_role_without_heads_says_so_and_names_the_nearest(run: Run) -> None:
    without = [s for s in role_stories(run) if not s.heads]
    assert without
    for story in without:
        assert story.verdict == "no head"
        rows = run.tables["scores"].query(f"role == '{story.role}'")
        best = rows.sort_values("score").iloc[-1]
        assert f"L{best['layer']}H{best['head']}: score {best['score']:.2f}" in story.sentence
        assert f"{best['baseline']:.2f} by the best simpler account" in story.sentence
        if story.role in set(run.tables["effects"]["task"]):
            assert f"effect on {story.role} " in story.sentence


def test_a_helper_is_no_head_of_the_role(tmp_path: Path) -> None:
    write_run(tmp_path)
    verdicts = pd.read_parquet(tmp_path / "verdicts.parquet")
    verdicts.loc[verdicts["role"] == "coreference", ["tier", "effect"]] = ["D", "helps"]
    verdicts.to_parquet(tmp_path / "verdicts.parquet", index=False)
    near = {
        "layer": 0,
        "head": 0,
        "role": "coreference",
        "reasons": "score at least 0.1, needs 0.5",
    }
    scores = pd.read_parquet(tmp_path / "scores.parquet")
    first = scores.query("role == 'coreference'").nlargest(1, "score").iloc[0]
    near = {"layer": first["layer"], "head": first["head"], "role": "coreference"}
    pd.DataFrame([{**near, "reasons": "score at least 0.1, needs 0.5"}]).to_csv(
        tmp_path / "near_misses.csv", index=False
    )
    run = read_run(tmp_path)
    (story,) = [s for s in role_stories(run) if s.role == "coreference"]
    assert story.heads == ()
    assert story.verdict == "no head"
    assert "No head has a clean label" in story.sentence
    assert "it lacks: score at least 0.1, needs 0.5" in story.sentence
    names = {head["name"] for head in story.helpers}
    helping = verdicts.query("tier == 'D'")[["layer", "head"]].to_numpy()
    assert names == {f"L{layer}H{number}" for layer, number in helping}
    strongest = max(story.helpers, key=lambda head: head["total"])
    assert f"does need {strongest['name']} (+{strongest['total']:.2f}, p = 0.010" in story.sentence
    assert "its effect elsewhere" in story.sentence
    assert "(tier D: p < 0.05 over all heads and tasks)" in story.sentence
    page = report_html(run)
    section = said(page[page.index('id="role-coreference"') :].split("</section>")[0])
    assert "The nearest heads; none has this role" in section
    assert "Helpers: the task needs them" in section
    assert "Heads with this role" not in section


def test_heads_that_matter_together_only_are_said_to(tmp_path: Path) -> None:
    write_run(tmp_path)
    verdicts = pd.read_parquet(tmp_path / "verdicts.parquet")
    ours = verdicts["role"] == "coreference"
    assert ours.sum() > 1
    verdicts.loc[ours, ["tier", "effect"]] = ["C", "unclear"]
    verdicts.to_parquet(tmp_path / "verdicts.parquet", index=False)
    (story,) = [s for s in role_stories(read_run(tmp_path)) if s.role == "coreference"]
    rows = pd.read_parquet(tmp_path / "pruning.parquet").query("task == 'coreference'")
    at = rows[rows["removed"] == ours.sum()].set_index("order")["value"]
    clean = rows[(rows["removed"] == 0) & (rows["order"] == "coreference")]["value"].item()
    assert story.verdict == "yes, together"
    assert ours.sum() == 2
    assert "removing both at once takes the logit difference" in story.sentence
    assert f"from {clean:.2f} to {at['coreference']:.2f}" in story.sentence
    assert f"as many drawn at random: to {at['random']:.2f}" in story.sentence
    verdicts.loc[ours, ["tier", "effect"]] = ["A", "helps"]
    verdicts.to_parquet(tmp_path / "verdicts.parquet", index=False)
    (story,) = [s for s in role_stories(read_run(tmp_path)) if s.role == "coreference"]
    assert story.verdict == "yes"
    assert "removing both at once" in story.sentence
    verdicts.loc[ours, ["tier", "effect"]] = ["C", "unclear"]
    verdicts.to_parquet(tmp_path / "verdicts.parquet", index=False)
    # Of another set of heads than the labelled ones nothing is said.
    pruned = pd.read_parquet(tmp_path / "pruning.parquet").assign(heads="L0H0")
    pruned.to_parquet(tmp_path / "pruning.parquet", index=False)
    (story,) = [s for s in role_stories(read_run(tmp_path)) if s.role == "coreference"]
    assert story.verdict == "not detected"
    assert "at once" not in story.sentence


def test_a_role_without_a_task_is_not_tested(run: Run) -> None:
    (story,) = [s for s in role_stories(run) if s.role == "previous_token"]
    assert story.verdict == "not tested"
    assert "no behaviour hangs on it alone" in story.sentence


def test_every_head_role_and_reason_is_there(run: Run, page: str) -> None:
    data = data_of(page)
    assert len(data["layer"]) == 40
    scores = run.tables["scores"].query("role == 'bracket' and layer == 3 and head == 5")
    at = next(i for i in range(40) if (data["layer"][i], data["head"][i]) == (3, 5))
    assert data["scores"]["bracket"]["score"][at] == pytest.approx(scores["score"].item(), abs=5e-4)
    assert sum(map(len, data["reasons"].values())) == len(run.tables["verdicts"])
    effects = run.tables["effects"].query(
        "task == 'coreference' and layer == 3 and head == 5 and ablation == 'mean'"
    )
    effect = data["effects"]["coreference"]["total"][at]
    assert effect == pytest.approx(effects["total"].item(), abs=5e-4)
    assert data["writes"]["L4H2"][2] == [" her", " she"]


def test_a_number_of_the_page_shows_the_decimals_of_the_number_itself(tmp_path: Path) -> None:
    write_run(tmp_path)
    scores = pd.read_parquet(tmp_path / "scores.parquet")
    scores["score"] = [0.7648 if i % 2 else -0.0146 + i / 997 for i in range(len(scores))]
    scores["chance"] = 0.1249
    scores.to_parquet(tmp_path / "scores.parquet")
    for role, shown in page_data(read_run(tmp_path))["scores"].items():
        true = scores[scores["role"] == role].sort_values(["layer", "head"])["score"]
        assert [f"{x:.2f}" for x in shown["score"]] == [f"{x:.2f}" for x in true]
        assert f"{shown['chance']:.2f}" == "0.12"


def test_the_page_needs_no_network(page: str) -> None:
    page = page.replace("http://www.w3.org/2000/svg", "")
    assert "http:" not in page
    assert "https:" not in page
    assert not re.search(r'<(script|link|img|iframe)[^>]*(src|href)="(?!data:)', page)
    assert "default-src 'none'" in page


def test_text_from_outside_cannot_break_the_page(tmp_path: Path) -> None:
    write_run(tmp_path, name=NASTY)
    store_sample(tmp_path, "coreference", "L4H2", ("<s>", NASTY, " it", "</p>", " q", " r", " s"))
    whole = manifest((5, 8), NASTY)
    whole["roles"]["induction"] |= {"definition": NASTY, "source": NASTY, "dropped": {NASTY: 3}}
    (tmp_path / "manifest.json").write_text(json.dumps(whole), encoding="utf-8")
    verdicts = pd.read_parquet(tmp_path / "verdicts.parquet").assign(reasons=NASTY)
    verdicts.to_parquet(tmp_path / "verdicts.parquet", index=False)
    page = report_html(read_run(tmp_path))
    assert page.count("</script>") == 2
    assert "<img" not in page
    assert NASTY in said(page)
    reasons = data_of(page)["reasons"].values()
    assert {why for held in reasons for _, _, why in held} == {NASTY}


def test_a_head_name_becomes_a_link_and_nothing_else_does() -> None:
    made = str(linked("L1H2 <b> xL3H4 L5H60", {"L1H2": "A"}))
    assert made.count("<a ") == 2
    assert 'href="#L1H2">L1H2 <span class="tier">A</span>' in made
    assert "&lt;b&gt; xL3H4" in made


def test_self_repair_that_is_told_is_one(tmp_path: Path) -> None:
    write_run(tmp_path)
    effects = pd.read_parquet(tmp_path / "effects.parquet").query("ablation == 'mean'")
    effects = effects.query("task in ('coreference', 'bracket')").assign(direct=1.0, total=0.5)
    effects["self_repair"] = 0.5
    effects.loc[effects["layer"] == 0, "direct"] = 0.001  # negligible
    effects.loc[effects["layer"] == 1, "direct"] = -1.0  # harms
    effects.loc[effects["layer"] == 2, "self_repair"] = 10.4  # not repaired, but turned
    effects.to_parquet(tmp_path / "effects.parquet", index=False)
    told = repaired(read_run(tmp_path))
    assert {row["task"] for row in told} == {"coreference"}  # bracket is not done by the model
    assert {row["layer"] for row in told} == {3, 4}


def test_heads_that_were_not_ablated_are_named(tmp_path: Path) -> None:
    write_run(tmp_path)
    verdicts = pd.read_parquet(tmp_path / "verdicts.parquet")
    (tmp_path / "pruning.parquet").unlink()
    effects = pd.read_parquet(tmp_path / "effects.parquet")
    ours = verdicts.query("role == 'coreference'")
    one, other = ours[["layer", "head"]].to_numpy().tolist()
    verdicts.loc[ours.index, "tier"] = "C"
    verdicts.loc[ours.index, "effect"] = ["unknown", "unclear"]
    verdicts.to_parquet(tmp_path / "verdicts.parquet", index=False)
    gone = (effects["layer"] == one[0]) & (effects["head"] == one[1])
    effects[~gone].to_parquet(tmp_path / "effects.parquet", index=False)
    (story,) = [s for s in role_stories(read_run(tmp_path)) if s.role == "coreference"]
    assert story.verdict == "not detected"
    assert f"(not tested: L{one[0]}H{one[1]})" in story.sentence
    verdicts.drop(verdicts.query(f"layer == {one[0]} and head == {one[1]}").index).to_parquet(
        tmp_path / "verdicts.parquet", index=False
    )
    (story,) = [s for s in role_stories(read_run(tmp_path)) if s.role == "coreference"]
    assert [head["name"] for head in story.heads] == [f"L{other[0]}H{other[1]}"]
    assert "No effect of removing it was detected on coreference." in story.sentence


@pytest.mark.parametrize(
    ("tables", "lacks"),
    [
        (("scores",), "effects (rolecall ablate)"),
        (("scores", "manifest"), "heads (rolecall verdict)"),
        (("scores", "effects", "manifest"), "weights (rolecall weights)"),
        (("scores", "verdicts", "heads", "manifest"), "effects (rolecall ablate)"),
        (("effects", "manifest"), "scores (rolecall scan)"),
    ],
)
def test_partial_runs_report_what_is_there(
    tmp_path: Path, tables: tuple[str, ...], lacks: str
) -> None:
    run = read_run(write_run(tmp_path, tables=tables))
    text = said(report_html(run))
    listed = text[text.index("Not in this run:") :].replace(" ( ", " (").replace(" )", ")")
    assert lacks in listed
    markdown = report_markdown(run)
    assert "Not in this run:" in markdown
    if "scores" in tables:
        assert "coreference" in text
    if "heads" not in tables and "scores" in tables:
        assert "No verdicts were worked out in this run" in text


def test_the_same_run_gives_the_same_bytes(run: Run, page: str) -> None:
    assert report_html(read_run(run.folder)) == page


def test_a_thousand_heads_stay_small(tmp_path: Path) -> None:
    page = report_html(read_run(write_run(tmp_path, (32, 32))))
    assert len(page.encode()) < 5e6
    assert len(data_of(page)["layer"]) == 1024


def test_markdown_says_the_same(run: Run) -> None:
    text = report_markdown(run)
    for story in role_stories(run):
        assert f"| {story.title} | {story.verdict} | {story.sentence} |" in text
    assert "rolecall report RUN" in text
    widths = {line.count("|") for line in text.splitlines() if line.startswith("| coreference")}
    assert widths == {4}


def test_the_commands_make_the_run_again(run: Run, tmp_path: Path) -> None:
    assert commands(run)[0] == "rolecall scan drawn-model -n 96 --seed 0 --out RUN"
    spaced = Run(tmp_path, manifest((5, 8), "my model"), {"scores": run.tables["scores"]})
    assert commands(spaced)[0].startswith("rolecall scan 'my model' ")


def test_the_command_writes_the_page_and_the_figures(tmp_path: Path) -> None:
    write_run(tmp_path, tables=("scores", "manifest"))
    done = CliRunner().invoke(report, [str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "report.html").is_file()
    assert (tmp_path / "figures" / "atlas.pdf").is_file()
    assert "no effects: `rolecall ablate` would add it" in done.output
    done = CliRunner().invoke(report, [str(tmp_path), "--format", "md", "--no-figures"])
    assert (tmp_path / "report.md").read_text(encoding="utf-8").startswith("# drawn-model")


def seen(n: int = 7) -> Seen:
    """A head that looks back from the last token, mostly at the second."""
    rows = tuple(tuple([1.0] + [0.0] * q) for q in range(n - 1))
    last = (0.1, 0.8, *[0.0] * (n - 4), 0.06, 0.04)
    tokens = tuple(f" t{i}" for i in range(n))
    return Seen("L1H3", tokens, (*rows, last), query=(n - 1,), target=(1,), rivals=((n - 2,),))


def test_arcs_tell_every_number_on_hover() -> None:
    drawn = attention_arcs(seen())
    assert "0.800 to ‘t1’ right key" in drawn
    assert "0.060 to ‘t5’ rival" in drawn
    assert drawn.count("<path") == 4
    assert summary(seen()).startswith("L1H3 from ‘t6’: 0.80 to ‘t1’ (right key), 0.10 to ‘t0’")


def test_a_matrix_has_a_cell_for_all_that_can_be_seen() -> None:
    assert attention_matrix(seen()).count("<rect") == 6 + 4


def test_long_text_is_cut_to_a_window_round_the_link() -> None:
    long = seen(300)
    shown = window(long)
    assert len(shown) == 40
    assert {0, 1, 298, 299} <= set(shown)
    assert " … " in marked_words(long)
    for drawn in (attention_arcs(long), attention_matrix(long)):
        assert len(drawn) < 60_000
        assert drawn.count("<text") <= 82


def test_marks_name_query_key_and_rivals() -> None:
    words = marked_words(seen())
    assert '<mark class="target"' in words
    assert '<mark class="query"' in words
    assert '<mark class="rival"' in words
    assert "right key" in words


def test_tokens_are_escaped_everywhere() -> None:
    bad = Seen("L0H0", (NASTY, "b"), ((1.0,), (0.5, 0.5)), query=(1,), target=(0,))
    for drawn in (attention_arcs(bad), attention_matrix(bad), marked_words(bad)):
        assert "<img" not in drawn
        assert "</script>" not in drawn
    shown = AttentionView(bad)._repr_html_()
    assert shown.startswith("<figure>")
    assert "<img" not in shown


def test_stored_attention_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="2 tokens, but 1 rows"):
        Seen.of({"head": "L0H0", "tokens": ["a", "b"], "pattern": [[1.0]]})
    with pytest.raises(ValueError, match="no stored attention"):
        Seen.of({"tokens": ["a"]})


def changed(folder: Path, role: str, **columns: object) -> Run:
    """The run, whose verdicts of a role have these values."""
    verdicts = pd.read_parquet(folder / "verdicts.parquet")
    verdicts.loc[verdicts["role"] == role, list(columns)] = list(columns.values())
    verdicts.to_parquet(folder / "verdicts.parquet", index=False)
    return read_run(folder)


def story_of(run: Run, role: str) -> RoleStory:
    (story,) = [s for s in role_stories(run) if s.role == role]
    return story


@pytest.mark.parametrize(
    ("effect", "verdict", "says"),
    [
        ("unclear", "yes, together", "No effect of removing one was detected on coreference"),
        ("hidden", "yes, together", "No effect of removing one was detected on coreference"),
        ("nothing", "yes, together", "No effect of removing one was detected on coreference"),
        ("unknown", "not tested", "Whether they matter is unknown: not ablated on coreference"),
        ("helps", "not selective", "not shown to prefer the right key to its rivals"),
    ],
)
def test_what_was_not_tested_is_not_called_undetected(
    tmp_path: Path, effect: str, verdict: str, says: str
) -> None:
    write_run(tmp_path)
    story = story_of(changed(tmp_path, "coreference", tier="C", effect=effect), "coreference")
    assert story.verdict == verdict
    assert says in story.sentence
    assert ("detected" in story.sentence) == (verdict == "yes, together")


def test_a_head_that_works_against_its_role_is_said_to(tmp_path: Path) -> None:
    write_run(tmp_path)
    story = story_of(changed(tmp_path, "coreference", tier="E", effect="harms"), "coreference")
    assert story.verdict == "works against it"
    assert "The task is done better without: removing L" in story.sentence


def test_the_headline_counts_what_was_tested_and_what_was_not(tmp_path: Path) -> None:
    write_run(tmp_path)
    heads = pd.read_csv(tmp_path / "heads.csv")
    named = heads[heads["label"] != NO_LABEL]
    said = headline(read_run(tmp_path))[1]
    untasked = ~named["label"].isin(pd.read_parquet(tmp_path / "effects.parquet")["task"])
    assert f"{untasked.sum()} show the pattern and were not tested (C)" in said
    counts = [int(n) for n in re.findall(r"(?:, | and )(\d+) ", f", {said}")]
    assert sum(counts) == len(named)


@pytest.mark.parametrize(
    ("elsewhere", "word", "says"),
    [
        (0.5, ", not only here", "more than 2.0 × is asked"),
        (0.001, "", ""),
    ],
)
def test_a_role_that_is_not_specific_shows_ratio_and_what_is_asked(
    tmp_path: Path, elsewhere: float, word: str, says: str
) -> None:
    write_run(tmp_path)
    effects = pd.read_parquet(tmp_path / "effects.parquet").assign(generic_damage=elsewhere)
    own = effects["task"] == "coreference"
    effects.loc[own, ["total", "total_low", "total_high"]] = [1.0, 0.9, 1.1]
    effects.loc[~own, ["total", "total_low", "total_high"]] = [0.0, -0.1, 0.1]
    effects.to_parquet(tmp_path / "effects.parquet", index=False)
    tier = "B" if word else "A"
    story = story_of(changed(tmp_path, "coreference", tier=tier, effect="helps"), "coreference")
    ratio = 1.0 / 2.31 / elsewhere
    assert story.verdict == f"yes{word}"
    assert says in story.sentence
    shown = f"{ratio:.1f} ×" if ratio < 100 else "> 100 ×"
    assert f"{shown} its effect elsewhere" in story.sentence
    assert all(head["ratio"] == pytest.approx(ratio) for head in story.heads)
    assert shown in said(report_html(read_run(tmp_path)))


def test_an_effect_on_a_task_that_the_model_does_not_do_is_marked(run: Run, page: str) -> None:
    story = story_of(run, "bracket")
    assert story.cannot == "55 % of 80 items right"
    section = page[page.index('id="role-bracket"') :].split("</section>")[0]
    effects = re.findall(r'<td class="n unable">(.*?)</td>', section, re.S)
    assert len(effects) == len(story.heads or story.best)
    assert all(" * " in effect for effect in effects)
    assert "The model is not shown to do it (55 % of 80 items right)" in said(section)
    done = page[page.index('id="role-coreference"') :].split("</section>")[0]
    assert " * " not in said(done)
    assert data_of(page)["effects"]["bracket"]["cannot"] == story.cannot
    assert "bracket" not in data_of(page)["shown"]
    assert "not shown to do it (55 % of 80 items right)" in report_markdown(run)
    assert story.verdict == "not tested"
    assert "so an effect on it tells nothing" in story.sentence


def test_a_larger_effect_that_is_not_sure_is_named_beside_the_helpers(tmp_path: Path) -> None:
    write_run(tmp_path)
    effects = pd.read_parquet(tmp_path / "effects.parquet")
    here = (effects["task"] == "coreference") & (effects["layer"] == 0) & (effects["head"] == 0)
    effects.loc[here, ["total", "p_max"]] = [9.0, 0.3]
    effects.to_parquet(tmp_path / "effects.parquet", index=False)
    story = story_of(changed(tmp_path, "coreference", tier="D", effect="helps"), "coreference")
    assert "not sure by that rule: L0H0 (+9.00, p = 0.300" in story.sentence


def test_a_head_without_a_label_shows_what_was_measured(tmp_path: Path) -> None:
    write_run(tmp_path)
    run = read_run(tmp_path)
    data = data_of(report_html(run))
    bare = [i for i, label in enumerate(data["label"]) if not label]
    assert bare
    effects = run.tables["effects"].query("ablation == 'mean' and task != 'bracket'")
    for i in bare:
        mine = effects.query(f"layer == {data['layer'][i]} and head == {data['head'][i]}")
        scale = mine["metric"].map({"loss": 1.0, "logit_difference": 2.31})
        largest = mine.loc[(mine["total"] / scale).abs().idxmax()]
        assert data["shown"][i] == largest["task"]


@pytest.mark.parametrize(
    "tables",
    [
        ("scores", "manifest"),
        ("effects", "manifest"),
        ("weights", "manifest"),
        ("scores", "effects", "manifest"),
        ("scores", "verdicts", "heads", "manifest"),
    ],
)
def test_what_a_run_lacks_is_neither_linked_to_nor_judged(
    tmp_path: Path, tables: tuple[str, ...]
) -> None:
    page = report_html(read_run(write_run(tmp_path, tables=tables)))
    data = data_of(page)
    heads = {f"L{a}H{b}" for a, b in zip(data.get("layer", ()), data.get("head", ()), strict=True)}
    ids = set(re.findall(r' id="([^"]+)"', page)) | heads
    assert set(re.findall(r'href="#([^"]*)"', page)) <= ids
    text = said(page)
    if "heads" not in tables:
        assert "clean label" not in text
        assert data.get("judged", False) is False
    if "scores" not in tables:
        assert "Atlas" not in text
    if "effects" not in tables:
        assert "self-repair" not in text
        assert "effect of zero" not in text
    if tables[0] == "effects":
        assert "The effect of removing each of 40 heads was measured on 5 tasks" in text
        assert "What breaks without which head" in text


def test_all_that_is_drawn_in_the_atlas_is_in_its_legend(tmp_path: Path) -> None:
    write_run(tmp_path)
    heads = pd.read_csv(tmp_path / "heads.csv")
    bare = heads.index[heads["label"] == NO_LABEL]
    heads["tier"] = heads["tier"].astype(object)
    heads.loc[bare[:3], "tier"] = "D"
    heads.to_csv(tmp_path / "heads.csv", index=False)
    page = report_html(read_run(tmp_path))
    section = page[page.index('id="atlas"') :].split("</section>")[0]
    assert 'class="needed"' in section
    assert "no label, but some task needs it (D) 3" in said(section)
    assert f"no clean label {len(bare) - 3}" in said(section)
    assert (">In+<" in section or "+</text>" in section) == (
        "more roles than the one named" in said(section)
    )


def test_numbers_have_one_sign_and_no_negative_zero(run: Run, page: str) -> None:
    effects = run.tables["effects"]
    assert (effects["total"] < 0).any()
    for text in (said(page), report_markdown(run), said(head_html(run, dossier(run, (1, 3))))):
        assert not re.search(r"(?<![\w-])-\d+\.\d", text)
        assert not re.search(r"[-−]0\.0+(?!\d)", text)


def test_p_is_the_one_that_decides(tmp_path: Path) -> None:
    """What a pattern asked for is no search over all heads; what nobody asked for is one."""
    write_run(tmp_path)
    effects = pd.read_parquet(tmp_path / "effects.parquet").assign(p_value=0.001, p_max=0.4)
    effects.to_parquet(tmp_path / "effects.parquet", index=False)
    run = read_run(tmp_path)
    story, data = story_of(run, "coreference"), data_of(report_html(run))
    held = {head["name"] for head in story.heads}
    assert held
    for i, place in enumerate(zip(data["layer"], data["head"], strict=True)):
        name = f"L{place[0]}H{place[1]}"
        (row,) = [row for row in dossier(run, place).effects if row["task"] == "coreference"]
        shown = data["effects"]["coreference"]["p"][i]
        assert row["p"] == pytest.approx(shown)
        assert (shown < 0.05) == (name in held)
    assert all(head["p"] < 0.05 for head in story.heads)


@pytest.mark.parametrize(
    "nasty",
    ["<!-- x", NASTY, "a *b* _c_ `d` | [e](f)", "# x\n\n- y", "1. x", "&lt;", "> q", "~~a~~ $b$"],
)
def test_text_from_outside_is_no_markdown(tmp_path: Path, nasty: str) -> None:
    write_run(tmp_path)
    whole = manifest((5, 8), nasty)
    whole["roles"]["induction"] |= {"definition": nasty, "source": nasty, "dropped": {nasty: 3}}
    (tmp_path / "manifest.json").write_text(json.dumps(whole), encoding="utf-8")
    text = report_markdown(read_run(tmp_path))
    markdown = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    made = markdown.render(text)
    shown = " ".join(nasty.split())
    assert html.escape(f"{shown}: the roles", quote=True) in made.split("</h1>")[0]
    assert html.escape(f"{shown} ({shown}) Task") in made
    assert html.escape(f"3 × {shown}") in made
    kinds = [token.type for token in markdown.parse(text) if token.type.startswith("html")]
    assert kinds == []
    assert "<em>" not in made


@pytest.mark.parametrize("tier", [*TIER_STRENGTH, ""])
@pytest.mark.parametrize("role", [*ROLE_COLOURS, "one_from_elsewhere"])
def test_letters_can_be_read_on_every_cell(role: str, tier: str) -> None:
    strength = TIER_STRENGTH.get(tier, 0.42)
    for when, ink in inks_on_cell(role, tier).items():
        cell = blended(role_colour(role), strength, over=GROUNDS[when])
        assert contrast(cell, ink) >= 4.5, (role, tier, when)


def test_the_style_sheet_has_the_grounds_that_the_inks_are_for() -> None:
    style = resources.files("rolecall.reports").joinpath("templates/page.css").read_text("utf-8")
    grounds = set(re.findall(r"--none: (#\w{6});", style))
    assert {g.upper() for g in grounds} == set(GROUNDS.values())
    for soft, none in re.findall(r"--soft: (#\w{6});.*?--none: (#\w{6});", style):
        assert contrast(soft, none) >= 3, "the outline of a labelled cell"


@pytest.mark.parametrize("shape", [(1, 1), (5, 8), (30, 9), (48, 25), (500, 2), (2, 512)])
def test_cells_of_the_atlas_are_neither_tiny_nor_huge(tmp_path: Path, shape: tuple) -> None:
    grid = atlas_grid(Run(tmp_path, {"model": {"n_layers": shape[0], "n_heads": shape[1]}}, {}))
    assert grid.shape == shape
    assert all(10 <= side <= 40 for side in grid.cell)
    if shape[0] <= 48:
        assert grid.size[1] < 900


def test_what_turns_text_round_is_spelled_out(tmp_path: Path) -> None:
    write_run(tmp_path, name="a\u202eb")
    store_sample(tmp_path, "coreference", "L4H2", ("<s>", "\u202e", " it", " b", " q", " r", " s"))
    run = read_run(tmp_path)
    for text in (report_html(run), report_markdown(run), head_html(run, dossier(run, (4, 2)))):
        assert "\u202e" not in text.replace("\\u202e", "\u202e")
        assert "a⟨U+202E⟩b" in text


@pytest.mark.parametrize("tables", [None, ("scores", "manifest"), ("effects", "manifest")])
def test_tables_and_what_scrolls_have_names_and_nothing_needs_a_script_unhidden(
    tmp_path: Path, tables: tuple[str, ...] | None
) -> None:
    run = read_run(write_run(tmp_path, **({"tables": tables} if tables else {})))
    page = re.sub(r"<script.*?</script>", "", report_html(run), flags=re.S)
    for table in re.findall(r"<table.*?</table>", page, re.S):
        assert "<caption>" in table or "aria-label=" in table.split(">")[0], table[:80]
    for box in re.findall(r'<div class="scroll"[^>]*>', page):
        assert 'tabindex="0"' in box
        assert "aria-label=" in box
    assert re.search(r'<button[^>]*id="theme"[^>]*aria-pressed="false" hidden', page)
    if "scores" in run.tables:
        assert re.search(r'<form[^>]*id="filters"[^>]* hidden', page)
        assert ("heads.csv has the label" in page) == ("heads" in run.tables)
        assert 'class="swatch" style="background:#' in page
