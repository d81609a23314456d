"""What passes between a browser and an app, and on which host."""

from trackyard.server.routes.jobs.apps import waiting_page
from trackyard.server.tunnels.app_hosts import AppHosts
from trackyard.server.tunnels.apps import cookies_to, lines_back, lines_to, query_to


def test_the_servers_credentials_never_reach_an_app() -> None:
    """Cookies, tokens and what concerns one connection are taken off; the rest passes."""
    found = lines_to(
        [
            ("host", "j1.localhost:8000"),
            ("authorization", "token yard_secret"),
            ("cookie", "_xsrf=a; yard_app=secret; yard_session=secret; theme=dark"),
            ("x-csrf-token", "secret"),
            ("x-yard-team", "default"),
            ("connection", "keep-alive, X-Hop"),
            ("x-hop", "1"),
            ("referer", "http://h/apps/j1/?token=secret"),
            ("content-length", "3"),
        ]
    )
    assert found == [
        ("host", "j1.localhost:8000"),
        ("cookie", "_xsrf=a; theme=dark"),
        ("content-length", "3"),
    ]
    assert cookies_to("yard_session=secret") == ""
    assert query_to("a=1&token=secret&b=2") == "a=1&b=2"


def test_an_app_sets_no_cookie_beyond_its_host_and_none_of_ours() -> None:
    """Domains are taken off, our names refused, and so is what reaches over all paths."""
    found = lines_back(
        [
            ("set-cookie", "_xsrf=a; Path=/; Domain=example.org; HttpOnly"),
            ("set-cookie", "yard_session=stolen; Path=/"),
            ("service-worker-allowed", "/"),
            ("clear-site-data", '"cookies"'),
            ("transfer-encoding", "chunked"),
            ("content-type", "text/html"),
        ]
    )
    assert found == [
        ("set-cookie", "_xsrf=a; Path=/; HttpOnly"),
        ("content-type", "text/html"),
    ]


def test_each_app_has_a_host_of_its_own_that_is_never_the_servers() -> None:
    """By name below localhost, by a wildcard, or one for all; nowhere where none is set."""
    local = AppHosts("", is_secure=False)
    assert local.origin("127.0.0.1", "8000", "j1") == "http://j1.localhost:8000"
    assert local.is_host_of("j1.localhost", "j1")
    assert not local.is_host_of("j2.localhost", "j1")
    assert not local.is_host_of("127.0.0.1", "j1")
    assert local.origin("yard.example.org", None, "j1") is None
    wide = AppHosts("*.apps.example.org", is_secure=True)
    assert wide.origin("yard.example.org", None, "j1") == "https://j1.apps.example.org"
    assert wide.is_host_of("J1.apps.example.org", "j1")
    assert not wide.is_host_of("yard.example.org", "j1")
    one = AppHosts("apps.example.org", is_secure=True)
    assert one.origin("yard.example.org", "444", "j1") == "https://apps.example.org:444"


def test_a_page_of_an_app_that_is_starting_asks_again_and_escapes_what_it_says() -> None:
    """What a node says of its app is text, never markup."""
    page = waiting_page("the app said <script>no</script>")
    assert page.status == 503
    assert b'http-equiv="refresh"' in page.body
    assert b"&lt;script&gt;no" in page.body
    assert b"<script>" not in page.body
