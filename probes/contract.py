"""What every data set promises, checked before a model sees it."""

from __future__ import annotations

from collections.abc import Iterator

from rolecall.probes.aligner import Aligner
from rolecall.probes.base import Crafted, Example, Link, Probe


def craft(probe: Probe, aligner: Aligner, *, n: int, seed: int) -> Crafted:
    """A role's examples for this tokenizer; none, with the reason, where its key is never in reach.

    Raises:
        ValueError: The examples break the contract of `check_examples`.
    """
    if probe.needs_future and aligner.causal:
        return Crafted((), {"the key stands to the right, which a decoder cannot see": n})
    data = probe.dataset(aligner, n=n, seed=seed)
    check_examples(data, aligner)
    return data


def check_examples(data: Crafted, aligner: Aligner) -> None:
    """Nothing, if every example can be scored.

    Raises:
        ValueError: An id the model has no embedding for, an example past the context, a position
            outside the example, a key that the mask hides, a rival that overlaps the target, or a
            twin of another length or with other links.
    """
    for number, example in enumerate(data.examples):
        for version in example.versions:
            problem = next(_problems(version, aligner), "")
            if problem:
                raise ValueError(f"example {number} (template {example.template!r}): {problem}")
        if example.twin is not None:
            shape, other = _shape(example), _shape(example.twin)
            if shape != other:
                raise ValueError(
                    f"example {number}: its twin has {other} tokens and links, not {shape}"
                )


def _shape(example: Example) -> tuple[int, int]:
    return len(example.token_ids), len(example.links)


def _problems(example: Example, aligner: Aligner) -> Iterator[str]:
    length = len(example.token_ids)
    bad = [t for t in example.token_ids if not 0 <= t < aligner.d_vocab]
    if bad:
        yield f"token id {bad[0]} is outside the vocabulary of {aligner.d_vocab} ids"
    if length > aligner.max_length:
        yield f"{length} tokens are past the model's context of {aligner.max_length}"
    if not example.links:
        yield "it has no link"
    for link in example.links:
        yield from _link_problems(link, length, aligner.causal)


def _link_problems(link: Link, length: int, causal: bool) -> Iterator[str]:
    spans = (link.query, link.target, *link.rivals)
    if not all(spans):
        yield "a link has an empty query, target or rival"
        return
    outside = [p for span in spans for p in span if not 0 <= p < length]
    if outside:
        yield f"position {outside[0]} is outside its {length} tokens"
    last = max(link.query)
    hidden = [p for span in spans for p in span if p > last]
    if causal and hidden:
        yield f"key {hidden[0]} stands behind the query at {last}, where a decoder cannot look"
    if any(not set(rival).isdisjoint(link.target) for rival in link.rivals):
        yield "a rival overlaps the target"
