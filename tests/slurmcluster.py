"""A real Slurm for tests: a controller and two nodes with two declared GPUs each, for a session.

One cluster serves a whole session (`slurm_cluster`); it is up in about two seconds. Everything is
the tests' own: munge's key and socket, ports, state. Needs Debian's slurm-wlm and munge.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

NODES = ("n1", "n2")
CPUS = 8
MEMORY_MB = 8000
GPUS = 2
#: the machine may be busy with other tests
PATIENCE = 240.0
#: what clients say of a controller that is busy or being restarted
_BUSY = ("Socket timed out", "Unable to contact", "Zero Bytes", "Connection refused")
_SYSTEM = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

CONF = """\
ClusterName=yardtest
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=50
ReturnToService=2
MpiDefault=none
GresTypes=gpu
SlurmdParameters=config_overrides
SlurmctldParameters=idle_on_node_suspend
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=0,bf_interval=2
PriorityType=priority/basic
EnforcePartLimits=ALL
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
KillWait=3
SlurmdTimeout=300
BatchStartTimeout=300
MessageTimeout=5
TCPTimeout=5
JobRequeue=1
JobSubmitPlugins=lua
{nodes}
PartitionName=gpu Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP PriorityTier=1
PartitionName=urgent Nodes=n1,n2 MaxTime=60 State=UP PriorityTier=10
PartitionName=whole Nodes=n1,n2 MaxTime=30 OverSubscribe=EXCLUSIVE State=UP PriorityTier=1
PartitionName=short Nodes=n1 MaxTime=10 MaxNodes=1 State=UP PriorityTier=1
"""
#: as sites write them: whole nodes alone, and no more jobs while the file `full` is there
SUBMIT_RULES = """\
function has_memory(job)
  return job.pn_min_memory and job.pn_min_memory < 1e15
end

function slurm_job_submit(job, partitions, uid)
  if job.partition == "whole" and (job.tres_per_node or has_memory(job)) then
    slurm.log_user("Whole nodes only: take --gres and --mem out")
    return slurm.ERROR
  end
  local mark = io.open("{folder}/full")
  if mark then
    mark:close()
    slurm.log_user("AssocMaxSubmitJobLimit")
    return slurm.ESLURM_ACCOUNTING_POLICY
  end
  return slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, uid)
  return slurm.SUCCESS
end

return slurm.SUCCESS
"""


class SlurmCluster:
    """A controller and its nodes, with what tests do to them."""

    def __init__(self) -> None:
        for program in ("slurmctld", "slurmd", "munged", "sbatch", "srun"):
            assert shutil.which(program, path=_SYSTEM), f"no {program}: run tools/test_needs.sh"
        self.folder = Path(tempfile.mkdtemp(prefix="yard-slurm-"))
        self.conf = self.folder / "slurm.conf"
        self.shared = self.folder / "shared"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._starts = 0

    def start(self) -> None:
        (self.folder / "state").mkdir()
        self.shared.mkdir()
        host = socket.gethostname().partition(".")[0]
        ports = _free_ports(len(NODES) + 1)
        nodes = "\n".join(
            f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={CPUS}"
            f" RealMemory={MEMORY_MB} Gres=gpu:h100:{GPUS} State=UNKNOWN"
            for name, port in zip(NODES, ports[1:], strict=True)
        )
        self._write_conf(
            CONF.format(
                host=host,
                port=ports[0],
                user=getpass.getuser(),
                folder=self.folder,
                nodes=nodes,
            )
        )
        # Any device files do for GPUs that are only counted.
        (self.folder / "gres.conf").write_text(
            f"NodeName={','.join(NODES)} Name=gpu Type=h100 File=/dev/null,/dev/zero\n"
        )
        (self.folder / "job_submit.lua").write_text(SUBMIT_RULES.format(folder=self.folder))
        self._start_munge()
        self.start_controller()
        for name in NODES:
            self.start_node(name)
        self.wait_until_idle()

    def _start_munge(self) -> None:
        key = self.folder / "munge.key"
        key.unlink(missing_ok=True)
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        places = {
            "socket": "munge.sock",
            "key-file": "munge.key",
            "pid-file": "munge.pid",
            "log-file": "munge.log",
            "seed-file": "munge.seed",
        }
        options = [f"--{name}={self.folder / file}" for name, file in places.items()]
        self._spawn("munge", ["munged", "--foreground", "--force", *options])
        _wait((self.folder / "munge.sock").exists, lambda: "munge did not start")

    def start_controller(self) -> None:
        # One that crashed has lost what it did last; nodes refuse numbers that they saw before.
        self._starts += 1
        text = re.sub(r"FirstJobId=\d+\n", "", self.conf.read_text())
        self._write_conf(f"{text}FirstJobId={self._starts * 1000}\n")
        self._spawn("slurmctld", ["slurmctld", "-f", str(self.conf), "-D"])

    def _write_conf(self, text: str) -> None:
        """Write slurm.conf at once: commands of running tests read it at any moment."""
        beside = self.conf.with_name(".slurm.conf.new")
        beside.write_text(text)
        beside.replace(self.conf)

    def start_node(self, name: str) -> None:
        self._spawn(name, ["slurmd", "-f", str(self.conf), "-N", name, "-D"])

    def kill(self, what: str) -> None:
        """End the controller or a node's daemon at once, as a crash would."""
        process = self._processes.pop(what)
        process.kill()
        process.wait()

    def freeze(self, what: str, *, thaw: bool = False) -> None:
        """Stop a daemon in its tracks, or let it go on."""
        self._processes[what].send_signal(signal.SIGCONT if thaw else signal.SIGSTOP)

    def run(self, *line: str, given: str = "", check: bool = True) -> str:
        """Run one of Slurm's commands past Trackyard; a busy controller is asked again."""
        deadline = time.monotonic() + PATIENCE
        while True:
            answer = subprocess.run(
                line,
                input=given,
                capture_output=True,
                text=True,
                env={"PATH": _SYSTEM, "SLURM_CONF": str(self.conf), "HOME": str(self.folder)},
                timeout=PATIENCE,
                check=False,
            )
            is_busy = any(words in answer.stderr for words in _BUSY) and line[0] != "sbatch"
            if not (check and is_busy) or time.monotonic() > deadline:
                break
            time.sleep(0.5)
        assert not check or answer.returncode == 0, answer.stderr
        return answer.stdout.strip()

    def submit(self, *options: str, command: str = "sleep 600") -> str:
        """Submit a job as any other user of the cluster does; return its id."""
        given = f"#!/bin/sh\n{command}\n"
        return self.run("sbatch", "--parsable", "--output=/dev/null", *options, given=given)

    def state(self, job_id: str) -> str:
        """Return a job's state."""
        return self.run("squeue", "-h", "-t", "all", "-j", job_id, "-o", "%T", check=False)

    def wait_until_idle(self) -> None:
        """Bring up what is down, and wait until all nodes take work and nothing runs."""
        self.bring_up()
        _wait(self._is_idle, self._why_not_idle)

    def bring_up(self) -> None:
        """Start the daemons that a test has killed."""
        if "slurmctld" not in self._processes:
            self.start_controller()
        for name in NODES:
            if name not in self._processes:
                self.start_node(name)

    def _is_idle(self) -> bool:
        states = self.run("sinfo", "-h", "-N", "-p", "gpu", "-o", "%T", check=False)
        return states.split() == ["idle"] * len(NODES)

    def _why_not_idle(self) -> str:
        jobs = self.run("squeue", "-h", "-o", "%i %T %N %r", check=False)
        nodes = self.run("sinfo", "-h", "-N", "-p", "gpu", "-o", "%N %T %E", check=False)
        return f"the nodes of {self.folder.name} did not become idle:\n{nodes}\n{jobs}"

    def make_idle(self) -> None:
        """Give the next test idle nodes, whatever the one before it left.

        What a crash on purpose leaves behind (a step that nobody can end, a node that Slurm has
        drained for it) outlasts the test that made it: such a cluster loses its state.
        """
        self.bring_up()
        deadline = time.monotonic() + PATIENCE / 4
        while not self._is_idle():
            if time.monotonic() > deadline:
                print(self._why_not_idle(), "\nStarting the cluster anew.")
                self._start_anew()
                break
            time.sleep(0.2)
        self.wait_until_idle()

    def _start_anew(self) -> None:
        """Replace the daemons and all that they remember; address and files stay as they are."""
        for name in list(self._processes):
            self.kill(name)
        self._end_steps()
        (self.folder / "munge.sock").unlink(missing_ok=True)
        self._start_munge()
        shutil.rmtree(self.folder / "state")
        (self.folder / "state").mkdir()
        for name in NODES:
            shutil.rmtree(self.folder / f"spool-{name}", ignore_errors=True)

    def take_no_more(self, *, again: bool = False) -> None:
        """Have the controller refuse jobs as over an account's limit, or take them again."""
        mark = self.folder / "full"
        mark.unlink(missing_ok=True) if again else mark.touch()

    def clear(self) -> None:
        """Cancel all jobs, drop reservations, and wait for idle nodes."""
        self.take_no_more(again=True)
        for process in self._processes.values():
            process.send_signal(signal.SIGCONT)
        self.run("scancel", f"--user={getpass.getuser()}", check=False)
        for line in self.run("scontrol", "-o", "show", "reservation", check=False).splitlines():
            name = line.partition("ReservationName=")[2].partition(" ")[0]
            if name:
                self.run("scontrol", "delete", f"ReservationName={name}", check=False)
        self.run("scontrol", "update", f"NodeName={','.join(NODES)}", "State=RESUME", check=False)
        self.make_idle()

    def stop(self) -> None:
        if "slurmctld" in self._processes:
            self.run("scancel", f"--user={getpass.getuser()}", check=False)
        for name in [name for name in self._processes if name != "munge"] + ["munge"]:
            process = self._processes.pop(name, None)
            if process is None:
                continue
            process.send_signal(signal.SIGCONT)
            process.terminate()
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._end_steps()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _end_steps(self) -> None:
        """End the step daemons of jobs, which outlive their node's daemon, with what they run."""
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if Path(process.cwd()).is_relative_to(self.folder):
                    for one in [*process.children(recursive=True), process]:
                        one.kill()

    def _spawn(self, name: str, line: list[str]) -> None:
        with (self.folder / f"{name}.out").open("ab") as output:
            self._processes[name] = subprocess.Popen(
                line,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={"PATH": _SYSTEM, "SLURM_CONF": str(self.conf), "HOME": str(self.folder)},
                cwd=self.folder,
            )


def _wait(what: Callable[[], bool], why: Callable[[], str]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < deadline, why()
        time.sleep(0.1)


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


@pytest.fixture(scope="session")
def _whole_slurm() -> Iterator[SlurmCluster]:
    cluster = SlurmCluster()
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def slurm_cluster(_whole_slurm: SlurmCluster) -> SlurmCluster:
    """The session's cluster, idle and whole."""
    _whole_slurm.make_idle()
    return _whole_slurm
