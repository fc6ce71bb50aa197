"""Texts that are safe to show: names in files of other people may hold control characters."""


def printable(text: str, *, keep: str = "") -> str:
    """Return a text in which characters that do not print are written out as Python escapes.

    Escape sequences of terminals, line ends and marks that reverse the direction of writing do not print. They could
    change what a terminal shows, or begin a line of their own.

    Args:
        text: The text.
        keep: Characters that stay, such as the line ends of a table.
    """
    return "".join(
        character if character.isprintable() or character in keep else character.encode("unicode_escape").decode()
        for character in text
    )
