"""Injects random faults into a cluster, and measures when training continues after each."""

import os
import random
import signal
import time

KINDS = ("kill", "stop", "partition", "coordinator", "agent", "absence")
SOON = 0.25  # fraction of the faults that come within a second of the previous fault


class Fault:
    def __init__(self, number, kind, target, at, lasts, generation, trains):
        self.number, self.kind, self.target, self.at, self.lasts = number, kind, target, at, lasts
        self.generation, self.trains = generation, trains
        self.took = None  # seconds from the fault to the next step

    def __str__(self):
        return f"{self.kind} of {self.target}" + (f" for {self.lasts:.1f} s" if self.lasts else "")


class Faults:
    """Injects faults on request. undo() must be called repeatedly, and ends lasting faults."""

    def __init__(self, kinds, seed):
        self.kinds = kinds
        self.random = random.Random(seed)
        self.faults = []
        self.deck = []  # kinds of faults that must be used before any kind is repeated

    def turn_to(self, cluster, watch, job):
        """Injects all further faults into this job."""
        self.cluster, self.watch, self.job = cluster, watch, job
        self.later = []    # actions that end a fault: (when, what)
        self.busy = set()  # "coordinator", and hosts that are cut off or have no agent
        watch.listeners.append(self.see)

    def job_has_ended(self):
        now = time.monotonic()
        for fault in self.waiting():
            fault.took = now - fault.at
        self.undo(all_of_them=True)

    def waiting(self):
        """Returns the faults after which training has not yet continued."""
        return [fault for fault in self.faults if fault.took is None]

    def pause(self, mean):
        """Returns the seconds until the next fault."""
        return self.random.uniform(0.05, 1) if self.random.random() < SOON else self.random.expovariate(1 / mean)

    def see(self, now, status, steps):
        """Notes for each fault when training has continued: when a later generation completes its first step; or if
        the generation has survived, when a step completes after the fault's end."""
        stepped = steps or (status["state"] == "training" and self.has_stepped(status))
        for fault in self.waiting():
            later = status["generation"] > fault.generation
            same = steps and now > fault.at + fault.lasts and (not fault.trains or fault.kind not in ("kill", "agent", "absence"))
            if (later and stepped) or same:
                fault.took = now - fault.at
                print(f"{clock()}  continued    after {fault.took:5.1f} s  (#{fault.number}, {fault})", flush=True)

    @staticmethod
    def has_stepped(status):
        return bool(status["workers"]) and status["workers"][0]["images_seen"] > status["workers"][0]["resumed_images"]

    def undo(self, all_of_them=False):
        now = time.monotonic()
        due = [each for each in self.later if all_of_them or each[0] <= now]
        self.later = [each for each in self.later if each not in due]
        for _, what in due:
            what()

    def after(self, seconds, what):
        self.later.append((time.monotonic() + seconds, what))

    def one(self):
        """Injects one of the faults that are possible now."""
        if not self.deck:
            self.deck = list(self.kinds)
            self.random.shuffle(self.deck)
        for kind in list(self.deck):
            if getattr(self, kind)():
                self.deck.remove(kind)
                return

    def begin(self, kind, target, lasts=0.0, has_workers=True):
        status = self.watch.status
        fault = Fault(len(self.faults) + 1, kind, target, time.monotonic(), lasts, status["generation"],
                      status["state"] == "training" and has_workers)
        print(f"{clock()}  {kind:11}  #{fault.number}: {target}" + (f" for {lasts:.1f} s" if lasts else ""), flush=True)
        with self.watch.changed:
            self.faults.append(fault)

    def worker(self):
        hosts = [key for key in self.cluster.keys if key not in self.busy]
        pids = [(key, pid) for key in hosts for pid in self.cluster.worker_pids(key)]
        return self.random.choice(pids) if pids else None

    def kill(self):
        found = self.worker()
        if not found:
            return False
        self.begin("kill", f"worker {found[1]} of host {found[0]}")
        send(found[1], signal.SIGKILL)
        return True

    def stop(self):
        found = self.worker()
        if not found:
            return False
        lasts = self.random.uniform(1, 12)
        self.begin("stop", f"worker {found[1]} of host {found[0]}", lasts)
        send(found[1], signal.SIGSTOP)
        self.after(lasts, lambda: send(found[1], signal.SIGCONT))
        return True

    def partition(self):
        hosts = [key for key in self.cluster.keys if key not in self.busy]
        if not hosts:
            return False
        key, lasts, how = self.random.choice(hosts), self.random.uniform(1, 12), self.random.choice(("down", "silently"))
        self.begin("partition", f"host {key} ({how})", lasts)
        self.busy.add(key)
        self.cluster.network.take_away(key, how)
        self.after(lasts, lambda: (self.cluster.network.give_back(key, how), self.busy.discard(key)))
        return True

    def agent(self):
        return self.host_without_agent("agent", 0.1, 4)

    def absence(self):
        """Keeps a host's agent away so long that the other hosts continue without it, if --min-workers allows this."""
        return self.host_without_agent("absence", 12, 25)

    def host_without_agent(self, kind, least, most):
        hosts = [key for key in self.cluster.keys if key not in self.busy]
        if not hosts:
            return False
        key, away = self.random.choice(hosts), self.random.uniform(least, most)
        self.begin(kind, f"host {key}, started again after {away:.1f} s", has_workers=bool(self.cluster.worker_pids(key)))
        self.busy.add(key)
        self.cluster.agents[key].kill()
        self.cluster.agents[key].wait()
        self.after(away, lambda: (self.cluster.start_agent(key), self.busy.discard(key)))
        return True

    def coordinator(self):
        if "coordinator" in self.busy or self.cluster.coordinator.poll() is not None:
            return False
        away = self.random.uniform(0.1, 4)
        self.begin("coordinator", f"started again after {away:.1f} s", away)
        self.busy.add("coordinator")
        self.cluster.coordinator.kill()
        self.cluster.coordinator.wait()
        self.after(away, lambda: (self.cluster.start_coordinator(self.job), self.busy.discard("coordinator")))
        return True


def send(pid, number):
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def clock():
    return time.strftime("%H:%M:%S")
