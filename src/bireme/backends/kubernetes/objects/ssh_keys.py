"""Makes the ECDSA key pair by which a launcher of v2beta1 enters its workers, in the forms OpenSSH reads."""

from __future__ import annotations

from msgspec import Struct

ENTROPY = 74
"""Bytes of randomness that a key is made from: 64 bits more than its size, so that no key is likelier."""
_ORDER = int(
    "01fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffa"
    "51868783bf2f966b7fcc0148f709a5d03bb5c9b8899c47aebb6fb71e91386409",
    16,
)
"""Of the curve P-521 (FIPS 186-4): a private key is a number from 1 to below it."""


class KeyPair(Struct, frozen=True):
    """A key, and what a server is told of it; the first never shows itself."""

    private: str
    public: str

    def __repr__(self) -> str:
        return f"KeyPair(public={self.public!r})"


def pair(entropy: bytes, comment: str) -> KeyPair:
    """The key pair that follows from `ENTROPY` random bytes."""
    # Here, because only an operator needs it, for one version of one kind.
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    if len(entropy) < ENTROPY:
        raise ValueError(f"a key needs {ENTROPY} random bytes, not {len(entropy)}")
    key = ec.derive_private_key(int.from_bytes(entropy, "big") % (_ORDER - 1) + 1, ec.SECP521R1())
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return KeyPair(private.decode(), f"{public.decode()} {comment}\n")
