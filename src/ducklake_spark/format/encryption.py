"""The key of an encrypted file, as the catalog keeps it. It is never shown: not in texts, not in errors."""

from __future__ import annotations

import base64
import binascii
import secrets
from dataclasses import dataclass, field

_LENGTHS = (16, 24, 32)
NEW_KEY_BYTES = 16
"""Of the keys of new files, as in the extension."""


class InvalidKeyError(ValueError):
    """What the catalog keeps is no key."""


@dataclass(frozen=True)
class FileKey:
    """A key of AES-GCM in base64.

    >>> FileKey("AAECAwQFBgcICQoLDA0ODw==")
    FileKey()
    """

    text: str = field(repr=False)

    def __str__(self) -> str:
        return repr(self)

    @property
    def raw(self) -> bytes:
        """The bytes of it.

        Raises:
            InvalidKeyError: They are no key.
        """
        try:
            found = base64.b64decode(self.text, validate=True)
        except (binascii.Error, ValueError):
            raise InvalidKeyError("it is no base64") from None
        if len(found) not in _LENGTHS:
            raise InvalidKeyError(f"it has {len(found)} bytes, not 16, 24 or 32")
        return found


def new_key() -> FileKey:
    """A key for one new file, out of the operating system's source of random numbers."""
    return FileKey(base64.b64encode(secrets.token_bytes(NEW_KEY_BYTES)).decode())


def stored(key: FileKey | None) -> str | None:
    """What the catalog keeps of it."""
    return None if key is None else key.text


def key_of(text: str | None) -> FileKey | None:
    """A key out of the catalog; None for a file that is not encrypted."""
    return None if text is None else FileKey(text)
