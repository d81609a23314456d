"""Pages of runs as text: made in parts where they are long, the same text as in one step."""

import msgspec
import pytest

from trackyard.server.routes.mlflow.tracking import PART_ITEMS, long_page, page


@pytest.mark.parametrize("token", [None, 'a"b'])
@pytest.mark.parametrize("count", [0, 1, PART_ITEMS, PART_ITEMS + 1, 3 * PART_ITEMS])
def test_a_long_page_is_the_same_text_made_in_parts(count: int, token: str | None) -> None:
    items = [{"n": n, "text": '],"'} for n in range(count)]
    assert long_page("runs", items, token) == msgspec.json.encode(page("runs", items, token))
