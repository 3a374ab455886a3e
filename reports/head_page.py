"""The dossier of one head as a page."""

from __future__ import annotations

import io

from markupsafe import Markup

from rolecall.reports.attention_view import Seen, attention_arcs, attention_matrix, marked_words
from rolecall.reports.dossier import Dossier
from rolecall.reports.page import environment
from rolecall.reports.profile import evidence_profile
from rolecall.reports.run import Run
from rolecall.reports.saving import rolecall_style

INPUTS = {"q": "queries", "k": "keys", "v": "values"}


def head_html(run: Run, facts: Dossier) -> str:
    """The page, whole, without network and without script."""
    views = [
        {
            "role": str(sample.get("role", "")).replace("_", " "),
            "caption": seen.caption,
            "words": Markup(marked_words(seen)),
            "arcs": Markup(attention_arcs(seen)),
            "matrix": Markup(attention_matrix(seen)) if all(seen.pattern) else "",
            "raises": sample.get("raises", []),
            "lowers": sample.get("lowers", []),
        }
        for sample in facts.samples[:4]
        for seen in (Seen.of(sample),)
    ]
    template = environment().get_template("head.html.j2")
    return template.render(
        name=run.name,
        facts=facts,
        present=set(run.tables),
        profile=Markup(_profile(run, facts)) if facts.scores else "",
        views=views,
        inputs=INPUTS,
    )


def _profile(run: Run, facts: Dossier) -> str:
    """The evidence profile as SVG, without the lines that only a file of its own needs."""
    with rolecall_style():
        axes = evidence_profile(run, facts.head)
        figure = axes.get_figure(root=True)
        assert figure is not None
        stream = io.StringIO()
        figure.savefig(stream, format="svg", metadata={"Date": None})
    text = stream.getvalue()
    return text[text.index("<svg") :]
