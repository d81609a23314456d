"""Which log policy knows a failure, and what it says."""

from trackyard.queue.attempts.log_policies import DEFAULTS, LogPolicy, matching, told

OWN = LogPolicy(
    id="lp-1", pattern="loss scale below", label="overflow", stop_retries=True, message="Overflow."
)


def test_policies_of_the_team_come_before_the_shipped_ones() -> None:
    text = "step 1\nCUDA error: uncorrectable ECC error encountered\nloss scale below 1e-4\n"
    found = matching([OWN, *DEFAULTS], text)
    assert found == (OWN, "loss scale below 1e-4")
    assert told(*found) == ("Log policy overflow: loss scale below 1e-4 · It is not tried again.")


def test_a_shipped_policy_says_what_to_do_and_blames_the_node() -> None:
    found = matching(list(DEFAULTS), "RuntimeError: uncorrectable ECC error encountered")
    assert found is not None
    assert (found[0].label, found[0].exclude_node) == ("ecc", True)
    assert "Drain the node" in told(*found)
    assert "avoids its node" in told(*found)


def test_a_harmless_log_is_left_alone() -> None:
    assert matching(list(DEFAULTS), "Traceback\nValueError: bad shape\n") is None
