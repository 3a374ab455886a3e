"""The options that every command on a model shares, and how they become a model and a folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from rolecall.reports.commands_kept import writes_to
from rolecall.reports.option_types import DEVICE
from rolecall.reports.writable import require_folder

EMBEDDED = "embedded"

_OPTIONS = (
    click.argument("model", required=False),
    click.option(
        "--device", type=DEVICE, default="cpu", show_default=True, help="Where the model runs."
    ),
    click.option(
        "--dtype",
        default="float32",
        show_default=True,
        type=click.Choice(["float32", "bfloat16", "float16"]),
        help="Precision of the weights; scores are summed in float32.",
    ),
    click.option(
        "--bos/--no-bos",
        default=None,
        help="Put the start token first, or leave it out. [default: where the tokenizer has one]",
    ),
    click.option("--revision", help="Branch, tag or commit of a hub model."),
)


def model_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with MODEL, --device, --dtype, --bos/--no-bos and --revision."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def reader_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with --model and --bos/--no-bos, for what needs a tokenizer and no run."""
    command = click.option("--bos/--no-bos", default=None, help="As in `scan`.")(command)
    return click.option("--model", help="Whose tokenizer is used. [the embedded model]")(command)


def open_reader(options: dict[str, Any]) -> Any:
    """The model that `reader_options` name."""
    return open_model({"device": "cpu", "dtype": "float32", "revision": None, **options})


def require_model(name: str | None, revision: str | None = None) -> None:
    """Nothing, if there may be such a model; torch is not needed to tell.

    Raises:
        ValueError: There is not.
    """
    from rolecall.analyses.places import find_place

    find_place(name, revision=revision)


def open_model(options: dict[str, Any]) -> Any:
    """The model that the shared options name (a `rolecall.analyses.models.Model`).

    Raises:
        ValueError: It cannot be found or read; the message says the way out.
    """
    from rolecall.analyses import load_model

    bos = options["bos"]
    return load_model(
        options["model"],
        device=options["device"],
        dtype=options["dtype"],
        bos="auto" if bos is None else bos,
        revision=options["revision"],
    )


def run_folder(out: Path | None, options: dict[str, Any]) -> Path:
    """The folder a run goes to: --out, or one named after the model under `rolecall-out`.

    Call it before anything that takes long.

    Raises:
        ValueError: There is no such model, or the folder cannot be written to.
    """
    require_model(options["model"], options["revision"])
    folder = out or Path("rolecall-out") / _safe(options["model"])
    if out is None:
        require_folder(folder)
    writes_to(folder)
    return folder


def _safe(name: str | None) -> str:
    """A model's name as one of a folder."""
    label = Path(name.rstrip("/")).name if name else EMBEDDED
    return "".join(c if c.isalnum() or c in "-._" else "-" for c in label)
