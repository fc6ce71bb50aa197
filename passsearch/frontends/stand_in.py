"""Files that stand in the place of a network: what a download or a checkout leaves where it got something else."""

from pathlib import Path

from passsearch.errors import UserError

HEAD_BYTES = 512
LFS_POINTER = b"version https://git-lfs"
PAGES = (b"<!doctype html", b"<html")


def refuse_stand_in(path: Path, source: str) -> None:
    """Raise an error for a file that is empty, a pointer of Git LFS or a web page.

    Raises:
        UserError: Says which of them it is, and how to get the file itself.
    """
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES).lstrip()
    if not head:
        raise UserError(f"`{source}` is empty; export the network again.")
    if head.startswith(LFS_POINTER):
        raise UserError(
            f"`{source}` is a pointer of Git LFS, which stands for a file that was not downloaded; "
            f"run `git lfs pull` in its checkout."
        )
    if head.lower().startswith(PAGES):
        raise UserError(
            f"`{source}` is a web page and no network; download the file itself (on GitHub and the Hugging Face Hub by "
            f"its download button, not by the address of its page)."
        )
