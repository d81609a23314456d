"""Ray's submit body in the queue's own words: what is taken, what is left, what is refused."""

from typing import Any

import msgspec
import pytest

from trackyard.core.errors import InvalidInput
from trackyard.queue.specification import Archive, check
from trackyard.rayjobs.specification import (
    KEYS,
    PlatformState,
    RayBody,
    TranslatedBody,
    package_format,
    package_name,
    set_aside,
    submission_id_of,
    translate,
)

FOLDER, MODULE = Archive("a" * 64), Archive("b" * 64, "zip")
HELD = {"gcs://_ray_pkg_1.zip": FOLDER, "gcs://_ray_pkg_2.zip": MODULE}
NODES = [
    {"resource/fast": "yes", "resource-total/fast": "4", "zone": "b"},
    {"resource/slow": "yes"},
]


def package(address: str) -> Archive:
    if address not in HELD:
        raise InvalidInput(f"package {address} is not here")
    return HELD[address]


def turn(*, on_ray: bool = False, **body: Any) -> TranslatedBody:
    read = msgspec.convert({"entrypoint": "python train.py", **body}, type=RayBody)
    yard = PlatformState(on_ray=on_ray, queues=["default", "night"], nodes=NODES, package=package)
    return translate(read, yard)


def refusal(*, on_ray: bool = False, **body: Any) -> str:
    with pytest.raises(InvalidInput) as caught:
        turn(on_ray=on_ray, **body)
    assert not caught.value.message.endswith("."), "Ray's client adds a full stop"
    return caught.value.message


def test_the_entrypoint_is_a_shell_line_and_shown_as_written() -> None:
    done = turn(entrypoint="python train.py --a 'x y' && echo $HOME")
    assert done.wish.command == ["/bin/sh", "-c", "python train.py --a 'x y' && echo $HOME"]
    spec = msgspec.structs.replace(check(done.wish), ray=done.ray)
    assert spec.line == "python train.py --a 'x y' && echo $HOME"


def test_an_empty_entrypoint_is_refused() -> None:
    assert "after `--`" in refusal(entrypoint="  ")


def test_amounts_become_the_requests_own() -> None:
    wish = turn(entrypoint_num_cpus=2.0, entrypoint_num_gpus=0.5, entrypoint_memory=1024.0).wish
    assert (wish.cpus, wish.gpus, wish.memory_bytes) == (2.0, 0.5, 1024)


def test_left_out_amounts_ask_for_nothing() -> None:
    wish = turn().wish
    assert (wish.cpus, wish.gpus, wish.memory_bytes, wish.queue) == (0, 0, 0, "default")


def test_a_negative_amount_is_refused() -> None:
    assert "entrypoint_num_gpus -1" in refusal(entrypoint_num_gpus=-1)


def test_unknown_fields_are_refused_by_name() -> None:
    with pytest.raises(msgspec.ValidationError, match="entrypoint_colour"):
        turn(entrypoint_colour="red")


# -- resources --------------------------------------------------------------------------------


def test_a_declared_resource_becomes_a_label_and_keeps_its_amount() -> None:
    done = turn(entrypoint_resources={"fast": 2})
    assert done.wish.labels == {"resource/fast": "yes"}
    assert done.ray.resources == {"fast": 2.0}


def test_more_of_a_resource_than_any_node_has_is_refused() -> None:
    assert "a node has at most 4" in refusal(entrypoint_resources={"fast": 5})


def test_a_resource_without_a_told_amount_is_taken_as_it_is() -> None:
    assert turn(entrypoint_resources={"slow": 9}).wish.labels == {"resource/slow": "yes"}


@pytest.mark.parametrize(
    "name", ["GPU_group_1_abc", "bundle_group_0_x", "node:10.0.0.1", "node:__internal_head__"]
)
def test_rays_inner_resources_cannot_be_asked_for(name: str) -> None:
    """One such name can end a whole Ray node."""
    assert "Ray's own" in refusal(entrypoint_resources={name: 0.001})
    assert "Ray's own" in refusal(entrypoint_resources={name: 0.001}, on_ray=True)


def test_an_undeclared_resource_is_refused_with_those_there_are() -> None:
    assert refusal(entrypoint_resources={"unicorn": 1}) == (
        "no node declares the resource 'unicorn'; they declare fast, slow"
    )


@pytest.mark.parametrize(
    ("name", "flag"),
    [
        ("CPU", "--entrypoint-num-cpus"),
        ("GPU", "--entrypoint-num-gpus"),
        ("memory", "--entrypoint-memory"),
    ],
)
def test_plain_resources_have_their_own_flags(name: str, flag: str) -> None:
    assert flag in refusal(entrypoint_resources={name: 1})


def test_accelerator_types_become_gpu_types() -> None:
    done = turn(
        entrypoint_num_gpus=1,
        entrypoint_resources={"accelerator_type:A100": 0.001},
        entrypoint_label_selector={"ray.io/accelerator-type": "in(H100, H200)"},
    )
    assert done.wish.gpu_types == ["A100", "H100", "H200"]
    assert done.ray.resources == {}


def test_a_label_selector_of_one_value_becomes_a_label() -> None:
    assert turn(entrypoint_label_selector={"zone": "b"}).wish.labels == {"zone": "b"}


@pytest.mark.parametrize("selector", ["!b", "in(a,b)", "!in(a,b)", "in()"])
def test_selectors_we_cannot_hold_to_are_refused(selector: str) -> None:
    assert "label selector zone" in refusal(entrypoint_label_selector={"zone": selector})


# -- metadata ---------------------------------------------------------------------------------


def test_every_key_of_ours_sets_its_field() -> None:
    given = {
        "trackyard.team": "vision",
        "trackyard.queue": "night",
        "trackyard.priority": "High",
        "trackyard.time": "1h30m",
        "trackyard.name": "tart",
        "trackyard.experiment": "plum tarts",
        "trackyard.preemptible": "true",
        "trackyard.retries": "2",
        "trackyard.lease": "l1",
        "trackyard.gang": "2x1gpu,8cpu",
    }
    assert {key.removeprefix("trackyard.") for key in given} == set(KEYS)
    wish = turn(metadata=given).wish
    assert (wish.team, wish.queue, wish.priority, wish.name) == ("vision", "night", "high", "tart")
    assert (wish.time_limit_seconds, wish.experiment) == (5400, "plum tarts")
    assert (wish.preemptible, wish.retries, wish.lease, wish.gang) == (
        True,
        2,
        "l1",
        "2x1gpu,8cpu",
    )


def test_an_unknown_key_of_ours_names_the_known_ones() -> None:
    said = refusal(metadata={"trackyard.quue": "night"})
    assert "'trackyard.quue' is not known" in said
    assert all(f"trackyard.{key}" in said for key in KEYS)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("priority", "huge"),
        ("time", "soon"),
        ("retries", "-1"),
        ("retries", "many"),
        ("preemptible", "perhaps"),
        ("name", "two words"),
        ("queue", ""),
    ],
)
def test_a_wrong_value_of_our_key_is_refused(key: str, value: str) -> None:
    assert refusal(metadata={f"trackyard.{key}": value})


def test_short_keys_count_where_they_can_only_be_meant_for_us() -> None:
    wish = turn(metadata={"queue": "night", "priority": "low", "time": "45m", "retries": "1"}).wish
    assert (wish.queue, wish.priority, wish.time_limit_seconds) == ("night", "low", 2700)
    assert wish.retries == 1


def test_a_users_own_metadata_is_left_alone() -> None:
    """Words that happen to be called like ours neither break a submission nor steer it."""
    own = {
        "queue": "kafka-7",
        "priority": "p0",
        "team": "red",
        "time": "2026-01-01",
        "gang": "blue",
        "name": "x y",
        "retries": "some",
        "preemptible": "?",
    }
    done = turn(metadata=own)
    plain = turn().wish
    assert msgspec.structs.asdict(done.wish) == msgspec.structs.asdict(plain)
    assert done.ray.metadata == own


def test_our_own_key_wins_over_its_short_form() -> None:
    wish = turn(metadata={"priority": "low", "trackyard.priority": "urgent"}).wish
    assert wish.priority == "urgent"


def test_a_job_name_is_made_fit() -> None:
    assert turn(metadata={"job_name": "plum tart (2)"}).wish.name == "plum-tart-2"
    assert turn(metadata={"job_name": "???"}).wish.name == ""


# -- runtime environment ----------------------------------------------------------------------


def test_packages_variables_and_requirements_are_taken() -> None:
    done = turn(
        runtime_env={
            "working_dir": "gcs://_ray_pkg_1.zip",
            "py_modules": ["gcs://_ray_pkg_2.zip"],
            "env_vars": {"A": "1", "MLFLOW_TRACKING_URI": "http://elsewhere"},
            "pip": {"packages": ["# comment", "numpy==2.0", ""], "pip_check": False},
            "uv": ["scipy"],
            "excludes": ["data"],
            "config": {"setup_timeout_seconds": 600},
            "_ray_commit": "abc",
        }
    )
    assert (done.wish.package, done.wish.package_format) == (FOLDER.digest, "zip")
    assert done.modules == [MODULE]
    assert done.wish.env == {"A": "1"}
    assert done.wish.pip == ["numpy==2.0", "scipy"]
    assert done.ray.packages == HELD
    assert set_aside(done.ray.runtime_env) == ["MLFLOW_TRACKING_URI"]


@pytest.mark.parametrize(
    "given",
    [
        {"conda": "env"},
        {"container": {"image": "x"}},
        {"image_uri": "x"},
        {"worker_process_setup_hook": "m.f"},
        {"nsight": "default"},
        {"something_new": 1},
        {"working_dir": "https://example.org/a.zip"},
        {"py_modules": ["s3://bucket/a.zip"]},
        {"pip": {"packages": ["a"], "pip_version": "==22.0"}},
        {"uv": {"packages": ["a"], "uv_pip_install_options": ["--no-deps"]}},
    ],
    ids=lambda given: next(iter(given)),
)
def test_what_only_ray_can_do_needs_ray(given: dict[str, Any]) -> None:
    assert "needs a Ray cluster" in refusal(runtime_env=given)
    assert turn(runtime_env=given, on_ray=True).ray.runtime_env == given


@pytest.mark.parametrize(
    "given",
    [
        {"working_dir": "gcs://../x.zip"},
        {"working_dir": "gcs://_ray_pkg_9.zip"},
        {"working_dir": "./here"},
        {"working_dir": 7},
        {"py_modules": "gcs://_ray_pkg_2.zip"},
        {"env_vars": {"A": 1}},
        {"env_vars": ["A"]},
        {"pip": "requirements.txt"},
        {"pip": {"packages": "a"}},
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused_everywhere(given: dict[str, Any]) -> None:
    assert refusal(runtime_env=given)
    assert refusal(runtime_env=given, on_ray=True)


# -- names ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["raysubmit_4LamXRuQpYdSMg7J", "a", "nightly:2026@b=1+2"])
def test_ids_that_clients_use_are_taken(name: str) -> None:
    assert submission_id_of(RayBody(entrypoint="x", submission_id=name)) == name
    assert submission_id_of(RayBody(entrypoint="x", job_id=name)) == name


@pytest.mark.parametrize("name", ["a/b", "..", "a b", "x" * 201, "é", "a\nb"])
def test_ids_that_no_address_can_hold_are_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="submission_id"):
        submission_id_of(RayBody(entrypoint="x", submission_id=name))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("_ray_pkg_1.zip", "zip"),
        ("tool-1.0-py3-none-any.whl", "zip"),
        ("a.tar.gz", "tar.gz"),
        ("a.tgz", "tar.gz"),
        ("a.tar", "tar"),
    ],
)
def test_a_packages_kind_is_told_by_its_name(name: str, kind: str) -> None:
    assert package_format(package_name(f"gcs://{name}")) == kind


@pytest.mark.parametrize("name", ["a.jar", "a.tar.xz", "a", "zip"])
def test_other_kinds_of_packages_are_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="none of zip"):
        package_format(name)
