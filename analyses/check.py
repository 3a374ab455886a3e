"""What must hold on a model before a number about its heads is given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from einops import einsum
from jaxtyping import Float, Int
from torch import Tensor, nn

from rolecall.analyses.forward import evaluating, run_body, run_logits, run_plain
from rolecall.analyses.hooks import ROW_LIMIT, hooked, require_eager, split_heads
from rolecall.analyses.model import Model

# Relative, by what rounding to the model's type explains.
_LIMIT = {torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 1e-1}


@dataclass(frozen=True)
class Finding:
    """One thing that was proved on the model, or was not.

    Attributes:
        name: What must hold.
        ok: Whether it does.
        measured: The number it rests on; None where nothing could be measured.
        limit: The bound on it.
        detail: Where the number was found, or why there is none.
    """

    name: str
    ok: bool
    measured: float | None
    limit: float
    detail: str = ""


@dataclass
class _Record:
    """What one forward pass showed, by layer."""

    pattern: dict[int, Tensor] = field(default_factory=dict)
    z: dict[int, Tensor] = field(default_factory=dict)
    out: dict[int, Tensor] = field(default_factory=dict)
    fired: Counter[tuple[str, int]] = field(default_factory=Counter)
    result: Tensor = field(default_factory=lambda: torch.empty(0))


def check(model: Model, token_ids: Int[Tensor, "batch pos"] | None = None) -> tuple[Finding, ...]:
    """What was found on a short sequence (or on `token_ids`), one finding a condition.

    Raises:
        ValueError: The model cannot be run at all.
    """
    require_eager(model)
    ids = _short_sequence(model) if token_ids is None else token_ids
    modules = [model.bridge.original_model, *([] if model.plain is None else [model.plain])]
    with evaluating(*modules):
        record = _record(model, ids)
        hooks = _hooks_fire(model, record)
        if not hooks.ok:
            return (hooks,)
        return (hooks, *_findings(model, ids, record))


def require(model: Model, token_ids: Int[Tensor, "batch pos"] | None = None) -> None:
    """Raises a ValueError that names every condition that does not hold."""
    failed = [finding for finding in check(model, token_ids) if not finding.ok]
    if failed:
        listed = "; ".join(
            f"{finding.name} (measured {finding.measured:.3g}, limit {finding.limit:.3g}"
            f"{', ' if finding.detail else ''}{finding.detail})"
            for finding in failed
        )
        raise ValueError(f"{model.name} fails its check, so nothing is measured: {listed}")


def _findings(model: Model, ids: Tensor, record: _Record) -> Iterator[Finding]:
    yield _rows(model, record)
    if model.causal:
        yield _no_future(record)
    yield _heads_sum(model, record)
    yield _put_back(model, ids, record)
    yield _removed(model, ids, record)
    yield _equals_plain(model, ids, record)


def _record(model: Model, ids: Tensor) -> _Record:
    record = _Record()

    def keep(kind: str, layer: int) -> Any:
        def hook(_module: nn.Module, _inputs: Any, output: Tensor) -> None:
            record.fired[kind, layer] += 1
            getattr(record, kind)[layer] = output.detach().to(torch.float32, copy=True)

        return hook

    hooks = {}
    for layer in model.pattern_layers:
        hooks[model.attention(layer).hook_pattern] = keep("pattern", layer)
        hooks[model.attention(layer).o.hook_in] = keep("z", layer)
        hooks[model.attention_output(layer)] = keep("out", layer)
    with hooked(hooks):
        record.result = _outcome(model, ids)
    return record


def _outcome(model: Model, ids: Tensor) -> Tensor:
    """Log-probabilities; last hidden states where there is no head."""
    if not model.has_lm_head:
        return run_body(model, ids).float()
    return run_logits(model, ids).float().log_softmax(dim=-1)


def _hooks_fire(model: Model, record: _Record) -> Finding:
    wanted = [(kind, layer) for layer in model.pattern_layers for kind in ("pattern", "z", "out")]
    times = {f"{kind} in layer {layer}": record.fired[kind, layer] for kind, layer in wanted}
    wrong = [f"{place}: {count} times" for place, count in times.items() if count != 1]
    name = "every hook fires once a forward pass"
    return Finding(name, not wrong, float(len(wrong)), 0.0, ", ".join(wrong[:3]))


def _rows(model: Model, record: _Record) -> Finding:
    off = {layer: (rows.sum(dim=-1) - 1).abs().max() for layer, rows in record.pattern.items()}
    return _bounded("rows of every pattern sum to 1", off, ROW_LIMIT[model.dtype])


def _no_future(record: _Record) -> Finding:
    off = {layer: rows.triu(diagonal=1).abs().max() for layer, rows in record.pattern.items()}
    return _bounded("no attention to later tokens", off, 1e-6)


def _heads_sum(model: Model, record: _Record) -> Finding:
    off = {}
    for layer, out in record.out.items():
        z = split_heads(record.z[layer], model.n_heads)
        total = _through_w_o(model, layer, z).sum(dim=2)
        bias = model.b_O(layer)
        total = total if bias is None else total + bias.float()
        off[layer] = (total - out).abs().max() / out.abs().max().clamp(min=1e-6)
    return _bounded("heads and b_O sum to the attention output", off, _LIMIT[model.dtype])


def _put_back(model: Model, ids: Tensor, record: _Record) -> Finding:
    def again(_module: nn.Module, _inputs: Any, output: Tensor) -> Tensor:
        return output.clone()

    points = {model.attention(layer).o.hook_in: again for layer in model.pattern_layers}
    with hooked(points):
        moved = _distance(_outcome(model, ids), record.result)
    name = "putting back a head's own output changes nothing"
    return Finding(name, moved <= 1e-6, moved, 1e-6)


def _removed(model: Model, ids: Tensor, record: _Record) -> Finding:
    """Removes the strongest head of every layer, each in its own row of one short batch."""
    row = {layer: index for index, layer in enumerate(model.pattern_layers)}
    short = ids[:1, :6]

    def without(layer: int, head: int) -> Any:
        def hook(_module: nn.Module, _inputs: Any, output: Tensor) -> Tensor:
            z = split_heads(output, model.n_heads).clone()
            z[row[layer], :, head] = 0
            return z.flatten(start_dim=2)

        return hook

    hooks = {}
    for layer in model.pattern_layers:
        z = split_heads(record.z[layer][:1, :6], model.n_heads)
        head = int(_through_w_o(model, layer, z).square().sum(dim=(0, 1, 3)).argmax())
        hooks[model.attention(layer).o.hook_in] = without(layer, head)
    with hooked(hooks):
        *removed, clean = _outcome(model, short.expand(len(row) + 1, -1))
    moved = {layer: _distance(removed[i], clean) for layer, i in row.items()}
    weakest = min(moved, key=lambda layer: moved[layer])
    name = "removing a head moves the output"
    return Finding(name, moved[weakest] > 1e-5, moved[weakest], 1e-5, f"least in layer {weakest}")


def _equals_plain(model: Model, ids: Tensor, record: _Record) -> Finding:
    name = "log-probabilities equal plain Hugging Face"
    limit = _LIMIT[model.dtype]
    if model.plain is None:
        return Finding(name, True, None, limit, "there is no plain model to compare with")
    with _eager(model.plain):
        plain = run_plain(model, ids).float()
    if model.has_lm_head:
        plain = plain.log_softmax(dim=-1)
    off = _distance(plain, record.result)
    bos = "no BOS" if model.aligner.bos is None else f"BOS {model.aligner.bos}"
    return Finding(name, off <= limit, off, limit, bos)


@contextmanager
def _eager(module: Any) -> Iterator[None]:
    # Fused attention rounds differently; what is asked here is whether the weights do the same.
    kind = module.config._attn_implementation
    module.set_attn_implementation("eager")
    try:
        yield
    finally:
        module.set_attn_implementation(kind)


def _bounded(name: str, off: dict[int, Any], limit: float) -> Finding:
    worst = max(off, key=lambda layer: float(off[layer].nan_to_num(nan=torch.inf)))
    measured = float(off[worst])
    return Finding(name, measured <= limit, measured, limit, f"most in layer {worst}")


def _through_w_o(
    model: Model, layer: int, z: Float[Tensor, "batch pos head d_head"]
) -> Float[Tensor, "batch pos head d_model"]:
    return einsum(
        z,
        model.W_O(layer).float(),
        "batch pos head d_head, head d_head d_model -> batch pos head d_model",
    )


def _distance(one: Tensor, other: Tensor) -> float:
    return float((one - other).abs().max())


def _short_sequence(model: Model) -> Int[Tensor, "batch pos"]:
    """Twelve ordinary tokens spread over the vocabulary, framed as the model wants them."""
    ordinary = model.aligner.ordinary or tuple(range(model.d_vocab))
    inner = min(12, model.n_ctx - 2)
    spread = [ordinary[(7 * i + 1) * len(ordinary) // (7 * inner + 1)] for i in range(inner)]
    first = [] if model.aligner.bos is None else [model.aligner.bos]
    last = [] if model.aligner.eos is None else [model.aligner.eos]
    return torch.tensor([[*first, *spread, *last]])
