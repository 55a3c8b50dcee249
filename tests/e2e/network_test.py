"""Tests which network the workers use if hosts have several: the fastest one that connects all hosts.

Hosts are network namespaces. They have the network of the coordinator, a second one, and some a third. A token bucket
(tc tbf) slows down a network.
"""

import json
import re
import time
import unittest

from hosts import HostsTest
from network import address, may_limit_speed, may_make_namespaces
from support import BIN, LIMIT, run

HOSTS = "abc"
SLOW = "20mbit"
FAST_NETWORK, PART_NETWORK = "10.88.0.0/24", "10.99.0.0/24"


@unittest.skipUnless(may_make_namespaces(), "needs root, to make network namespaces")
class NetworkOfTheWorkers(HostsTest):
    def starts_agent(self, number):
        self.agents.append(self.on_host(HOSTS[number - 1], BIN / "pfc-agent", "--once", "--join-file", self.folder / "join",
                                        "--host", address(number), "--state-dir", self.folder / f"agent-{number}"))

    def trains(self, *more, hosts=HOSTS):
        """Runs one worker per host. The coordinator is on host a and starts the agent there."""
        numbers = [HOSTS.index(key) + 1 for key in hosts]
        for number in numbers[1:]:
            self.starts_agent(number)
        job = self.job(num_epoch=1, max_steps=2, batch_size=2)
        return run(*self.network.within(
            "a", BIN / "pfc-coordinator", "--hosts", ",".join(f"{address(number)}:1" for number in numbers),
            "--config", job, "--port", 7450, "--http-port", 7451, "--state-dir", self.folder / "state",
            "--join-file", self.folder / "join", *more), env=self.environment)

    def choice(self, done):
        """Returns the line with the chosen network."""
        lines = re.findall(r"^pfc-coordinator: (network .*)$", done.stderr, re.MULTILINE)
        self.assertEqual(len(lines), 1, done.stderr)
        print(lines[0], flush=True)
        return lines[0]

    def assert_completed(self, done, own_address):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn(f"Gloo (TCP, {own_address})", done.stdout)
        for agent in self.agents:
            self.assertEqual(agent.wait(timeout=LIMIT), 0)

    def has_three_networks(self):
        """Makes the coordinator's network slow, and adds a fast one and one that connects only hosts a and b."""
        self.network.add(HOSTS, "eth1", "10.88.0")
        self.network.add("ab", "eth2", "10.99.0")
        for key in HOSTS:
            self.network.slow(key, "eth0", SLOW)

    @unittest.skipUnless(may_limit_speed(), "the kernel has no tc tbf, which makes a network slow")
    def test_a_job_uses_the_fastest_network_that_connects_all_hosts(self):
        self.has_three_networks()
        done = self.trains()
        self.assert_completed(done, "10.88.0.1")
        line = self.choice(done)
        self.assertIn(f"network {FAST_NETWORK} (eth1): 3 hosts, slowest pair ", line)
        self.assertRegex(line, r"not used: .*10\.77\.0\.0/24 \(slowest pair [\d.]+ to [\d.]+ [\d.]+ Mbit/s\)")
        self.assertIn(f"{PART_NETWORK} ({address(3)} is not in it)", line)

    @unittest.skipUnless(may_limit_speed(), "the kernel has no tc tbf, which makes a network slow")
    def test_a_job_uses_the_requested_network(self):
        self.has_three_networks()
        done = self.trains("--network", "10.77.0.0/16", hosts="ab")
        self.assert_completed(done, "10.77.0.1")
        self.assertIn("network 10.77.0.0/24 (eth0): 2 hosts, slowest pair ", self.choice(done))

    def test_does_not_use_a_network_that_drops_packets_of_a_pair(self):
        """All hosts have an address in its subnet, but b and c cannot reach each other there."""
        self.network.add(HOSTS, "eth1", "10.88.0")
        self.network.separate("b", "eth1", "10.88.0.3")
        self.network.separate("c", "eth1", "10.88.0.2")
        done = self.trains()
        self.assert_completed(done, "10.77.0.1")
        self.assertRegex(self.choice(done), rf"not used: .*10\.88\.0\.0/24 \({address(2)} cannot reach {address(3)}: ")

    def test_names_the_pair_that_has_no_network(self):
        """Hosts b and c reach the coordinator, but not each other."""
        self.network.separate("b", "eth0", address(3), address(3, 6))
        self.network.separate("c", "eth0", address(2), address(2, 6))
        begun = time.monotonic()
        done = self.trains()
        took = time.monotonic() - begun
        self.assert_one_line(
            done, f"host {address(2)} cannot reach host {address(3)}: ", f"{address(2)} has {address(2)}/24 (eth0), ",
            f"{address(3)} has {address(3)}/24 (eth0), ", f"tried {address(2)} to {address(3)}: ", code=3)
        print(f"named after {took:.1f} s, with the start of all programs: {done.stderr.splitlines()[-1]}", flush=True)
        self.assertLess(took, 100, "not found before the workers' own timeout")

    def test_names_the_host_without_an_address_in_the_requested_network(self):
        self.network.add("ab", "eth1", "10.88.0")
        done = self.trains("--network", "10.88.0.0/24")
        self.assert_one_line(done, f"--network 10.88.0.0/24: host {address(3)} has no matching address, only ",
                             f"{address(3)}/24 (eth0)", code=3)

    def test_shows_the_network_in_the_status(self):
        self.network.add(HOSTS, "eth1", "10.88.0")
        coordinator = self.starts_coordinator(
            "--hosts", f"{address(1)}:1,{address(2)}:1", "--config", self.job(num_epoch=100_000, save_every_steps=0),
            "--join-file", self.folder / "join", "--network", "eth1")
        self.starts_agent(2)
        self.read_until(coordinator, "generation 1: starting")
        status = json.loads(self.pfcctl("status", "--json").stdout)
        self.assertTrue(status["network"].startswith(f"network {FAST_NETWORK} (eth1): 2 hosts, "), status["network"])
        self.assertEqual([(host["address"], host["interface"]) for host in status["hosts"]],
                         [("10.88.0.1", "eth1"), ("10.88.0.2", "eth1")])
        self.pfcctl("stop", "--now")
        coordinator.communicate(timeout=LIMIT)
        self.agents[0].wait(timeout=LIMIT)


if __name__ == "__main__":
    unittest.main()
