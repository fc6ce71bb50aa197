"""Messages of Protocol Buffers, also wrong ones."""


def number(value: int, *, padding: int = 0) -> bytes:
    """Return a number of variable length; ``padding`` bytes more than it needs."""
    content = bytearray()
    while True:
        content.append(value & 0x7F | 0x80)
        value >>= 7
        if not value:
            break
    content += b"\x80" * padding
    content[-1] &= 0x7F
    return bytes(content)


def field(place: int, value: "bytes | str | int", *, padding: int = 0) -> bytes:
    """Return a field; its length is written with ``padding`` bytes more than it needs."""
    if isinstance(value, int):
        return number(place << 3) + number(value)
    content = value.encode() if isinstance(value, str) else value
    return number(place << 3 | 2) + number(len(content), padding=padding) + content
