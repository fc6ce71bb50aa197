"""The pages of the documentation: their commands exist, their Python fits the API, and every error has its entry."""

import ast
import inspect
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import passsearch

ROOT = Path(__file__).parents[2]
EXTENSIONS = ROOT / "docs" / "extensions"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").rglob("*.md")])
PLACEHOLDER = re.compile(r"[A-Z_]+|…|\.\.\.|[A-Z]+(,[A-Z]+)+")


@pytest.fixture(scope="module", autouse=True)
def extensions() -> Iterator[None]:
    """Make the modules of the site's extension importable."""
    sys.path.insert(0, str(EXTENSIONS))
    yield
    sys.path.remove(str(EXTENSIONS))


@dataclass(frozen=True)
class Block:
    """A block of code of a page."""

    page: str
    line: int
    language: str
    text: str


def blocks(page: Path) -> Iterator[Block]:
    for match in re.finditer(r"^( *)```([^\n]*)\n(.*?)^\1```", page.read_text(), re.DOTALL | re.MULTILINE):
        line = page.read_text()[: match.start()].count("\n") + 2
        yield Block(str(page.relative_to(ROOT)), line, match[2].strip(), match[3])


def command_lines(page: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the words after ``passsearch`` of every command on a page, in blocks and in the text."""
    text = page.read_text()
    for block in blocks(page):
        if block.language in ("", "bash", "console", "yaml", "text"):
            for number, line in enumerate(block.text.replace("\\\n", " ").splitlines()):
                # Not what follows in a table of commands, nor what a command prints.
                match = re.match(r"\s*(?:\$ )?(?:[A-Z_]+=\S+ )*(?:[\w./]*/)?passsearch +(?=[a-z-])(.*)", line)
                if match and block.language != "text":
                    # Three spaces or more separate a command from its explanation.
                    yield block.line + number, shlex.split(re.split(r" {3,}", match[1])[0], comments=True)
    for match in re.finditer(r"`passsearch ([a-z-][^`]*)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL)):
        yield 0, shlex.split(" ".join(match[1].split()))


ALL_COMMANDS = [
    pytest.param(words, id=f"{page.relative_to(ROOT)}:{line} {' '.join(words)[:60]}")
    for page in PAGES
    if page.name != "CHANGELOG.md"
    for line, words in command_lines(page)
]


def test_commands_are_found_on_the_pages() -> None:
    assert len(ALL_COMMANDS) > 100


@pytest.mark.parametrize("words", ALL_COMMANDS)
def test_every_command_and_option_of_the_pages_exists(words: list[str]) -> None:
    from command_reference import commands

    known = dict(commands())
    words = [word for word in words if word not in ("-v", "-vv", "--version", "-h", "--help", "…")]
    names = [part for word in words[:2] for part in [word.split("|")]]
    for first in names[0] if names else []:
        command: Any = known[("passsearch", first)]
        rest = words[1:]
        if hasattr(command, "commands") and rest:
            for second in rest[0].split("|"):
                _check_options(known["passsearch", first, second], rest[1:])
        else:
            _check_options(command, rest)


def _check_options(command: Any, words: list[str]) -> None:
    options = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    for word in words:
        name = word.strip("[]").split("=")[0]
        if name.startswith("--"):
            assert name in options | {"--log-file", "--verbose"}, f"`{name}` is no option; there are {sorted(options)}"


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(block, id=f"{block.page}:{block.line}")
        for page in PAGES
        for block in blocks(page)
        if block.language == "python"
    ],
)
def test_python_on_the_pages_calls_functions_and_arguments_that_exist(block: Block) -> None:
    code = re.sub(r"^%\w+ ", "", block.text, flags=re.MULTILINE)  # `%timeit` of notebooks
    for node in ast.walk(ast.parse(code)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        owner, name = ast.unparse(node.func.value), node.func.attr
        places = {"passsearch": passsearch, "result": passsearch.TuneResult, "result.plot": _plots()}
        if owner in places and callable(getattr(places[owner], name)):
            signature = inspect.signature(getattr(places[owner], name))
            assert {keyword.arg for keyword in node.keywords} <= set(signature.parameters)


def _plots() -> Any:
    from passsearch.api.plots import Plots

    return Plots


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_make_targets_on_the_pages_exist(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)[1].split())  # type: ignore[index]
    used = set(re.findall(r"`make (?:[A-Z]+=\S+ )?([a-z-]+)", page.read_text()))
    used |= {
        match
        for block in blocks(page)
        if block.language in ("", "bash")
        for match in re.findall(r"^make (?:[A-Z]+=\S+ )?([a-z-]+)", block.text, re.MULTILINE)
    }
    assert used <= targets


def test_every_error_message_has_its_entry_and_every_entry_a_message() -> None:
    from error_messages import messages

    page = (ROOT / "docs" / "guide" / "troubleshooting.md").read_text()
    patterns = [
        word for mark in re.findall(r"<!-- insert: messages (.*?) -->", page, re.DOTALL) for word in mark.split()
    ]
    lost = [message for message in messages() if not any(map(message.matches, patterns))]
    idle = [pattern for pattern in patterns if not any(message.matches(pattern) for message in messages())]

    assert len(messages()) > 200
    assert not lost, f"docs/guide/troubleshooting.md names no module of these messages: {lost}"
    assert not idle, f"docs/guide/troubleshooting.md names modules without messages: {idle}"


def test_the_references_name_every_command_and_every_pass() -> None:
    from catalog_reference import catalog_markdown
    from command_reference import commands, commands_markdown

    from passsearch.catalog import load
    from passsearch.dialects import DIALECTS

    text = commands_markdown()
    assert all(f" {' '.join(words)}\n" in text for words, _ in commands())
    for dialect in DIALECTS:
        headings = set(re.findall(r"^### (.*)$", catalog_markdown(dialect), re.MULTILINE))
        assert headings == set(load(dialect).entries)


def test_the_api_reference_names_every_public_function() -> None:
    page = (ROOT / "docs" / "reference" / "python.md").read_text()
    assert all(f":: passsearch.{name}\n" in page for name in passsearch.__all__ if name != "__version__")


def test_the_reference_of_documents_says_what_every_key_holds() -> None:
    from insertions import complete
    from record_reference import descriptions

    from passsearch import results
    from passsearch.results.record import keys_of

    named = [getattr(results, name) for name in results.__all__ if name != "Record"]
    records = [each for each in named if isinstance(each, type) and issubclass(each, results.Record)]
    assert len(records) > 40
    for record in records:
        assert {key.name for key in keys_of(record)} <= {*descriptions(record)}, record.__name__
    page = complete((ROOT / "docs" / "reference" / "result.md").read_text(), ROOT / "docs" / "reference")
    assert {*re.findall(r"\(#(\w+)\)", page)} <= {*re.findall(r"^### (\w+)$", page.lower(), re.MULTILINE)}


def test_every_page_of_the_docs_is_in_the_site() -> None:
    index = (ROOT / "docs" / "index.md").read_text()
    listed = {name for tree in re.findall(r"```{toctree}\n(.*?)```", index, re.DOTALL) for name in tree.split("\n")}
    pages = {str(page.relative_to(ROOT / "docs").with_suffix("")) for page in (ROOT / "docs").rglob("*.md")}
    assert pages - listed == {"index"}
