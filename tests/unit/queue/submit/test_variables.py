"""Values of variables in a stored spec: names alone, and what a start gets back."""

import msgspec
import pytest

from trackyard.access.sealing import Seal
from trackyard.control.launching import environment_of
from trackyard.queue.specification import JobSpec, RaySpec
from trackyard.queue.submit import variables
from trackyard.queue.views import spec_view


class Mirror(Seal):
    """Turns text around, and binds it to its purpose."""

    def __init__(self) -> None:
        pass

    def close(self, value: str, *, purpose: str) -> str:
        return f"{purpose}|{value[::-1]}"

    def open(self, sealed: str, *, purpose: str) -> str:
        bound, _, text = sealed.partition("|")
        assert bound == purpose
        return text[::-1]


def spec_of(**more: object) -> JobSpec:
    return msgspec.convert({"command": ["x"], **more}, JobSpec)


def test_a_stored_spec_holds_names_and_a_start_gets_the_values() -> None:
    ray = RaySpec(
        submission_id="s", entrypoint="x", runtime_env={"env_vars": {"A": "value-1"}, "pip": ["b"]}
    )
    spec = msgspec.structs.replace(spec_of(env={"LR": "value-2"}), ray=ray)
    kept = variables.sealed(Mirror(), spec, 7)
    plain = msgspec.json.encode(msgspec.structs.replace(kept, sealed="")).decode()
    assert "value-" not in plain
    assert '"LR"' in plain
    again = msgspec.json.decode(msgspec.json.encode(kept), type=JobSpec)
    assert variables.opened(Mirror(), again, 7) == spec
    with pytest.raises(AssertionError):
        variables.opened(Mirror(), again, 8)
    assert "sealed" not in spec_view(kept)


def test_what_was_stored_before_or_holds_nothing_is_left_alone() -> None:
    old = spec_of(env={"LR": "0.1"})
    assert variables.opened(Mirror(), old, 7) is old
    assert variables.sealed(Mirror(), spec_of(), 7) == spec_of()
    kept = variables.sealed(Mirror(), old, 7)
    assert variables.sealed(Mirror(), kept, 7) is kept


def test_changed_values_are_told_apart_as_before() -> None:
    first, other = spec_of(env={"LR": "0.1"}), spec_of(env={"LR": "0.2"})
    kept = variables.sealed(Mirror(), first, 7)
    assert environment_of(kept, {}) == environment_of(first, {})
    assert environment_of(kept, {}) != environment_of(other, {})
