"""Checks deploy/kubernetes with the schemas and types of Kubernetes' API, and with its advice for pods."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import seconds  # noqa: E402, F401  prints the time of each test

try:
    import yaml
except ImportError:
    yaml = None

HERE = pathlib.Path(__file__).resolve().parent
KUBERNETES = HERE.parents[1] / "deploy/kubernetes"
# Installed once for each build folder.
WORK = pathlib.Path(os.environ["PFC_BIN"]).parent / "tests/deploy/kubernetes_schema"

# The parts of JobSet's API v1alpha2 that deploy/ uses, from its reference.
JOB_SET_KEYS = {"suspend", "network", "successPolicy", "failurePolicy", "replicatedJobs", "startupPolicy"}


def manifests():
    return [each for file in sorted(KUBERNETES.glob("*.yaml")) for each in yaml.safe_load_all(file.read_text())]


def known_to_the_api():
    """Returns all objects. The API itself has no JobSet, so this returns the Jobs that a JobSet makes."""
    for each in manifests():
        if each["kind"] != "JobSet":
            yield each
            continue
        for job in each["spec"]["replicatedJobs"]:
            yield {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": job["name"]}, **job["template"]}


def pods():
    for each in known_to_the_api():
        if each["kind"] in ("Job", "Deployment", "DaemonSet"):
            yield each["metadata"]["name"], each["spec"]["template"]["spec"]


def node(*command, **options):
    return subprocess.run(command, cwd=WORK, capture_output=True, text=True, timeout=150, **options)


def compare_types(objects):
    lines = []
    for number, each in enumerate(objects):
        lines.append(f'import type {{ I{each["kind"]} as T{number} }} from "kubernetes-models/{each["apiVersion"]}/{each["kind"]}";')
        lines.append(f"export const o{number}: T{number} = {json.dumps(each)};")
    (WORK / "manifests.ts").write_text("\n".join(lines))
    return node("node_modules/.bin/tsc", "--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext", "manifests.ts").stdout


@unittest.skipIf(yaml is None, "not run: python3-yaml is not installed: scripts/setup.sh deploy")
class Schema(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if shutil.which("npm") is None:
            raise unittest.SkipTest("not run: no npm")
        WORK.mkdir(parents=True, exist_ok=True)
        lock = (HERE / "kubernetes_schema/package-lock.json").read_text()
        done = WORK / "installed"
        for name in ("package.json", "package-lock.json", "validate.js"):
            shutil.copy(HERE / "kubernetes_schema" / name, WORK)
        if done.exists() and done.read_text() == lock:
            return
        installed = node("npm", "ci", "--no-audit", "--no-fund")
        if installed.returncode != 0:
            if re.search("ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT", installed.stderr):
                raise unittest.SkipTest("not run: npm's registry does not answer")
            raise AssertionError(installed.stderr)
        done.write_text(lock)

    def test_the_api_accepts_every_manifest(self):
        said = node("node", "validate.js", input=json.dumps(list(known_to_the_api())))
        self.assertEqual((said.returncode, said.stdout), (0, ""), said.stderr)

    def test_every_key_of_a_manifest_is_in_the_api(self):
        self.assertEqual(compare_types(known_to_the_api()), "")

    def test_the_checks_find_a_wrong_key_and_a_wrong_value(self):
        wrong = next(known_to_the_api())
        wrong["spec"]["template"]["spec"]["containers"][0]["imgae"] = "pfc"
        self.assertIn('"imgae"', compare_types([wrong]))
        wrong["spec"]["template"]["spec"]["hostNetwork"] = "yes"
        self.assertIn("must be boolean", node("node", "validate.js", input=json.dumps([wrong])).stdout)


@unittest.skipIf(yaml is None, "not run: python3-yaml is not installed: scripts/setup.sh deploy")
class Pods(unittest.TestCase):
    def test_every_key_of_a_job_set_is_in_its_api(self):
        [jobs] = [each for each in manifests() if each["kind"] == "JobSet"]
        self.assertEqual(jobs["apiVersion"], "jobset.x-k8s.io/v1alpha2")
        self.assertEqual(jobs["spec"].keys() - JOB_SET_KEYS, set())
        self.assertIn("kueue.x-k8s.io/queue-name", jobs["metadata"]["labels"])

    def test_no_container_runs_as_root_or_gains_rights(self):
        for name, pod in pods():
            with self.subTest(pod=name):
                self.assertTrue(pod["securityContext"]["runAsNonRoot"])
                self.assertEqual(pod["securityContext"]["seccompProfile"], {"type": "RuntimeDefault"})
                self.assertFalse(pod["automountServiceAccountToken"])
                for each in pod["containers"] + pod.get("initContainers", []):
                    own = each["securityContext"]
                    self.assertFalse(own["allowPrivilegeEscalation"])
                    self.assertTrue(own["readOnlyRootFilesystem"])
                    self.assertEqual(own["capabilities"]["drop"], ["ALL"])
                    self.assertIn("memory", each["resources"]["limits"])
                    self.assertIn("cpu", each["resources"]["requests"])

    def test_every_mount_is_of_a_volume(self):
        for name, pod in pods():
            volumes = {each["name"] for each in pod["volumes"]}
            for each in pod["containers"] + pod.get("initContainers", []):
                self.assertEqual({mount["name"] for mount in each["volumeMounts"]} - volumes, set(), name)

    def test_coordinators_are_probed_at_the_port_that_they_serve(self):
        probed = [pod["containers"][0] for name, pod in pods() if pod["containers"][0]["name"] == "coordinator"]
        self.assertEqual(len(probed), 3)
        for each in probed:
            self.assertEqual(each["readinessProbe"]["httpGet"], {"path": "/healthz", "port": 7451, "scheme": "HTTPS"})
            # When one of these fails, the kubelet sends SIGTERM, which stops the job.
            for probe in ("startupProbe", "livenessProbe"):
                self.assertNotIn(probe, each)


if __name__ == "__main__":
    unittest.main()
