from passsearch.core import printable


def test_what_does_not_print_is_written_out() -> None:
    assert printable("\x1b[2J\x07\u202e\ud800\n\r\0") == r"\x1b[2J\x07\u202e\ud800\n\r\x00"


def test_words_of_all_languages_stay() -> None:
    assert printable("Größe 1×2 – 網絡 “x”…") == "Größe 1×2 – 網絡 “x”…"


def test_line_ends_of_a_table_stay_on_request() -> None:
    assert printable("a\nb\x1b", keep="\n") == "a\nb\\x1b"
