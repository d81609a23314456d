"""`yard idev`, `yard submit --interactive` and `yard attach` as people use them: in terminals."""

import re
from collections.abc import Callable

from tests.acceptance.interactive.typing import Person
from tests.acceptance.jobs_cli.yarding import Yard

Sit = Callable[..., Person]
#: A shell that prints a prompt that no machine's own settings change.
SHELL = ("--no-working-dir", "--", "env", "PS1=ready> ", "bash", "--norc", "--noprofile", "-i")


def _job(person: Person) -> str:
    person.sees("yard attach ")
    found = re.search(r"yard attach (\S+)", person.shown)
    assert found is not None
    return found[1]


def test_a_shell_knows_the_size_takes_ctrl_c_and_ends_with_exit(yard: Yard, person: Sit) -> None:
    """Size and later sizes are passed on; Ctrl-C ends the program and not the shell."""
    at = person("idev", *SHELL, columns=91, rows=27)
    job = _job(at)
    at.sees("ready> ")
    at.type("stty size; tty\n")
    at.sees("27 91")
    at.sees("/dev/pts/")
    at.resized(77, 33)
    at.sees("ready> ")
    at.type("until [ \"$(stty size)\" = '33 77' ]; do sleep 0.1; done; echo re''sized\n")
    at.sees("resized")
    # The trap is set before it says so: a shell that is only starting may miss the key.
    waits = "trap 'echo cau''ght; exit 7' INT; echo wai''ting; while :; do sleep 0.1; done"
    at.type(f'sh -c "{waits}"; echo code $?\n')
    at.sees("waiting")
    at.type("\x03")
    at.sees("caught")
    at.sees("code 7")
    at.type("echo still he''re\n")
    at.sees("still here")
    at.type("exit 3\n")
    assert at.ends() == 1
    assert "ended with code 3" in at.shown.replace("exit code", "code"), at.shown[-400:]
    assert yard.read("show", job)["job"]["state"] == "failed"
    assert "still here" in yard.ok("logs", job)


def test_a_shell_lives_on_when_detached_and_when_the_line_is_cut(yard: Yard, person: Sit) -> None:
    """`~.` leaves it; attaching shows its recent output again, and its state is as it was left."""
    at = person("submit", "-y", "--interactive", *SHELL)
    job = _job(at)
    at.sees("ready> ")
    at.type("here=kept; echo before-$here\n")
    at.sees("before-kept")
    at.sees("ready> ")
    at.type("\n")
    at.sees("ready> ")
    at.type("~.")
    at.sees("detached")
    assert at.ends() == 0
    again = person("attach", job)
    again.sees("before-kept")
    again.process.kill()
    third = person("attach", job)
    third.sees("before-kept")
    third.type("echo after-$here\n")
    third.sees("after-kept")
    third.type("exit\n")
    assert third.ends() == 0
    assert yard.read("show", job)["job"]["state"] == "succeeded"


def test_a_server_restarted_under_a_terminal_finds_the_shell_again(
    yard: Yard, person: Sit
) -> None:
    """Both the runner and the command line connect again; nothing of the shell is lost."""
    at = person("idev", *SHELL)
    _job(at)
    at.sees("ready> ")
    at.type("here=kept; echo pid-$$-\n")
    at.sees("pid-")
    at.sees("ready> ")
    yard.server.kill()
    yard.server.start()
    at.sees("connecting again")
    at.sees("ready> ")
    at.type("echo after-$here\n")
    at.sees("after-kept")
    at.type("exit\n")
    assert at.ends() == 0


def test_the_time_limit_is_told_in_the_terminal_before_it_ends_it(yard: Yard, person: Sit) -> None:
    """A warning first, then the stop; the job's cause is its limit."""
    at = person("idev", "--time", "6s", "--grace", "1s", *SHELL)
    job = _job(at)
    at.sees("this session ends in")
    at.sees("stopping (time_limit)")
    assert at.ends() == 1
    assert yard.read("show", job)["job"]["cause"] == "time_limit"


def test_a_job_without_a_terminal_and_one_that_waits_are_refused_in_words(yard: Yard) -> None:
    """Each says what to do."""
    plain = yard.submit("--no-working-dir", "--", "sleep", "600")
    yard.until_state(plain, "running")
    said = yard.run("attach", plain)
    assert said.code == 1
    assert "not submitted as interactive" in said.err
    yard.ok("stop", plain, "--now", "--wait")
