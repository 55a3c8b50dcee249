// Schedule and targets of the faults of pfcctl chaos.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "proto/coordinator.pb.h"

namespace pfc {

/// One kind of repeated fault.
struct FaultWish {
  proto::FaultKind kind = proto::FAULT_KILL_WORKER;
  std::chrono::milliseconds every{0};  ///< mean interval
  std::chrono::milliseconds lasts{0};  ///< duration; 0: instantaneous
};

struct ChaosPlan {
  std::vector<FaultWish> wishes;
  std::chrono::milliseconds duration{0};
  std::uint64_t seed = 1;
};

struct PlannedFault {
  std::chrono::milliseconds at{0};  ///< since the start
  proto::FaultKind kind = proto::FAULT_KILL_WORKER;
  std::chrono::milliseconds lasts{0};
  double pick = 0;  ///< from 0 to 1; selects one of the possible targets
};

/// Returns all faults that begin before the end, in order. The interval between two faults of a
/// kind is 0.5 to 1.5 times FaultWish::every. Pure: a seed gives the same times on every machine,
/// and the times of one kind do not depend on the other kinds.
std::vector<PlannedFault> plan_faults(const ChaosPlan& plan);

/// Allowed targets of faults.
struct FaultScope {
  std::optional<int> rank;  ///< only this rank; empty: any
  std::string host;         ///< only this host; empty: any
  /// Hosts whose agents refused a kind of fault.
  std::map<proto::FaultKind, std::set<std::string>> refused = {};
};

struct FaultVictim {
  int rank = -1;  ///< -1: the host
  std::string host;
};

/// Returns the target of the fault among the running workers or the present hosts, or nothing if
/// none is in the scope. Pure.
std::optional<FaultVictim> pick_victim(const PlannedFault& fault, const FaultScope& scope,
                                       const proto::StatusReply& status);

/// Returns whether the fault targets one worker rather than a host.
bool hits_a_worker(proto::FaultKind kind);
/// Returns "kill", "stop", "partition" or "kill-agent".
std::string name_of(proto::FaultKind kind);

}  // namespace pfc
