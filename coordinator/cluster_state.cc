#include "coordinator/cluster_state.h"

#include <algorithm>
#include <utility>

#include "common/one_line.h"

namespace pfc {
namespace {

constexpr int kCannotStart = 127;  // what a shell says when there is no such program

/// The last line that says something: where a crashing program wrote why.
std::string last_words(const std::vector<std::string>& lines) {
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    if (line->find_first_not_of(" \t\r") != std::string::npos) return *line;
  }
  return {};
}

constexpr int kMostSlots = 1'024;            // a larger number of GPUs must be a mistake
constexpr std::size_t kLongestDevice = 200;  // "cuda:0 NVIDIA H100 80GB HBM3 (79.6 GiB)"

Failure failure_of(const WorkerState& worker, Failure::Kind kind, std::string what, TimePoint now) {
  return {.kind = kind,
          .rank = worker.rank,
          .who = name_of(worker),
          .what = std::move(what),
          .at_start = false,
          .at = now};
}

/// Whether the coordinator itself has begun to end the workers.
bool ended_by_us(const ClusterState& state) { return state.terminated_at || state.killed_at; }

}  // namespace

void fail(ClusterState& state, Failure failure) { state.failures.push_back(std::move(failure)); }

HostState* find_host(ClusterState& state, const std::string& name) {
  const auto host = std::find_if(state.hosts.begin(), state.hosts.end(),
                                 [&](const HostState& each) { return each.name == name; });
  return host == state.hosts.end() ? nullptr : &*host;
}

WorkerState* find_worker(ClusterState& state, Rank rank) {
  const bool known = rank >= 0 && rank < static_cast<Rank>(state.workers.size());
  return known ? &state.workers[rank] : nullptr;
}

WorkerState* find_worker(ClusterState& state, const HostState& host, int slot,
                         std::int64_t incarnation) {
  WorkerState* const worker = slot < 0 ? nullptr : find_worker(state, host.first_rank + slot);
  const bool same =
      worker != nullptr && worker->host == host.name && worker->incarnation == incarnation;
  return same ? worker : nullptr;
}

WorkerState* find_worker(ClusterState& state, const proto::WorkerId& id) {
  const auto host = std::find_if(state.hosts.begin(), state.hosts.end(), [&](const auto& each) {
    return each.registered && each.agent_id == id.agent_id();
  });
  if (host == state.hosts.end()) return nullptr;
  return find_worker(state, *host, id.slot(), id.incarnation());
}

bool all_joined(const ClusterState& state) {
  return std::all_of(state.workers.begin(), state.workers.end(),
                     [](const WorkerState& worker) { return worker.joined; });
}

bool all_exited(const ClusterState& state) {
  return std::all_of(state.workers.begin(), state.workers.end(),
                     [](const WorkerState& worker) { return worker.exit.has_value(); });
}

std::string name_of(const WorkerState& worker) {
  std::string name = "rank " + std::to_string(worker.rank) + " (host " + worker.host + ", slot " +
                     std::to_string(worker.slot);
  if (worker.pid != 0) name += ", pid " + std::to_string(worker.pid);
  return name + ")";
}

std::string missing_workers(const ClusterState& state) {
  std::string names;
  for (const WorkerState& worker : state.workers) {
    if (!worker.joined) names += (names.empty() ? "" : ", ") + name_of(worker);
  }
  return names;
}

std::string missing_hosts(const ClusterState& state) {
  std::string names;
  for (const HostState& host : state.hosts) {
    if (!host.registered) names += (names.empty() ? "" : ", ") + host.name;
  }
  return names;
}

void host_registered(HostState& host, const proto::AgentRegistration& registration,
                     DeviceChoice device, TimePoint now) {
  host.registered = true;
  host.agent_id = registration.agent_id();
  host.cores = registration.cores();
  host.devices.clear();
  for (int i = 0; i < std::min(registration.devices_size(), kMostSlots + 1); ++i) {
    host.devices.push_back(one_line(registration.devices(i), kLongestDevice));
  }
  host.no_gpu = registration.gpus() > 0 ? "" : one_line(registration.no_gpu());
  if (registration.gpus() <= 0 && host.no_gpu.empty()) host.no_gpu = "no GPU";
  host.last_heard = now;
  if (host.slots > 0) return;
  host.slots = device == DeviceChoice::kCpu ? 1 : std::clamp(registration.gpus(), 1, kMostSlots);
}

void agent_replaced(ClusterState& state, HostState& host, TimePoint now) {
  host.former_agents.push_back(host.agent_id);
  host.incarnation += 1;
  const bool start_again = !all_joined(state) && state.failures.empty() && !ended_by_us(state);
  bool lost = false;
  for (WorkerState& worker : state.workers) {
    if (worker.host != host.name || worker.exit) continue;
    if (start_again) {
      worker = {.rank = worker.rank,
                .host = worker.host,
                .slot = worker.slot,
                .incarnation = host.incarnation,
                .last_heard = now,
                .last_moved = now};
      continue;
    }
    worker.exit = ProcessExit{.signal = SIGKILL};
    lost = true;
  }
  if (!lost || ended_by_us(state)) return;
  fail(state,
       {.kind = Failure::Kind::kCrash,
        .rank = {},
        .who = "host " + host.name,
        .what = "its pfc-agent was started again, and its workers have ended with the old one",
        .at_start = false,
        .at = now});
}

void worker_exited(ClusterState& state, WorkerState& worker, const ProcessExit& exit,
                   const std::vector<std::string>& last_stderr, TimePoint now) {
  if (worker.exit) return;  // an agent that has reconnected reports it again
  worker.exit = exit;
  if (ended_by_us(state)) return;
  const bool reported_success =
      worker.report && (worker.report->outcome == proto::OUTCOME_COMPLETED ||
                        worker.report->outcome == proto::OUTCOME_STOPPED);
  if (worker.report && (!reported_success || exit.success())) return;
  std::string what = reported_success ? "reported success, then " : "";
  what += describe(exit);
  if (!worker.report && exit.success()) what += " without reporting how its work ended";
  if (const std::string words = last_words(last_stderr); !words.empty())
    what += ": " + one_line(words);
  fail(state, failure_of(worker, Failure::Kind::kCrash, what, now));
}

void worker_not_started(ClusterState& state, WorkerState& worker, const std::string& why,
                        TimePoint now) {
  if (worker.exit) return;
  worker.exit = ProcessExit{.code = kCannotStart};
  Failure failure = failure_of(worker, Failure::Kind::kCrash, one_line(why), now);
  failure.at_start = true;
  fail(state, std::move(failure));
}

void worker_reported(ClusterState& state, WorkerState& worker, proto::Outcome outcome,
                     const std::string& message, TimePoint now) {
  if (worker.report) return;
  worker.report = WorkerReport{.outcome = outcome, .message = one_line(message), .at = now};
  if (outcome == proto::OUTCOME_COMPLETED || outcome == proto::OUTCOME_STOPPED) return;
  const bool peer = outcome == proto::OUTCOME_COMM_FAILED;
  // After we have ended the workers, a lost peer is our doing, and an earlier failure is the cause.
  // A worker that fails by itself then (it cannot write its checkpoint) is news.
  if (ended_by_us(state) && (peer || !state.failures.empty())) return;
  fail(state, failure_of(worker, peer ? Failure::Kind::kPeerLost : Failure::Kind::kCrash,
                         one_line(message), now));
}

}  // namespace pfc
