"""Where code comes from: git commit, branch, remote and uncommitted changes of a folder.

Owns asking git and cleaning what it says. A folder without git, or a machine without it, is
no error: there is simply nothing to tell.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

DIFF_LIMIT_BYTES = 512 * 1024
GIT_SECONDS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class GitSource:
    """The state of a git work tree."""

    commit: str
    #: None when no branch is checked out
    branch: str | None
    #: address of the remote, without credentials
    remote: str | None
    #: whether tracked files differ from the commit, or untracked ones would be packaged
    dirty: bool
    #: the difference to the commit as git prints it, cut at a limit
    diff: str
    diff_is_cut: bool = False
    #: paths git knows nothing of and does not ignore
    untracked: tuple[str, ...] = ()

    def tags(self) -> dict[str, str]:
        """Return MLflow's tags for it."""
        tags = {"mlflow.source.git.commit": self.commit, "mlflow.source.git.dirty": "false"}
        if self.dirty:
            tags["mlflow.source.git.dirty"] = "true"
        if self.branch:
            tags["mlflow.source.git.branch"] = self.branch
        if self.remote:
            tags["mlflow.source.git.repoURL"] = self.remote
        return tags


def capture(folder: str | os.PathLike[str]) -> GitSource | None:
    """Describe the work tree `folder` lies in, or return None if it lies in none."""
    place = Path(folder)
    commit = _git(place, "rev-parse", "--verify", "HEAD")
    if commit is None:
        return None
    branch = _git(place, "symbolic-ref", "--short", "--quiet", "HEAD")
    remote = _git(place, "config", "--get", "remote.origin.url")
    # Plain text, no colours or external programs, whatever the user's settings say.
    diff = _git(
        place, "diff", "--no-color", "--no-ext-diff", "--no-textconv", "--submodule=short",
        "--relative", "HEAD", "--", ".",
    )  # fmt: skip
    others = _git(place, "ls-files", "--others", "--exclude-standard", "-z", "--", ".")
    untracked = tuple(sorted(name for name in (others or "").split("\0") if name))
    text = diff or ""
    raw = text.encode("utf-8", "replace")
    return GitSource(
        commit=commit.strip(),
        branch=branch.strip() if branch else None,
        remote=without_credentials(remote.strip()) if remote else None,
        dirty=bool(text.strip()) or bool(untracked),
        diff=raw[:DIFF_LIMIT_BYTES].decode("utf-8", "ignore"),
        diff_is_cut=len(raw) > DIFF_LIMIT_BYTES,
        untracked=untracked[:1000],
    )


def without_credentials(address: str) -> str:
    """Drop user and password from a remote's address."""
    return re.sub(r"^([a-zA-Z][a-zA-Z0-9+.-]*://)[^/@]*@", r"\1", address)


def _git(folder: Path, *words: str) -> str | None:
    environment = {
        **os.environ,
        "GIT_OPTIONAL_LOCKS": "0",
        "LC_ALL": "C",
        "GIT_TERMINAL_PROMPT": "0",
    }
    try:
        answer = subprocess.run(
            ["git", "-C", str(folder), *words],
            capture_output=True,
            timeout=GIT_SECONDS,
            check=False,
            env=environment,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.decode("utf-8", "replace") if answer.returncode == 0 else None
