"""One job on three hosts (network namespaces), named by IPv4 or IPv6 address, by name, or in a file. They share an
output folder or have one each."""

import shutil
import unittest

from hosts import HostsTest
from network import address, may_make_namespaces
from support import BIN, LIMIT, digest, run


class ThreeHosts(HostsTest):
    def runs_on_all(self, hosts, names, job):
        """Runs the coordinator on host a, where it starts the agent itself. Returns its result, the join strings and
        the agents' exit codes."""
        coordinator = self.starts_coordinator(*hosts, "--config", job)
        joins = self.join_strings(coordinator, names[1:])
        agents = []
        for key, name in zip("bc", names[1:]):
            self.starts_agent(key, joins[name], "--host", name)
            agents.append(self.agents[-1])
        done = self.ends(coordinator)
        codes = [agent.wait(timeout=LIMIT) for agent in agents]
        self.assertEqual(self.processes(), [])
        return done, joins, codes

    def trains_on_all(self, hosts, names, job=None):
        done, joins, codes = self.runs_on_all(hosts, names, job or self.job_of("out"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(codes, [0] * len(codes))
        return done, joins


@unittest.skipUnless(may_make_namespaces(), "needs root, to make network namespaces")
class Hosts(ThreeHosts):
    def fails_on_all(self):
        return self.runs_on_all(("--hosts", ",".join(f"{n}:2" for n in self.NAMES)), self.NAMES, self.job_of("out"))[0]

    def check(self, names, address_of_coordinator):
        with_slots = [f"[{n}]:2" if ":" in n else f"{n}:2" for n in names]
        done, joins = self.trains_on_all(("--hosts", ",".join(with_slots)), names)
        for name in names[1:]:
            self.assertIn(f"@{address_of_coordinator}#", joins[name])
        self.assertIn("6 workers", done.stderr)
        self.assert_losses_of_one_host()

    def assert_losses_of_one_host(self):
        """Compares the losses bit by bit with those of six workers on one host, a job that all tests share."""
        alone = self.shared / "alone"
        if not alone.exists():
            begun = self.shared / "alone.begun"
            self.finished(6, self.job_of(begun))
            begun.rename(alone)
        self.assertEqual(self.of_steps("loss", "out"), self.of_steps("loss", alone))

    def test_hosts_may_be_given_by_ipv4_addresses(self):
        names = [address(number) for number in (1, 2, 3)]
        self.check(names, f"{names[0]}:7450")

    def test_hosts_may_be_given_by_ipv6_addresses(self):
        names = [address(number, 6) for number in (1, 2, 3)]
        self.check(names, f"[{names[0]}]:7450")

    def test_hosts_may_be_given_by_names_in_a_file(self):
        file = self.folder / "hosts"
        file.write_text("# the cluster\nhost-a slots=2\nhost-b:2\nhost-c slots=2 max_slots=2\n")
        self.trains_on_all(("--hosts-file", file), self.NAMES)
        self.assertEqual(len(self.of_steps("loss", "out")), 3)
        self.assert_losses_of_one_host()

    def test_agents_without_an_address_discover_the_coordinator(self):
        self.starts_agent("b", "f" * 32, "--discover", "--host", "host-b", "--patience", "60s")
        coordinator = self.starts_coordinator("--hosts", ",".join(f"{n}:2" for n in self.NAMES), "--beacon", "--config",
                                              self.job_of("out"))
        joins = self.join_strings(coordinator, self.NAMES[1:])
        token = joins["host-b"].split("@")[0]
        stranger = self.agents.pop()  # its token belongs to no coordinator
        for key in "bc":
            self.starts_agent(key, token, "--discover", "--host", f"host-{key}")
        done = self.ends(coordinator)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([agent.wait(timeout=LIMIT) for agent in self.agents], [0, 0])
        self.assertIsNone(stranger.poll(), "it has found a coordinator that does not know its token")
        self.agents.append(stranger)
        self.assertEqual(len(self.of_steps("loss", "out")), 3)

    def test_a_host_with_different_data_is_named_before_training(self):
        other = self.folder / "other"
        self.succeeded(run(BIN / "pfcctl", "data", "synth", "--identities", self.IDENTITIES, "--images-per-identity",
                           self.IMAGES + 1, "--size", self.SIZE, "--out", other))
        self.network.gives_its_own("b", self.data, other)
        done = self.fails_on_all()
        self.assert_one_line(done, f"host host-b: {self.data}/train.idx has 88 images of 8 classes",
                             "rank 0 on host host-a has 80 images of 8 classes",
                             "give every host the same data", code=2)
        self.assertFalse((self.folder / "out/metrics.jsonl").exists())

    def test_a_host_without_data_is_named(self):
        nothing = self.folder / "nothing"
        nothing.mkdir()
        self.network.gives_its_own("c", self.data, nothing)
        done = self.fails_on_all()
        self.assert_one_line(done, "ranks 4-5 (host host-c): ", f"{self.data}/train.rec: not found", code=2)

    def test_the_coordinator_names_a_late_host_and_waits_for_it(self):
        coordinator = self.starts_coordinator("--hosts", "host-a:1,host-b:1,host-c:1", "--config", self.job_of("out"))
        joins = self.join_strings(coordinator, ["host-b", "host-c"])
        self.starts_agent("b", joins["host-b"], "--host", "host-b")
        self.told += self.read_until(coordinator, "waiting for host-c to register")
        self.starts_agent("c", joins["host-c"], "--host", "host-c")
        done = self.ends(coordinator)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(self.of_steps("loss", "out")), 3)

    def test_a_missing_host_is_named_with_the_command_to_run_there(self):
        coordinator = self.starts_coordinator("--hosts", "host-a:1,host-b:1,host-c:1", "--config",
                                              self.job_of("out"), "--start-timeout", "8s")
        self.starts_agent("b", self.join_strings(coordinator, ["host-b", "host-c"])["host-b"], "--host", "host-b")
        done = self.ends(coordinator)
        self.assert_one_line(done, "host host-c", "no agent has registered after 8 s",
                             f"pfc-agent --join 'TOKEN@{address(1)}:7450#", "--host host-c", code=3)
        self.assertIn("waiting for host-c to register", done.stderr)


@unittest.skipUnless(may_make_namespaces(), "needs root, to make network namespaces")
class OwnOutput(ThreeHosts):
    """Every host has its own folder at `output`."""

    def setUp(self):
        super().setUp()
        (self.folder / "out").mkdir()
        for key in self.HOSTS:
            (self.folder / f"out-of-{key}").mkdir()
            self.network.gives_its_own(key, self.folder / "out", self.folder / f"out-of-{key}")

    def trains(self, names, **keys):
        job = self.job_of("out", save_every_steps=2, sample_rate=0.5, **keys)
        return self.trains_on_all(("--hosts", ",".join(f"{n}:2" for n in names)), names, job)[0]

    def alone(self, workers, **keys):
        self.finished(workers, self.job_of("alone", save_every_steps=2, sample_rate=0.5, **keys))

    def files(self, output):
        """Returns {path in the folder: sha256} of the model and of each checkpoint's tensors."""
        folder = self.folder / output
        return {str(path.relative_to(folder)): digest(path) for path in folder.rglob("*.safetensors")}

    def test_unshared_output_folders_give_the_same_results_and_resume_on_fewer_hosts(self):
        done = self.trains(self.NAMES)
        self.assertIn("is not shared: the folder of host host-a is used", done.stderr)
        self.assertIn("to and from host-b, host-c", done.stderr)
        self.alone(6)
        self.assertEqual(self.of_steps("loss", "out-of-a"), self.of_steps("loss", "alone"))
        self.assertEqual(self.files("out-of-a"), self.files("alone"))
        self.assertEqual(len(self.files("out-of-a")), 2 * 8 + 1, "files of steps 2 and 3, and the model")
        for key in "bc":
            self.assertEqual(list((self.folder / f"out-of-{key}").iterdir()), [], "nothing is left on other hosts")

        # A newer checkpoint, but on a host that does not count.
        shutil.copytree(self.folder / "out-of-a/step-000000003", self.folder / "out-of-b/step-000000009")
        self.trains(self.NAMES[:2], resume=True, max_steps=6)
        self.alone(4, resume=True, max_steps=6)
        self.assertEqual(self.of_steps("loss", "out-of-a"), self.of_steps("loss", "alone"))
        self.assertEqual(self.files("out-of-a"), self.files("alone"))


if __name__ == "__main__":
    unittest.main()
