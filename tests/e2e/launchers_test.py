"""Agents started by real launchers: Open MPI's mpirun and Slurm's srun, on two network namespaces.

Each host has its own namespace and name, so hosts and launchers do not notice that they share a machine. mpirun
enters a namespace instead of using SSH.
"""

import os
import pathlib
import re
import shutil
import subprocess
import time
import unittest

from network import Network, address, may_make_namespaces
from support import BIN, LIMIT, JobTest, run

DEPLOY = pathlib.Path(__file__).resolve().parents[2] / "deploy"
HOSTS = "ab"
WORKERS_A_HOST = 2


def missing(*programs):
    return [program for program in programs if shutil.which(program) is None]


class LauncherTest(JobTest):
    def setUp(self):
        super().setUp()
        self.network = Network(os.getpid(), HOSTS)
        self.addCleanup(self.network.remove)
        self.daemons = []
        self.addCleanup(self.ends_daemons)
        self.environment["PATH"] = f"{BIN}:{os.environ['PATH']}:/usr/sbin"

    def ends_daemons(self):
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in self.daemons:
            try:
                daemon.wait(timeout=LIMIT)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

    def tearDown(self):
        self.ends_daemons()
        super().tearDown()

    def on_host(self, key, *command):
        """Returns the command line that runs `command` on a host: in its namespace, with its name. Not `ip netns
        exec`, which hides the control groups that slurmd needs."""
        name = self.network.names[key]
        return ["nsenter", f"--net=/run/netns/{name}", "unshare", "--uts", "--mount", "sh", "-c",
                f'mount --bind /etc/netns/{name}/hosts /etc/hosts && hostname host-{key} && exec "$@"', "sh",
                *map(str, command)]

    def job_of(self, output, **keys):
        return self.job(**{"num_epoch": 1, "max_steps": 3, "batch_size": 2,
                           "output": str(self.folder / output), **keys})

    def assert_the_losses_of_one_host(self):
        self.finished(len(HOSTS) * WORKERS_A_HOST, self.job_of("alone"))
        self.assertEqual(self.of_steps("loss", "out"), self.of_steps("loss", "alone"), "expected the bits of four workers on one host")


@unittest.skipIf(missing("mpirun"), "Open MPI is not installed: scripts/setup.sh launchers")
@unittest.skipUnless(may_make_namespaces(), "needs root, to make network namespaces")
class OpenMpi(LauncherTest):
    def setUp(self):
        super().setUp()
        remote = self.folder / "remote.sh"
        name = self.network.names["b"]
        remote.write_text(f"""#!/bin/sh
# As ssh: HOST COMMAND
[ "$1" = host-b ] || exit 1
shift
exec ip netns exec {name} unshare --uts sh -c "hostname host-b && $*"
""")
        remote.chmod(0o755)
        self.hosts = self.folder / "hosts"
        self.hosts.write_text("".join(f"host-{key} slots={WORKERS_A_HOST}\n" for key in HOSTS))
        self.environment.update(
            OMPI_MCA_plm_rsh_agent=str(remote), OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
            TMPDIR=str(self.folder))

    def trains(self, *options):
        self.environment["PFC_JOIN_FILE"] = str(self.folder / "join")
        return run(*self.on_host("a", DEPLOY / "mpi/pfc.sh", self.job_of("out"), "--state-dir",
                                 self.folder / "state", *options), env=self.environment)

    def test_agents_of_mpirun_train_on_the_hosts_of_a_host_file(self):
        self.environment["PFC_HOSTFILE"] = str(self.hosts)
        done = self.succeeded(self.trains())
        self.assertIn("4 workers", done.stdout)
        self.assert_the_losses_of_one_host()

    def test_coordinator_and_mpirun_take_the_hosts_from_the_same_variable(self):
        self.environment["OMPI_MCA_orte_default_hostfile"] = str(self.hosts)
        done = self.succeeded(self.trains())
        self.assertIn("4 workers", done.stdout)

    def test_a_host_without_an_agent_is_named_with_the_command_of_mpirun(self):
        self.environment["OMPI_MCA_orte_default_hostfile"] = str(self.hosts)
        done = run(*self.on_host("a", BIN / "pfc-coordinator", "--hosts-from", "mpi", "--config", self.job_of("out"),
                                 "--join-file", self.folder / "join", "--state-dir", self.folder / "state",
                                 "--start-timeout", "1s"), env=self.environment)
        self.assert_one_line(done, "hosts host-a, host-b", "no agent has registered after 1 s",
                             f"mpirun --pernode --bind-to none pfc-agent --once --join-file {self.folder}/join", code=3)


SLURM_CONFIGURATION = """
ClusterName=pfctest
SlurmctldHost=host-a({address})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
CredType=cred/munge
StateSaveLocation={folder}/slurm
SlurmdSpoolDir={folder}/slurm/spool.%n
SlurmctldPidFile={folder}/slurm/slurmctld.pid
SlurmdPidFile={folder}/slurm/slurmd.%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SchedulerParameters=bf_interval=1,sched_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


@unittest.skipIf(missing("sbatch", "slurmctld", "slurmd", "munged"),
                 "Slurm is not installed: scripts/setup.sh launchers")
@unittest.skipUnless(may_make_namespaces(), "needs root, to make network namespaces")
class Slurm(LauncherTest):
    def setUp(self):
        super().setUp()
        os.chmod(self.shared, 0o755)  # munged rejects a socket in a folder that other users may not search
        os.chmod(self.folder, 0o755)
        (self.folder / "slurm").mkdir()
        self.environment["SLURM_CONF"] = str(self.folder / "slurm.conf")
        nodes = "\n".join(f"NodeName=host-{key} NodeAddr={address(number)} CPUs={os.cpu_count()} State=UNKNOWN"
                          for number, key in enumerate(HOSTS, 1))
        (self.folder / "slurm.conf").write_text(
            SLURM_CONFIGURATION.format(address=address(1), folder=self.folder, nodes=nodes))
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        self.starts("munged", "munged", "--foreground", "--force", f"--key-file={key}",
                    *(f"--{what}-file={self.folder}/munge.{what}" for what in ("pid", "log", "seed")),
                    f"--socket={self.folder}/munge.socket")
        self.waits_until((self.folder / "munge.socket").exists)
        self.starts("slurmctld", *self.on_host("a", "slurmctld", "-D"))
        for key in HOSTS:
            self.starts(f"slurmd-{key}", *self.on_host(key, "slurmd", "-D"))
        self.waits_until(lambda: self.slurm("sinfo", "--noheader", "--states=idle", "--format=%D").strip() == "2")

    def starts(self, name, *command):
        log = open(self.folder / f"{name}.log", "wb")
        with log:
            self.daemons.append(subprocess.Popen([str(word) for word in command], env=self.environment,
                                                 cwd=self.folder, stdout=log, stderr=subprocess.STDOUT))

    def waits_until(self, condition):
        deadline = time.monotonic() + LIMIT
        while not condition():
            if time.monotonic() > deadline:
                logs = "".join(f"== {log.name}\n{log.read_text()}" for log in self.folder.glob("*.log"))
                self.fail("Slurm did not reach this state:\n" + logs)
            time.sleep(0.2)

    def tearDown(self):
        self.slurm("scancel", "--user=root")
        self.waits_until(lambda: not self.slurm("squeue", "--noheader").strip())
        super().tearDown()

    def slurm(self, *command):
        return run(*self.on_host("a", *command), env=self.environment, cwd=self.folder).stdout

    def submits(self, *words):
        said = self.succeeded(run(*self.on_host(
                           "a", "sbatch", "--nodes=2", f"--ntasks-per-node={WORKERS_A_HOST}", *words[:-1],
                           DEPLOY / "slurm/pfc.sbatch", words[-1], "--state-dir", self.folder / "state"),
                           env=self.environment, cwd=self.folder))
        return re.search(r"\d+", said.stdout)[0]

    def log_of(self, number):
        path = self.folder / f"pfc-{number}.log"
        return path.read_text() if path.exists() else ""

    def state_of(self, number):
        return re.search(r"JobState=(\w+)", self.slurm("scontrol", "show", "job", number))[1]

    def test_agents_of_srun_train_on_the_hosts_of_the_allocation(self):
        number = self.submits(self.job_of("out"))
        self.waits_until(lambda: self.state_of(number) not in ("PENDING", "RUNNING", "COMPLETING"))
        self.assertEqual(self.state_of(number), "COMPLETED", self.log_of(number))
        self.assertIn("4 workers", self.log_of(number))
        self.assert_the_losses_of_one_host()

    def goes_back_to_the_queue_and_resumes(self, signal, line):
        number = self.submits(self.job_of("out", num_epoch=10_000, max_steps=1_000_000))
        self.waits_until(lambda: "Loss" in self.log_of(number))
        self.slurm("scancel", *(word.format(job=number) for word in signal))
        self.waits_until(lambda: "the job goes back to the queue" in self.log_of(number))
        self.assertIn(line, self.log_of(number))
        last = max(self.of_steps("step"))
        self.waits_until(lambda: max(self.of_steps("step")) > last)
        steps = self.of_steps("step")
        self.assertEqual(steps, sorted(set(steps)), "no step is done twice")

    def test_a_job_out_of_time_goes_back_to_the_queue_and_resumes(self):
        # Slurm sends this signal near the time limit to a job with --signal=B:USR1.
        self.goes_back_to_the_queue_and_resumes(("--batch", "--signal=USR1", "{job}"), "job stopped by SIGTERM")

    def test_a_job_whose_agents_get_sigterm_goes_back_to_the_queue_and_resumes(self):
        # Slurm sends this signal to the step of a job that it preempts.
        self.goes_back_to_the_queue_and_resumes(("--signal=TERM", "{job}.0"), "is leaving (SIGTERM)")


if __name__ == "__main__":
    unittest.main()
