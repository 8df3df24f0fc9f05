"""Keys of files: what they may be, and that nothing shows them."""

from __future__ import annotations

import pytest

from ducklake_spark.format.data import DataFile
from ducklake_spark.format.encryption import FileKey, InvalidKeyError, new_key


def test_new_keys_differ_and_have_the_length_of_the_extension() -> None:
    keys = {new_key().raw for _ in range(100)}
    assert len(keys) == 100
    assert {len(key) for key in keys} == {16}


@pytest.mark.parametrize("text", ["no base64!", "", "AAEC", "AAECAwQFBgcICQoLDA0ODxAR"])
def test_what_is_no_key_is_refused_without_being_shown(text: str) -> None:
    with pytest.raises(InvalidKeyError) as error:
        _ = FileKey(text).raw
    assert not text or text not in str(error.value)


def test_a_key_is_never_shown() -> None:
    key = new_key()
    file = DataFile("a.parquet", True, 1, 1, 1, key=key)
    for shown in (repr(key), str(key), f"{key}", repr(file)):
        assert key.text not in shown
