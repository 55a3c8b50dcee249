#include "pfcctl/chaos/schedule.h"

#include <algorithm>
#include <random>
#include <tuple>

namespace pfc {
namespace {

using std::chrono::milliseconds;

/// Returns a number in [0, 1). The standard distributions differ between libraries.
double uniform(std::mt19937_64& random) { return static_cast<double>(random() >> 11) * 0x1.0p-53; }

}  // namespace

bool hits_a_worker(proto::FaultKind kind) {
  return kind == proto::FAULT_KILL_WORKER || kind == proto::FAULT_STOP_WORKER;
}

std::string name_of(proto::FaultKind kind) {
  switch (kind) {
    case proto::FAULT_KILL_WORKER:
      return "kill";
    case proto::FAULT_STOP_WORKER:
      return "stop";
    case proto::FAULT_PARTITION:
      return "partition";
    case proto::FAULT_KILL_AGENT:
      return "kill-agent";
    default:
      return "undo";
  }
}

std::vector<PlannedFault> plan_faults(const ChaosPlan& plan) {
  std::vector<PlannedFault> faults;
  for (const FaultWish& wish : plan.wishes) {
    if (wish.every <= milliseconds{0}) continue;
    std::seed_seq seeds{plan.seed & 0xffffffff, plan.seed >> 32,
                        static_cast<std::uint64_t>(wish.kind)};
    std::mt19937_64 random(seeds);
    const auto every = static_cast<double>(wish.every.count());
    double at = 0;
    while (true) {
      at += every * (0.5 + uniform(random));
      const milliseconds when{static_cast<std::int64_t>(at)};
      if (when >= plan.duration) break;
      faults.push_back(
          {.at = when, .kind = wish.kind, .lasts = wish.lasts, .pick = uniform(random)});
    }
  }
  std::ranges::sort(faults, {},
                    [](const PlannedFault& each) { return std::tuple(each.at, each.kind); });
  return faults;
}

std::optional<FaultVictim> pick_victim(const PlannedFault& fault, const FaultScope& scope,
                                       const proto::StatusReply& status) {
  const auto refused = scope.refused.find(fault.kind);
  const auto is_in_scope = [&](const std::string& host) {
    return (scope.host.empty() || host == scope.host) &&
           (refused == scope.refused.end() || !refused->second.contains(host));
  };
  std::vector<FaultVictim> victims;
  if (hits_a_worker(fault.kind)) {
    for (const proto::WorkerStatus& worker : status.workers()) {
      const bool runs = worker.pid() != 0 && worker.state() != "exited" &&
                        worker.state() != "failed" && worker.state() != "completed";
      const bool is_wanted = !scope.rank || worker.rank() == *scope.rank;
      if (runs && is_wanted && is_in_scope(worker.host())) {
        victims.push_back({.rank = worker.rank(), .host = worker.host()});
      }
    }
  } else {
    for (const proto::HostStatus& host : status.hosts()) {
      if (host.registered() && is_in_scope(host.name())) victims.push_back({.host = host.name()});
    }
  }
  if (victims.empty()) return {};
  const auto chosen = static_cast<std::size_t>(fault.pick * static_cast<double>(victims.size()));
  return victims[std::min(chosen, victims.size() - 1)];
}

}  // namespace pfc
