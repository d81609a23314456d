"""What `yard up` prints once it is ready: addresses under which the server really answers."""

import pytest

from trackyard.cli.server.up import announce
from trackyard.server.settings import Settings


@pytest.mark.parametrize(
    ("settings", "address"),
    [
        (Settings(), "http://127.0.0.1:8000/signin"),
        (Settings(host="0.0.0.0"), "http://127.0.0.1:8000/signin"),
        (Settings(host="::1"), "http://[::1]:8000/signin"),
        (
            Settings(host="0.0.0.0", allow_hosts=("yard.example.com",), tls_cert="c", port=443),
            "https://yard.example.com:443/signin",
        ),
        (Settings(prefix="/trackyard"), "http://127.0.0.1:8000/trackyard/signin"),
    ],
)
def test_the_sign_in_address_is_one_that_answers(
    settings: Settings, address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    announce(settings, "the-code")
    assert f"{address}#code=the-code" in capsys.readouterr().out
