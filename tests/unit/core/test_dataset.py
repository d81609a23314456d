"""Names, references and manifests of data sets."""

import pytest

from trackyard.core.dataset import (
    PART_BYTES,
    ManifestEntry,
    decode_manifest,
    digest_of_parts,
    encode_manifest,
    parse_reference,
    variable_of,
)

DIGEST = "ab" * 32


@pytest.mark.parametrize(
    ("text", "name", "version", "digest", "variable"),
    [
        ("food11", "food11", 0, "", ""),
        ("food11@latest", "food11", 0, "", ""),
        ("food11@v3", "food11", 3, "", ""),
        ("food11@3", "food11", 3, "", ""),
        ("food11@sha256:0123456789ab", "food11", 0, "0123456789ab", ""),
        ("DIR=food11@v3", "food11", 3, "", "DIR"),
    ],
)
def test_references_are_read(
    text: str, name: str, version: int, digest: str, variable: str
) -> None:
    found = parse_reference(text)
    assert (found.name, found.version, found.digest, found.variable) == (
        name,
        version,
        digest,
        variable,
    )


@pytest.mark.parametrize("text", ["", "@v1", "a@", "a@v0", "a@x", "a b", "1X=a", "a/b", "a@v1@v2"])
def test_what_is_no_reference_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no"):
        parse_reference(text)


def test_a_name_becomes_a_variable() -> None:
    assert variable_of("food-11.small") == "YARD_DATA_FOOD_11_SMALL"


def test_a_manifest_is_read_as_it_was_written() -> None:
    parts = ("cd" * 32, "ef" * 32)
    entries = [
        ManifestEntry("ü/b.txt", 3, DIGEST),
        ManifestEntry("a.bin", PART_BYTES + 1, digest_of_parts(parts), parts),
        ManifestEntry("empty", 0, DIGEST),
    ]
    data = encode_manifest(entries)
    found = decode_manifest(data)
    assert [entry.path for entry in found] == ["a.bin", "empty", "ü/b.txt"]
    assert encode_manifest(found) == data
    assert found[0].contents() == [(parts[0], PART_BYTES), (parts[1], 1)]
    assert found[1].contents() == []


def test_a_line_nested_without_end_is_refused() -> None:
    with pytest.raises(ValueError, match="line 1 of the manifest is not JSON"):
        decode_manifest(b"[" * 200_000)


def test_parts_must_fit_the_digest() -> None:
    parts = ("cd" * 32, "ef" * 32)
    wrong = ManifestEntry("a", PART_BYTES + 1, DIGEST, parts)
    with pytest.raises(ValueError, match="parts"):
        decode_manifest(encode_manifest([wrong]))
