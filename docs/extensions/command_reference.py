"""The reference of all commands, from the application that runs them."""

from collections.abc import Iterator
from typing import Any

import typer

from passsearch.cli.app import application

_HELP = "--help"


def commands(group: Any = None, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every command with the words that call it, groups before their commands."""
    command = group or typer.main.get_command(application())
    yield (words or ("passsearch",)), command
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, ((*words, name) if words else ("passsearch", name)))


def commands_markdown() -> str:
    """Return a section for each command: its usage, help text, arguments and options."""
    return "\n\n".join(_section(words, command) for words, command in commands())


def _section(words: tuple[str, ...], command: Any) -> str:
    depth = "#" * min(len(words) + 1, 3)
    usage = " ".join(piece.strip() for piece in command.collect_usage_pieces(_context(words, command)))
    usage = usage.replace("{", "").replace("}", "")  # some releases of typer put required arguments in braces
    parts = [f"{depth} {' '.join(words)}", f"```text\n{' '.join(words)} {usage}\n```", _paragraphs(command.help)]
    rows = [row for parameter in command.params if (row := _row(parameter))]
    if rows:
        parts.append("\n".join(["| argument or option | meaning |", "|---|---|", *rows]))
    if inner := getattr(command, "commands", {}):
        parts.append(
            "\n".join(["| command | does |", "|---|---|", *(_inner(words, name, inner[name]) for name in inner)])
        )
    if command.epilog:
        parts.append(_paragraphs(command.epilog))
    return "\n\n".join(filter(None, parts))


def _inner(words: tuple[str, ...], name: str, command: Any) -> str:
    target = "-".join((*words, name))
    return f"| [`{name}`](#{target}) | {_cell((command.help or '').split(chr(10) + chr(10))[0])} |"


def _row(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"| `{_metavar(parameter)}` | {_cell(parameter.help or '')} |"
    if _HELP in parameter.opts:
        return ""
    names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
    value = "" if parameter.is_flag or parameter.count else f" `{_metavar(parameter)}`"
    return f"| {names}{value} | {_cell(parameter.help or '')}{_default(parameter)}{_range(parameter)} |"


def _metavar(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.upper())


def _default(parameter: Any) -> str:
    if parameter.required:
        return " Required."
    default = parameter.default
    shown = default is not None and not callable(default) and default is not False and default not in ((), [], "", 0)
    return f" Default: `{default}`." if shown else ""


def _range(parameter: Any) -> str:
    least, most = _bound(parameter, "min"), _bound(parameter, "max")
    if parameter.param_type_name != "option" or parameter.count or (least is None and most is None):
        return ""
    if most is None:
        return f" At least {least}."
    return f" At most {most}." if least is None else f" From {least} to {most}."


def _bound(parameter: Any, name: str) -> Any:
    """Return an end of the range of values; releases of typer keep it at the parameter or at its type."""
    bound = getattr(parameter, name, None)
    return getattr(getattr(parameter, "type", None), name, None) if bound is None else bound


def _context(words: tuple[str, ...], command: Any) -> Any:
    return command.context_class(command, info_name=" ".join(words))


def _paragraphs(text: str | None) -> str:
    return _escape("\n\n".join(" ".join(part.split()) for part in (text or "").split("\n\n")))


def _cell(text: str) -> str:
    return _escape(" ".join(text.split())).replace("|", "\\|")


def _escape(text: str) -> str:
    """Keep what Markdown would read as a tag."""
    return text.replace("<", "\\<").replace("*", "\\*")
