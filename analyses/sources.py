"""Opening a model: its config, its tokenizer and its weights, as transformers reads them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten
from typing import Any

import torch
from huggingface_hub.errors import LocalEntryNotFoundError
from transformers import (
    MODEL_FOR_MASKED_LM_MAPPING,
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoTokenizer,
)
from transformers.utils.hub import cached_file

from rolecall.analyses.places import NAMED_BY, Place, find_place
from rolecall.analyses.quiet import quiet


@dataclass(frozen=True)
class Opened:
    """A model as transformers loads it, and where it came from.

    Attributes:
        module: The Hugging Face module, in eval mode.
        tokenizer: Its fast tokenizer.
        name: What a table calls the model.
        revision: The commit on the hub; None for files that are not from there.
        has_lm_head: The checkpoint holds the weights that turn hidden states into logits.
    """

    module: Any
    tokenizer: Any
    name: str
    revision: str | None
    has_lm_head: bool


def open_source(
    source: str | os.PathLike[str] | None,
    *,
    dtype: torch.dtype,
    revision: str | None = None,
    tokenizer: Any = None,
) -> Opened:
    """The named model, loaded once on the CPU; None is the model that rolecall carries.

    Raises:
        ValueError: In one line: no such model, a folder without config, weights or tokenizer,
            an unknown format, damaged files, or an architecture without attention to read.
    """
    place = find_place(source, revision=revision)
    with quiet():
        with readable(place, "config"):
            config = AutoConfig.from_pretrained(place.root, **place.arguments)
        require_hookable(config, place.name)
        if tokenizer is None:
            with readable(place, "tokenizer"):
                tokenizer = AutoTokenizer.from_pretrained(place.root, **place.arguments)
        with readable(place, "weights"):
            module, report = model_class(config).from_pretrained(
                place.root, dtype=dtype, output_loading_info=True, **place.arguments
            )
    has_lm_head = _require_complete(module, report["missing_keys"], place.name)
    return Opened(
        module=_unmarked(module).eval(),
        tokenizer=tokenizer,
        name=place.name,
        revision=_commit(place),
        has_lm_head=has_lm_head,
    )


def model_class(config: Any) -> Any:
    """The transformers class that keeps as much of the checkpoint's head as there is."""
    saved_as = " ".join(config.architectures or [])
    if "ForMaskedLM" in saved_as or "ForPreTraining" in saved_as:
        return AutoModelForMaskedLM
    encoder = type(config) in MODEL_FOR_MASKED_LM_MAPPING and not saved_as.endswith("LMHeadModel")
    return AutoModel if encoder else AutoModelForCausalLM


def require_hookable(config: Any, name: str) -> None:
    """Turns away what has no attention heads to read, before its weights are loaded."""
    if getattr(config, "is_encoder_decoder", False):
        raise ValueError(
            f"{name} is an encoder-decoder ({config.model_type}); rolecall reads decoders "
            "and BERT-like encoders"
        )
    quantised = getattr(config, "quantization_config", None)
    if quantised is not None and "gguf" not in str(quantised).lower():
        raise ValueError(
            f"the weights of {name} are quantised, so heads cannot be cut out of them; "
            "give the float checkpoint or a .gguf file"
        )


@contextmanager
def readable(place: Place, part: str) -> Iterator[None]:
    """Turns whatever transformers raises while it reads a part into one clear line."""
    try:
        yield
    # What is raised depends on the file that is damaged: OSError, KeyError, SafetensorError ...
    except Exception as error:
        if Path(place.root).is_dir():
            raise ValueError(
                f"the {part} of {place.name} cannot be read: {_first_line(error)}"
            ) from error
        raise ValueError(f"{_not_on_hub(place, error)} ({_first_line(error)})") from error


def _first_line(error: Exception) -> str:
    return shorten((str(error).strip() or type(error).__name__).splitlines()[0], 200)


def _not_on_hub(place: Place, error: Exception) -> str:
    offline = os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}
    named = f"the model {place.root!r}" + f" at revision {place.revision!r}" * bool(place.revision)
    if not isinstance(error.__cause__, LocalEntryNotFoundError):
        what = f"{named} cannot be read from the hub"
    elif offline:
        what = f"{named} is not in the local cache, and HF_HUB_OFFLINE=1 forbids asking the hub"
    else:
        what = f"{named} is not in the local cache, and the hub cannot be reached"
    return f"{what}, and there is no such folder here; {NAMED_BY}"


def _commit(place: Place) -> str | None:
    """The commit that a hub id stood for; the cache keeps each in a folder of that name."""
    if Path(place.root).is_dir():
        return None
    file = cached_file(place.root, "config.json", revision=place.revision)
    return Path(file).parent.name if file else None


def _require_complete(module: Any, missing: Any, name: str) -> bool:
    """Whether the output head was in the checkpoint; all else must have been."""
    # What was not in the file has been drawn at random: fit for nothing.
    body = "" if module.base_model is module else f"{module.base_model_prefix}."
    lost = sorted(key for key in missing if key.startswith(body) and "pooler" not in key)
    if lost:
        raise ValueError(f"the weights of {name} lack {len(lost)} tensors, such as {lost[0]}")
    return module.get_output_embeddings() is not None and not missing


def _unmarked(module: Any) -> Any:
    """The module without the marks of a quantised file: GGUF weights are float once loaded."""
    for owner, names in (
        (module, ("hf_quantizer", "quantization_method", "is_quantized")),
        (module.config, ("quantization_config", "_is_quantized")),
    ):
        for name in names:
            if name in vars(owner):
                delattr(owner, name)
    return module
