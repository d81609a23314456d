"""Addresses of files that other systems keep, told from local paths and from traversal."""

import pytest

from trackyard.core.storage_uri import is_local, is_plain, scheme_of


@pytest.mark.parametrize(
    ("text", "scheme"),
    [
        ("s3://b/k", "s3"),
        ("S3://b", "s3"),
        ("dbfs:/x", "dbfs"),
        ("C:/x", ""),
        ("/x", ""),
        ("x", ""),
    ],
)
def test_the_scheme(text: str, scheme: str) -> None:
    assert scheme_of(text) == scheme


@pytest.mark.parametrize("text", ["/x", "x", "", "file:/x", "FILE:///x", "C:\\x", "./x", "~/x"])
def test_local_paths(text: str) -> None:
    assert is_local(text)


@pytest.mark.parametrize(
    "text", ["s3://b/a b/c", "s3://b/a%20b", "s3://b/v1..2", "s3://b/...", "hf://a/b"]
)
def test_plain_addresses(text: str) -> None:
    assert is_plain(text)


@pytest.mark.parametrize(
    "text",
    ["s3://b/..", "s3://b/%2e%2e/x", "s3://b/%252e%252e/x", "s3://b/./x", "s3://b\\x", "s3://b/\0",
     "s3://b/%00", "s3://b?x=/../y", " s3://b", "s3://[b", "s3://" + "b" * 5000],
)  # fmt: skip
def test_addresses_that_lead_astray(text: str) -> None:
    assert not is_plain(text)
