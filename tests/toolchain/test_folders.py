"""The cache folder is closed to other users."""

from passsearch.toolchain import cache_folder


def test_only_the_user_may_enter_the_cache_folder() -> None:
    folder = cache_folder()
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o755)
    assert cache_folder().stat().st_mode & 0o777 == 0o700, "an earlier version left it open"
