"""Simulated hosts: network namespaces joined by a bridge in another namespace. Needs root."""

import ctypes
import os
import pathlib
import subprocess
import sys


CLONE_NEWNET = 0x40000000


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


def enter(namespace):
    """Moves the calling thread into this network namespace."""
    with open(f"/run/netns/{namespace}", "rb") as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"setns to {namespace}")


def may_make_namespaces():
    name = f"pfc-probe-{os.getpid()}"
    try:
        ip("netns", "add", name)
    except (OSError, subprocess.CalledProcessError):
        return False
    ip("netns", "delete", name)
    return True


def may_limit_speed():
    """Returns whether the kernel has the token bucket that Network.slow() uses."""
    name = f"pfc-probe-{os.getpid()}"
    try:
        ip("netns", "add", name)
    except (OSError, subprocess.CalledProcessError):
        return False
    try:
        ip("-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", "eth1")
        limit(name, "eth0", "1mbit")
        return True
    except (OSError, subprocess.CalledProcessError):
        return False
    finally:
        ip("netns", "delete", name)


def limit(name, interface, speed):
    subprocess.run(["tc", "-n", name, "qdisc", "add", "dev", interface, "root", "tbf", "rate", speed, "burst",
                    "64kb", "latency", "400ms"], check=True, capture_output=True, text=True)


def address(number, version=4):
    """Returns the address of host `number`, from 1."""
    return f"10.77.0.{number}" if version == 4 else f"fd77::{number}"


class Network:
    """Namespaces "a", "b", "c" with the addresses address(1), address(2), address(3) and the names host-a, host-b,
    host-c."""

    def __init__(self, mark, hosts):
        self.keys = hosts
        self.names = {key: f"pfc-{mark}-{key}" for key in (*hosts, "bridge")}
        for name in self.names.values():
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        self.connect(hosts, "eth0", "br0", "to")
        for number, key in enumerate(hosts, 1):
            ip("-n", self.names[key], "address", "add", f"{address(number)}/24", "dev", "eth0")
            ip("-n", self.names[key], "address", "add", f"{address(number, 6)}/64", "dev", "eth0", "nodad")
        self.folders = [self.host_file(self.names[key]) for key in hosts]
        self.own = {}

    def connect(self, hosts, interface, bridge, mark):
        """Connects each of these hosts to this bridge. Bridge ports are named like "to-a"."""
        where = self.names["bridge"]
        ip("-n", where, "link", "add", bridge, "type", "bridge")
        ip("-n", where, "link", "set", bridge, "up")
        for key in hosts:
            ip("-n", self.names[key], "link", "add", interface, "type", "veth", "peer", "name", f"{mark}-{key}",
               "netns", where)
            ip("-n", where, "link", "set", f"{mark}-{key}", "master", bridge, "up")
            ip("-n", self.names[key], "link", "set", interface, "up")

    def add(self, hosts, interface, network):
        """Adds a network for some hosts, with addresses network.1, network.2, ..."""
        self.connect(hosts, interface, f"br-{interface}", interface)
        for key in hosts:
            ip("-n", self.names[key], "address", "add", f"{network}.{self.keys.index(key) + 1}/24", "dev", interface)

    def slow(self, key, interface, speed):
        """Limits the speed at which a host sends through this interface."""
        limit(self.names[key], interface, speed)

    def narrow(self, key, mtu):
        """Drops packets larger than `mtu` on a host's link, without an ICMP message."""
        for name in self.names.values():
            if name != self.names["bridge"]:  # with offload, several packets in one would pass the limit
                ip("-n", name, "link", "set", "eth0", "gso_max_segs", "1")
        ip("-n", self.names["bridge"], "link", "set", f"to-{key}", "mtu", str(mtu))

    def separate(self, key, interface, *addresses):
        """Makes a host's packets to these addresses go to a MAC address that no card has."""
        for each in addresses:
            ip("-n", self.names[key], "neighbour", "add", each, "lladdr", "02:00:00:00:00:01", "dev", interface,
               "nud", "permanent")

    def host_file(self, name):
        """Writes /etc/hosts of one namespace, with the names of all hosts."""
        folder = f"/etc/netns/{name}"
        os.makedirs(folder)
        with open(f"{folder}/hosts", "w", encoding="utf-8") as file:
            file.write("127.0.0.1 localhost\n")
            for number, key in enumerate(self.keys, 1):
                file.write(f"{address(number)} host-{key}\n")
        return folder

    def gives_its_own(self, key, target, source):
        """For programs started on this host from now on, mounts `source` at `target`."""
        self.own.setdefault(key, []).append((target, source))

    def within(self, key, *command):
        # ip netns exec creates a mount namespace per command, so other hosts do not see these mounts.
        for target, source in self.own.get(key, ()):
            command = ["sh", "-c", 'mount --bind "$1" "$2" && shift 2 && exec "$@"', "sh", source, target, *command]
        return ["ip", "netns", "exec", self.names[key], *map(str, command)]

    def take_away(self, key, how, mark="to"):
        """Breaks a host's link: "down", which both sides see, or silently. `mark`: interface of an added network."""
        where = ["-n", self.names["bridge"], "link", "set", f"{mark}-{key}"]
        ip(*where, "down") if how == "down" else ip(*where, "nomaster")

    def give_back(self, key, how, mark="to"):
        where = ["-n", self.names["bridge"], "link", "set", f"{mark}-{key}"]
        ip(*where, "up") if how == "down" else ip(*where, "master", "br0" if mark == "to" else f"br-{mark}")

    def spoil(self, key, loss, delay):
        """Makes a host's cable drop this part of all frames and delay the others by `delay` seconds in each
        direction. Returns the process that does it, for mend()."""
        where = self.names["bridge"]
        ip("-n", where, "link", "set", f"to-{key}", "nomaster")
        ip("-n", where, "link", "add", f"in-{key}", "type", "veth", "peer", "name", f"on-{key}")
        ip("-n", where, "link", "set", f"on-{key}", "master", "br0", "up")
        ip("-n", where, "link", "set", f"in-{key}", "up")
        return subprocess.Popen(["ip", "netns", "exec", where, sys.executable, "-B",
                                 str(pathlib.Path(__file__).parent / "lossy_link.py"),
                                 f"to-{key}", f"in-{key}", str(loss), str(delay)], stdout=subprocess.PIPE, text=True)

    def mend(self, key, process):
        """Ends spoil()'s process and returns its frame counts."""
        process.terminate()
        said = process.communicate()[0]
        where = self.names["bridge"]
        ip("-n", where, "link", "delete", f"in-{key}")
        ip("-n", where, "link", "set", f"to-{key}", "master", "br0")
        return said.strip()

    def remove(self):
        for folder in self.folders:
            os.unlink(f"{folder}/hosts")
            os.rmdir(folder)
        for name in self.names.values():
            ip("netns", "delete", name)
