"""Fixtures: the real models, and the tiny ones loaded once a session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rolecall.analyses.models import Model, load_model
from tests import real_weights, tiny_models


@pytest.fixture(scope="session")
def stories() -> Path:
    """The folder of stories260K; tests that take it are marked `real`."""
    return real_weights.stories()


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """The folder of SmolLM2-135M in float32; tests that take it are marked `real`."""
    return real_weights.smollm2()


@pytest.fixture(scope="session")
def smollm2_gguf() -> Path:
    """The GGUF file of SmolLM2-135M; tests that take it are marked `real`."""
    return real_weights.smollm2_gguf()


@pytest.fixture(scope="session")
def minilm() -> Path:
    """The folder of the MiniLM encoder; tests that take it are marked `real`."""
    return real_weights.minilm()


@pytest.fixture(scope="session")
def tiny() -> Callable[[str], Model]:
    """A loaded tiny model by family; one a session, so a test that changes it makes its own."""
    loaded: dict[str, Model] = {}

    def get(family: str) -> Model:
        if family not in loaded:
            loaded[family] = load_model(
                tiny_models.build(family), tokenizer=tiny_models.tokenizer_for(family)
            )
        return loaded[family]

    return get
