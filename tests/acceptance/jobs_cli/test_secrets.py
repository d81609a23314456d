"""A team's secret from `yard secret set` into a job, and out of its log."""

import subprocess
import sys

from tests.acceptance.jobs_cli.yarding import Yard

VALUE = "hf_0123456789abcdef"


def test_a_secret_is_stored_handed_to_a_job_and_kept_out_of_its_log(shared: Yard) -> None:
    stored = subprocess.run(
        [sys.executable, "-m", "trackyard.cli.main", "secret", "set", "HF_TOKEN"],
        input=f"{VALUE}\n",
        env=shared.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert stored.returncode == 0, stored.stderr
    assert [row["name"] for row in shared.read("secret", "list")] == ["HF_TOKEN"]
    # Six characters prove that the job has it; the whole is printed, too.
    script = (
        'echo "it is $HF_TOKEN"; echo "begins ${HF_TOKEN%??????????}"; echo "has ${#HF_TOKEN}"'
    )
    job = shared.submit("--secret", "HF_TOKEN", "--env", "LR=0.125", "--", "sh", "-c", script)
    shared.until_state(job, "succeeded")
    log = shared.logs(job)
    assert "it is •••" in log
    assert f"has {len(VALUE)}" in log
    assert VALUE not in log
    page = shared.page(job)
    assert page["spec"]["env"] == {"LR": "•••"}
    assert page["spec"]["secrets"] == ["HF_TOKEN"]
    shared.ok("secret", "rm", "HF_TOKEN")
    refused = shared.run("submit", "--secret", "HF_TOKEN", "--", "true")
    assert refused.code != 0
    assert "yard secret set HF_TOKEN" in refused.err
