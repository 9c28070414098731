"""How does a launcher of v2beta1 get into its workers: an ECDSA key pair in the forms that OpenSSH reads.

Making a key is a multiplication on the curve P-521 and two encodings. It is written out here, so that nobody
needs a cryptography library for it. Signing and checking is done by ssh itself.
"""

from __future__ import annotations

import base64
import struct

from msgspec import Struct

ENTROPY = 74
"""Bytes of randomness that a key is made from: 64 bits more than its size, so that no key is likelier."""

# The curve P-521 of FIPS 186-4.
_PRIME = 2**521 - 1
_ORDER = int(
    "01fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffa"
    "51868783bf2f966b7fcc0148f709a5d03bb5c9b8899c47aebb6fb71e91386409",
    16,
)
_BASE = (
    int(
        "00c6858e06b70404e9cd9e3ecb662395b4429c648139053fb521f828af606b4d3d"
        "baa14b5e77efe75928fe1dc127a2ffa8de3348b3c1856a429bf97e7e31c2e5bd66",
        16,
    ),
    int(
        "011839296a789a3bc0045c8a5fb42c7d1bd998f54449579b446817afbd17273e66"
        "2c97ee72995ef42640c550b9013fad0761353c7086a272c24088be94769fd16650",
        16,
    ),
)
_SIZE = 66
_OID = bytes.fromhex("06052b81040023")

_Point = tuple[int, int]


class KeyPair(Struct, frozen=True):
    """A key, and what a server is told of it; the first never shows itself."""

    private: str
    public: str

    def __repr__(self) -> str:
        return f"KeyPair(public={self.public!r})"


def pair(entropy: bytes, comment: str) -> KeyPair:
    """The key pair that follows from `ENTROPY` random bytes."""
    if len(entropy) < ENTROPY:
        raise ValueError(f"a key needs {ENTROPY} random bytes, not {len(entropy)}")
    number = int.from_bytes(entropy, "big") % (_ORDER - 1) + 1
    x, y = _times(number, _BASE)
    point = b"\x04" + x.to_bytes(_SIZE, "big") + y.to_bytes(_SIZE, "big")
    return KeyPair(_private(number, point), f"{_public(point)} {comment}\n")


def _private(number: int, point: bytes) -> str:
    """RFC 5915, in the armour that OpenSSH and everybody else knows."""
    curve = _der(0xA0, _OID)
    bits = _der(0xA1, _der(0x03, b"\x00" + point))
    encoded = _der(0x30, _der(0x02, b"\x01") + _der(0x04, number.to_bytes(_SIZE, "big")) + curve + bits)
    text = base64.b64encode(encoded).decode()
    lines = [text[start : start + 64] for start in range(0, len(text), 64)]
    return "\n".join(["-----BEGIN EC PRIVATE KEY-----", *lines, "-----END EC PRIVATE KEY-----", ""])


def _public(point: bytes) -> str:
    """RFC 5656, as a line of `authorized_keys` begins."""
    name, curve = b"ecdsa-sha2-nistp521", b"nistp521"
    packed = b"".join(struct.pack(">I", len(part)) + part for part in (name, curve, point))
    return f"{name.decode()} {base64.b64encode(packed).decode()}"


def _der(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < 0x80:
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + content


def _times(number: int, point: _Point) -> _Point:
    """The point added to itself that many times, bit by bit.

    In between a point is (x/z^2, y/z^3), so that only the end needs a division, which costs most.
    """
    x, y, z = *point, 1
    for bit in bin(number)[3:]:
        x, y, z = _doubled(x, y, z)
        if bit == "1":
            x, y, z = _plus(x, y, z, point)
    inverse = pow(z, -1, _PRIME)
    return x * inverse**2 % _PRIME, y * inverse**3 % _PRIME


def _doubled(x: int, y: int, z: int) -> tuple[int, int, int]:
    square, height = z * z % _PRIME, y * y % _PRIME
    slope = 3 * (x - square) * (x + square) % _PRIME
    far = 4 * x * height % _PRIME
    over = (slope * slope - 2 * far) % _PRIME
    return over, (slope * (far - over) - 8 * height * height) % _PRIME, 2 * y * z % _PRIME


def _plus(x: int, y: int, z: int, point: _Point) -> tuple[int, int, int]:
    """The sum with another point: never the same one, because a doubled one is no first power of it."""
    square = z * z % _PRIME
    run = (point[0] * square - x) % _PRIME
    rise = (point[1] * square * z - y) % _PRIME
    run2 = run * run % _PRIME
    run3, near = run2 * run % _PRIME, x * run2 % _PRIME
    over = (rise * rise - run3 - 2 * near) % _PRIME
    return over, (rise * (near - over) - y * run3) % _PRIME, run * z % _PRIME
