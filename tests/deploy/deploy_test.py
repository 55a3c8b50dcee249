"""Checks that the names in deploy/ exist: options of the programs, and names that its files share."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import seconds  # noqa: E402, F401  prints the time of each test

try:
    import yaml
except ImportError:
    yaml = None

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
BIN = pathlib.Path(os.environ["PFC_BIN"])

OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")
# Options of sbatch, srun and mpirun.
FOREIGN = {"--job-name", "--output", "--open-mode", "--requeue", "--signal", "--ntasks", "--ntasks-per-node", "--cpu-bind",
           "--map-by", "--bind-to", "--hostfile"}


def objects(name):
    return list(yaml.safe_load_all((DEPLOY / "kubernetes" / name).read_text()))


def one(found, kind, name):
    [match] = [each for each in found if each["kind"] == kind and each["metadata"]["name"] == name]
    return match


def container(job):
    [only] = job["spec"]["template"]["spec"]["containers"]
    return only


def variables(of_container):
    return {each["name"]: each["value"] for each in of_container["env"]}


@unittest.skipIf(yaml is None, "python3-yaml is not installed: scripts/setup.sh launchers")
class Kubernetes(unittest.TestCase):
    def test_the_coordinator_of_a_job_knows_its_agents(self):
        found = objects("job.yaml")
        coordinator, agents = one(found, "Job", "pfc-coordinator"), one(found, "Job", "pfc-agent")
        known = variables(container(coordinator))
        self.assertEqual(known["PFC_KUBERNETES_JOB"], agents["metadata"]["name"])
        self.assertEqual(known["PFC_KUBERNETES_SERVICE"], agents["spec"]["template"]["spec"]["subdomain"])
        self.assertEqual(int(known["PFC_KUBERNETES_PODS"]), agents["spec"]["completions"])
        self.assertEqual(agents["spec"]["parallelism"], agents["spec"]["completions"])
        self.assertEqual(agents["spec"]["completionMode"], "Indexed")
        self.assertEqual(variables(container(agents))["PFC_KUBERNETES_JOB"], agents["metadata"]["name"])

    def test_services_select_the_pods_of_a_job(self):
        found = objects("job.yaml")
        for service, job in (("pfc-coordinator", "pfc-coordinator"), ("pfc-agents", "pfc-agent")):
            labels = one(found, "Job", job)["spec"]["template"]["metadata"]["labels"]
            self.assertEqual(one(found, "Service", service)["spec"]["selector"].items() - labels.items(), set())
        self.assertEqual(one(found, "Service", "pfc-agents")["spec"]["clusterIP"], "None")

    def test_a_restarted_service_keeps_its_state_and_name(self):
        found = objects("service.yaml")
        deployment = one(found, "Deployment", "pfc-coordinator")
        self.assertEqual((deployment["spec"]["replicas"], deployment["spec"]["strategy"]["type"]), (1, "Recreate"))
        pod = deployment["spec"]["template"]
        labels = pod["metadata"]["labels"]
        self.assertEqual(one(found, "Service", "pfc-coordinator")["spec"]["selector"].items() - labels.items(), set())
        options = dict(word.split("=") for word in container(deployment)["args"])
        self.assertEqual(options["--address"], "pfc-coordinator")
        [volume] = [each for each in pod["spec"]["volumes"] if "persistentVolumeClaim" in each]
        [mount] = [each for each in container(deployment)["volumeMounts"] if each["name"] == volume["name"]]
        self.assertTrue(options["--state-dir"].startswith(mount["mountPath"] + "/"))
        one(found, "PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"])

    def test_a_coordinators_pod_is_replaced_only_if_it_was_killed(self):
        [rule] = one(objects("job.yaml"), "Job", "pfc-coordinator")["spec"]["podFailurePolicy"]["rules"]
        codes = set(map(int, re.findall(r"kExit\w+ = (\d+);", (ROOT / "common/exit_codes.h").read_text()))) - {0, 4}
        self.assertEqual(set(rule["onExitCodes"]["values"]), codes | {129, 130, 143})

    def test_variables_of_a_job_set_have_the_names_of_its_pods(self):
        [jobs] = objects("jobset.yaml")
        coordinator, node = jobs["spec"]["replicatedJobs"]
        name = jobs["metadata"]["name"]
        known = variables(container(coordinator["template"]))
        self.assertEqual(known["PFC_KUBERNETES_JOB"], f"{name}-{node['name']}-0")
        self.assertEqual(known["PFC_KUBERNETES_SERVICE"], name)
        self.assertEqual(int(known["PFC_KUBERNETES_PODS"]), node["template"]["spec"]["completions"])
        self.assertEqual(variables(container(node["template"]))["PFC_KUBERNETES_JOB"], known["PFC_KUBERNETES_JOB"])
        self.assertIn(f"--address={name}-{coordinator['name']}-0-0.{name}", container(coordinator["template"])["args"])
        self.assertEqual(jobs["spec"]["successPolicy"]["targetReplicatedJobs"], [coordinator["name"]])

    def test_programs_read_every_variable_of_the_manifests(self):
        source = "".join((ROOT / name).read_text() for name in ("common/launch_variables.h", "security/join_string.h"))
        for file in (DEPLOY / "kubernetes").iterdir():
            for name in re.findall(r"\bPFC_[A-Z_]+\b", file.read_text()):
                self.assertIn(f'"{name}"', source, file.name)

    def test_pods_have_time_for_a_checkpoint(self):
        for name in ("job.yaml", "daemonset.yaml"):
            for each in objects(name):
                if each["kind"] in ("Job", "DaemonSet"):
                    pod = each["spec"]["template"]["spec"]
                    self.assertGreater(pod["terminationGracePeriodSeconds"], 35, "--grace, and the agent's 5 s")


class AllFiles(unittest.TestCase):
    def test_scripts_are_valid_shell(self):
        for name in ("slurm/pfc.sbatch", "mpi/pfc.sh"):
            self.assertEqual(subprocess.run(["bash", "-n", DEPLOY / name]).returncode, 0, name)

    def test_every_option_exists_in_a_program(self):
        known = FOREIGN | {option for program in ("pfc-coordinator", "pfc-agent") for option in OPTION.findall(
            subprocess.run([BIN / program, "--help"], capture_output=True, text=True).stdout)}
        for file in (path for path in DEPLOY.rglob("*") if path.is_file() and path.suffix != ".md"):
            # Options of apt-get and useradd, and of a script itself.
            if file.parent.name == "container" or file.suffix == ".py":
                continue
            commands = [line for line in file.read_text().splitlines() if not line.startswith("# ")]
            with self.subTest(file=file.name):
                self.assertEqual(set(OPTION.findall("\n".join(commands))) - known, set())


@unittest.skipIf(shutil.which("systemd-analyze") is None, "not run: systemd is not installed")
class Units(unittest.TestCase):
    units = sorted((DEPLOY / "systemd").glob("*.service"))

    def test_units_are_accepted_by_systemd(self):
        said = subprocess.run(["systemd-analyze", "verify", "--man=no", *self.units], capture_output=True, text=True)
        problems = [line for line in said.stderr.splitlines() if "is not executable" not in line]
        self.assertEqual(problems, [])

    def test_systemd_rates_the_exposure_of_each_unit_below_3(self):
        for unit in self.units:
            said = subprocess.run(["systemd-analyze", "security", "--offline=true", "--threshold=29", unit],
                                  capture_output=True, text=True)
            self.assertEqual(said.returncode, 0, said.stdout[-200:] + said.stderr)

    def test_units_share_one_sandbox(self):
        def sandbox(unit):
            lines = unit.read_text().split("# The sandbox.")[1].split("[Install]")[0]
            return lines.strip()
        self.assertEqual(len({sandbox(unit) for unit in self.units}), 1)

    def test_users_and_folders_are_accepted_by_systemd(self):
        for command, file in (("systemd-sysusers", "pfc.sysusers"), ("systemd-tmpfiles", "pfc.tmpfiles")):
            with tempfile.TemporaryDirectory() as root:
                extra = ["--create"] if "tmpfiles" in command else []
                (pathlib.Path(root) / "etc").mkdir()
                (pathlib.Path(root) / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\npfc:x:990:990::/:/bin/false\n")
                (pathlib.Path(root) / "etc/group").write_text("root:x:0:\npfc:x:990:\n")
                said = subprocess.run([command, *extra, f"--root={root}", DEPLOY / "systemd" / file],
                                      capture_output=True, text=True)
                self.assertEqual((said.returncode, said.stderr), (0, ""), file)


if __name__ == "__main__":
    unittest.main()
