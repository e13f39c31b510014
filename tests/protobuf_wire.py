"""Fields of protobuf's published wire format, byte by byte, for the scripts that make files for tests.

Nothing but the standard library is used, and nothing of the readers: they are checked against bytes that no
code of theirs has made.
"""


def varint(value):
    """A number; a negative one as its 64 bits."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field, value):
    """A field with a number."""
    return varint(field << 3) + varint(value)


def chunk(field, data):
    """A field with bytes, a text or a message."""
    return varint(field << 3 | 2) + varint(len(data)) + data
