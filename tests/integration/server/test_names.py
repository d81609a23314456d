"""Names that look like one that exists, or hide something, are refused; nothing is made."""

from tests.integration.server.platform import Platform, refused
from tests.integration.server.test_bad_input import rows

#: Other spellings of `food net`: decoded, composed, trimmed, or with characters nobody sees.
ALIKE = [
    " food net",
    "food net ",
    "food  net",
    "food%20net",
    "food\u00a0net",
    "\uff46ood net",
    "food\u2003net",
]
HIDDEN = [
    "food\u200b net",
    "\ufefffood net",
    "food \u202eten",
    "food\u2060 net",
    "fo\u043ed net",  # a Cyrillic letter
    "food\x00net",
    "food\nnet",
    "food\x7fnet",
]


async def test_no_experiment_looks_like_another(platform: Platform) -> None:
    """A new or another name that could pass for one that exists is refused, in either order."""
    made = await platform.admin.mlflow("POST", "experiments/create", {"name": "food net"})
    assert made.status == 200
    other = await platform.admin.mlflow("POST", "experiments/create", {"name": "other"})
    other_id = other.json()["experiment_id"]
    before = await rows(platform)
    for name in [*ALIKE, *HIDDEN, "food net"]:
        answer = await platform.admin.mlflow("POST", "experiments/create", {"name": name})
        refused(answer, 400, 409)
        wish = {"experiment_id": other_id, "new_name": name}
        refused(await platform.admin.mlflow("POST", "experiments/update", wish), 400, 409)
    assert await rows(platform) == before
    # What differs to the eye is another name, and one may be spelled anew in its own place.
    for name in ("Food net", "food-net", "food net 2", "\u98df\u7269", "resnet-\u03b1"):
        answer = await platform.admin.mlflow("POST", "experiments/create", {"name": name})
        assert answer.status == 200, (name, answer.body)
    odd = await platform.admin.mlflow("POST", "experiments/create", {"name": "100%25 net"})
    assert odd.status == 200
    answer = await platform.admin.mlflow("POST", "experiments/create", {"name": "100% net"})
    assert "could pass for '100%25 net'" in refused(answer, 400)


async def test_another_teams_names_are_no_obstacle(platform: Platform) -> None:
    """What one team calls its experiments is nothing to another, and is not told to it."""
    stranger = await platform.caller("sam", "speech", "member")
    made = await platform.admin.mlflow("POST", "experiments/create", {"name": "food net"})
    assert made.status == 200
    answer = await stranger.mlflow("POST", "experiments/create", {"name": "food%20net"})
    assert answer.status == 200


async def test_no_model_hides_behind_another_name(platform: Platform) -> None:
    """Registered and logged models take no name that could pass for another one."""
    made = await platform.admin.mlflow("POST", "registered-models/create", {"name": "food net"})
    assert made.status == 200
    before = await rows(platform)
    for name in [*ALIKE[:2], *ALIKE[3:], *HIDDEN, "food/net", "food:net"]:
        answer = await platform.admin.mlflow("POST", "registered-models/create", {"name": name})
        refused(answer, 400)
        rename = {"name": "food net", "new_name": name}
        refused(await platform.admin.mlflow("POST", "registered-models/rename", rename), 400)
    for name in HIDDEN:
        wish = {"experiment_id": "0", "name": name}
        refused(await platform.admin.mlflow("POST", "logged-models", wish), 400)
    assert await rows(platform) == before
