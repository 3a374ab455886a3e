"""Attention patterns in, numbers per link and head out: mass, hit, sink and the mass on rivals.

Design §5. Attention *to* a span is the sum over its positions and *from* a word the mean over its
query positions (Clark et al. 2019, §4.1), so that a row of words still sums to 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from einops import einsum, rearrange
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rolecall.probes.aligner import Aligner
from rolecall.probes.base import Example, Positions

Pattern = Float[Tensor, "batch head query key"]

# Two words count as tied where float32 sums of the same attention could differ by rounding.
TIE = 1e-6


@dataclass(frozen=True)
class Layout:
    """Where the links of a batch of equally long examples look, as tensors.

    Attributes:
        link_example: Each link's example, as its place in the batch.
        row_query: The query positions of all links, one after another.
        row_link: The link that each of them belongs to.
        spans: 1 where a key belongs to a span: the target, the sink, then the rivals. A link with
            fewer rivals than another has empty spans for them.
        has_rival: Which rivals a link has.
        words: 1 where a key belongs to a word of the example.
        is_candidate: Which words the target competes with: reachable, not the query's own word
            and no part of the target.
    """

    link_example: Int[Tensor, " link"]
    row_query: Int[Tensor, " row"]
    row_link: Int[Tensor, " row"]
    spans: Float[Tensor, "link span key"]
    has_rival: Bool[Tensor, "link rival"]
    words: Float[Tensor, "batch word key"]
    is_candidate: Bool[Tensor, "link word"]

    @property
    def n_links(self) -> int:
        """Number of links in the batch."""
        return self.spans.shape[0]


@dataclass(frozen=True)
class Reading:
    """What each head does on each link.

    Attributes:
        mass: Attention to the target.
        hit: 1 where the target has more attention than any other candidate word, 1/k where it
            ties with k − 1 of them, else 0.
        sink: Attention to the first position and to special tokens.
        rivals: Attention to each rival; 0 in slots that `Layout.has_rival` marks as empty.
    """

    mass: Float[Tensor, "link head"]
    hit: Float[Tensor, "link head"]
    sink: Float[Tensor, "link head"]
    rivals: Float[Tensor, "link head rival"]


def layout(examples: Sequence[Example], aligner: Aligner) -> Layout:
    """The links of equally long examples, as tensors.

    Raises:
        ValueError: The examples differ in length, or hold no link.
    """
    lengths = {len(example.token_ids) for example in examples}
    links = [(i, link) for i, example in enumerate(examples) for link in example.links]
    if len(lengths) != 1 or not links:
        raise ValueError(f"a batch needs examples of one length with links; got lengths {lengths}")
    length = lengths.pop()
    sinks = [sink_positions(example.token_ids, aligner) for example in examples]
    spans = _membership([(link.target, sinks[i], *link.rivals) for i, link in links], length)
    words = _membership([example.words for example in examples], length)
    queries = _membership([(link.query,) for _, link in links], length)[:, 0]
    link_example = torch.tensor([i for i, _ in links])
    n_rivals = torch.tensor([len(link.rivals) for _, link in links])
    row_link, row_query = queries.nonzero().unbind(dim=1)
    return Layout(
        link_example=link_example,
        row_query=row_query,
        row_link=row_link,
        spans=spans,
        has_rival=torch.arange(spans.shape[1] - 2) < rearrange(n_rivals, "link -> link 1"),
        words=words,
        is_candidate=_candidates(words[link_example], queries, spans[:, 0], aligner.causal),
    )


def sink_positions(token_ids: Sequence[int], aligner: Aligner) -> Positions:
    """The first position and those of special tokens."""
    special = {aligner.bos, aligner.eos} - {None}
    return tuple(p for p, token in enumerate(token_ids) if p == 0 or token in special)


def _membership(
    groups: Sequence[tuple[Positions, ...]], length: int
) -> Float[Tensor, "group span key"]:
    cells = [
        (g, s, p) for g, spans in enumerate(groups) for s, span in enumerate(spans) for p in span
    ]
    member = torch.zeros(len(groups), max(map(len, groups)), length)
    member[tuple(torch.tensor(cells).unbind(dim=1))] = 1.0
    return member


def _candidates(
    words: Float[Tensor, "link word key"],
    queries: Float[Tensor, "link key"],
    target: Float[Tensor, "link key"],
    causal: bool,
) -> Bool[Tensor, "link word"]:
    shut = queries + target
    if causal:  # what stands behind the query is hidden from it
        shut = shut + (queries.flip(-1).cumsum(dim=-1).flip(-1) == 0)
    overlap = einsum(words, shut, "link word key, link key -> link word")
    return (overlap == 0) & (words.sum(dim=-1) > 0)


def read_links(pattern: Pattern, where: Layout) -> Reading:
    """What every head does on every link of the batch; the pattern is left as it was."""
    rows = pattern[where.link_example[where.row_link], :, where.row_query].float()
    rows = _mean_over_queries(rows, where)
    masses = einsum(rows, where.spans, "link head key, link span key -> link head span")
    words = einsum(
        rows, where.words[where.link_example], "link head key, link word key -> link head word"
    )
    return Reading(
        mass=masses[..., 0],
        hit=_hit(masses[..., 0], words, where.is_candidate),
        sink=masses[..., 1],
        rivals=masses[..., 2:],
    )


def _mean_over_queries(
    rows: Float[Tensor, "row head key"], where: Layout
) -> Float[Tensor, "link head key"]:
    if len(where.row_link) == where.n_links:
        return rows
    total = rows.new_zeros(where.n_links, *rows.shape[1:]).index_add_(0, where.row_link, rows)
    count = torch.bincount(where.row_link, minlength=where.n_links)
    return total / rearrange(count, "link -> link 1 1")


def _hit(
    mass: Float[Tensor, "link head"],
    words: Float[Tensor, "link head word"],
    is_candidate: Bool[Tensor, "link word"],
) -> Float[Tensor, "link head"]:
    others = words.masked_fill(rearrange(~is_candidate, "link word -> link 1 word"), -1.0)
    target = rearrange(mass, "link head -> link head 1")
    margin = TIE * target
    beaten = (others > target + margin).any(dim=-1)
    ties = ((others >= target - margin) & (others <= target + margin)).sum(dim=-1)
    return (~beaten).float() / (1 + ties)


def even_pattern(n_batch: int, length: int, *, causal: bool) -> Pattern:
    """The pattern of one head that looks at every reachable key alike."""
    row = torch.ones(length, length)
    row = row.tril() if causal else row
    row = row / row.sum(dim=-1, keepdim=True)
    return row.expand(n_batch, 1, length, length)
