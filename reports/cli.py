"""The command `rolecall`: a group whose sub-commands are imported only when they are called."""

from __future__ import annotations

import importlib
import signal
import sys
import warnings
from collections.abc import Callable
from typing import Any

import click

from rolecall.reports.commands_kept import Typed, keep
from rolecall.reports.visible import visible

COMMANDS = {
    "roles": (
        "rolecall.reports.roles_command:roles",
        "List the roles: definition, source, templates.",
    ),
    "data": (
        "rolecall.reports.data_command:data",
        "Show or export the crafted examples of a role.",
    ),
    "check": ("rolecall.reports.check_command:check", "Prove the hooks right on a model."),
    "scan": ("rolecall.reports.scan_command:scan", "Score every head of a model for every role."),
    "ablate": (
        "rolecall.reports.ablate_command:ablate",
        "Remove every head and see what each task loses.",
    ),
    "paths": (
        "rolecall.reports.paths_command:paths",
        "Show which earlier heads feed a head, and by which input.",
    ),
    "prune": (
        "rolecall.reports.prune_command:prune",
        "Remove more and more heads and see what each task loses.",
    ),
    "weights": (
        "rolecall.reports.weights_command:weights",
        "Read copying and composition off the weights.",
    ),
    "verdict": (
        "rolecall.reports.verdict_command:verdict",
        "Label the heads of a run, with reasons.",
    ),
    "survey": (
        "rolecall.reports.survey_command:survey",
        "All of it: check, scan, weights, ablate, verdict, report.",
    ),
    "report": (
        "rolecall.reports.report_command:report",
        "Write a run's report: one page, and the figures.",
    ),
    "head": ("rolecall.reports.head_command:head", "Print all that is known of one head."),
    "compare": (
        "rolecall.reports.compare_command:compare",
        "Put runs side by side: labels, ranks, depth.",
    ),
    "table": (
        "rolecall.reports.table_command:table",
        "Print a table of a run, as CSV, LaTeX or Markdown.",
    ),
}


class LazyGroup(click.Group):
    """A group that knows its sub-commands by dotted name and imports them when called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the sub-commands, in the order a person would use them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The sub-command, imported now."""
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        return getattr(importlib.import_module(module), name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Nothing; writes the list of sub-commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="rolecall")
def cli() -> None:
    """Call the role of every attention head, and say whether the model depends on it.

    MODEL is a hub id, a folder in Hugging Face form or a .gguf file; without one, the small model
    that comes with rolecall.
    """


def main(arguments: list[str] | None = None) -> None:
    """Nothing; runs the command line. A user's mistake is one line and exit code 2."""
    warnings.showwarning = _teller()
    if arguments is None:
        _stop_as_by_hand()
    typed = Typed(sys.argv[1:] if arguments is None else arguments)
    try:
        code: Any = cli.main(args=arguments, obj=typed, standalone_mode=False)
        if typed.folder is not None and not code:
            keep(typed.arguments, typed.folder)
    except click.ClickException as error:
        click.echo(f"rolecall: {_line(error.format_message())}", err=True)
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        click.echo("stopped; the same command takes up again what was finished", err=True)
        sys.exit(130)
    except (ValueError, OSError) as error:
        click.echo(f"rolecall: {_line(str(error))}", err=True)
        sys.exit(2)
    sys.exit(code if isinstance(code, int) else 0)


def _stop_as_by_hand() -> None:
    """Nothing; a kill or a closed terminal stops the program as Ctrl-C does, tidily."""
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)


def _line(text: str) -> str:
    return " ".join(visible(text).split())


def _teller() -> Callable[..., None]:
    """What shows a user's warnings, each of them once."""
    told: set[str] = set()

    def tell(message: Any, category: type[Warning], *rest: Any) -> None:
        line = _line(str(message))
        if issubclass(category, UserWarning) and line not in told:
            told.add(line)
            click.echo(f"rolecall: warning: {line}", err=True)

    return tell


if __name__ == "__main__":
    main()
