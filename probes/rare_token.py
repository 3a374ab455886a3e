"""Rare-token heads: to the least frequent word in view."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from rolecall.data.templates import templates
from rolecall.probes.aligner import WORD, Aligner
from rolecall.probes.base import Crafted, Task, probe
from rolecall.probes.frequency import rarest
from rolecall.probes.marked_loss import marked_loss
from rolecall.probes.sentences import sentences
from rolecall.probes.text import TextExample, TextLink, aligned

NOT_RAREST = "the marked word is not the rarest in view"


def rare_recall(aligner: Aligner, *, n: int, seed: int) -> Task:
    """Loss on the second mention of a rare word, after its frequent rival has come again or not.

    >>> from rolecall.probes.toy import toy_aligner
    >>> item = rare_recall(toy_aligner(), n=1, seed=0).items[0]
    >>> [item.token_ids[p] in item.token_ids[:p] for p in item.positions]
    [True]
    """
    return marked_loss(aligner, "rare_recall", "rare_token_task", n=n, seed=seed)


@probe(
    family="rare-token",
    source="Voita et al. 2019, arXiv 1905.09418, section 5.3 (rare words)",
    # Not hit: rare words come in several pieces, and the sum over pieces alone would win.
    score="mass",
    accounts=("offset", "nearest", "first"),
    task=rare_recall,
)
def rare_token(aligner: Aligner, *, n: int, seed: int) -> Crafted:
    """Attends to the least frequent word in view, by its frequency in English.

    Rivals are frequent words in matching slots and the word before the query; in the twin the rare
    word and a frequent one have changed places.

    >>> from rolecall.probes.toy import toy_aligner
    >>> aligner = toy_aligner()
    >>> example = rare_token.dataset(aligner, n=1, seed=0).examples[0]
    >>> aligner.tokenizer.decode(example.token_ids[1:])
    'Now the parasol and the camel came to us here then'
    >>> example.links[0].query, example.links[0].target, example.links[0].rivals
    ((10,), (3,), ((6,), (9,)))
    """
    made = sentences(templates("rare_token"), n=n, seed=seed)
    fit = [text for text in made if _holds(text) and text.twin and _holds(text.twin)]
    crafted = aligned(aligner, [_recent(text) for text in fit])
    dropped = Counter(crafted.dropped)
    if len(fit) < len(made):
        dropped[NOT_RAREST] += len(made) - len(fit)
    return Crafted(crafted.examples, dict(dropped))


def _holds(text: TextExample) -> bool:
    """True if every link's target is the rarest of the words up to its query."""
    spans = [m.span() for m in WORD.finditer(text.text) if m[0].isalpha()]
    return all(_is_rarest(text.text, spans, link) for link in text.links)


def _is_rarest(text: str, spans: Sequence[tuple[int, int]], link: TextLink) -> bool:
    seen = [span for span in spans if span[1] <= link.query[1]]
    return seen[rarest([text[slice(*span)] for span in seen])] in link.target


def _recent(text: TextExample) -> TextExample:
    """The example with the word before each query as one more rival."""
    spans = [m.span() for m in WORD.finditer(text.text)]

    def with_recent(link: TextLink) -> TextLink:
        before = spans[spans.index(link.query) - 1]
        known = {span for rival in link.rivals for span in rival} | set(link.target)
        rivals = link.rivals if before in known else (*link.rivals, (before,))
        # Here frequency is the role itself, so no simpler account goes by it.
        return replace(link, rivals=rivals, frequent=())

    twin = None if text.twin is None else _recent(text.twin)
    return replace(text, links=tuple(with_recent(link) for link in text.links), twin=twin)
