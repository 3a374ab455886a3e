"""A tax on what heads write, so that a job is done by as few heads as it needs.

Without it a small model does one job in many heads at once: eight induction heads, and removing any
one of them costs nothing. The tax is the group lasso over heads of Yuan and Lin (2006), taken on
what each head writes to the residual stream rather than on its weights.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import torch
from einops import einsum, rearrange
from torch import nn
from transformers import LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaAttention


@contextmanager
def writes(model: LlamaForCausalLM) -> Iterator[list[torch.Tensor]]:
    """Yields a list that each forward pass adds to: per layer, the mean norm of each head's write.

    The norms, `[head]`, are means over batch and position and carry gradients.
    """
    norms: list[torch.Tensor] = []
    handles = []
    read = partial(_add, norms, model.config.num_attention_heads)
    for module in model.modules():
        if isinstance(module, LlamaAttention):
            handles.append(module.o_proj.register_forward_pre_hook(read))
    try:
        yield norms
    finally:
        for handle in handles:
            handle.remove()


def _add(
    norms: list[torch.Tensor], n_heads: int, o_proj: nn.Linear, args: tuple[torch.Tensor, ...]
) -> None:
    z = rearrange(args[0], "batch pos (head d_head) -> head (batch pos) d_head", head=n_heads)
    w_o = rearrange(o_proj.weight, "d_model (head d_head) -> head d_head d_model", head=n_heads)
    gram = einsum(w_o, w_o, "head d_head d_model, head other d_model -> head d_head other")
    squares = einsum(z @ gram, z, "head row d_head, head row d_head -> head row")
    # The square root has no slope at 0, where an idle head would be stuck.
    norms.append((squares.clamp_min(0) + 1e-4).sqrt().mean(-1))
