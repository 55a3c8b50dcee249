// What pfcctl chaos does when, and to whom.
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

/// One kind of fault, again and again.
struct FaultWish {
  proto::FaultKind kind = proto::FAULT_KILL_WORKER;
  std::chrono::milliseconds every{0};  ///< on average
  std::chrono::milliseconds lasts{0};  ///< 0: it does not last
};

struct ChaosPlan {
  std::vector<FaultWish> wishes;
  std::chrono::milliseconds duration{0};
  std::uint64_t seed = 1;
};

struct PlannedFault {
  std::chrono::milliseconds at{0};  ///< since the begin
  proto::FaultKind kind = proto::FAULT_KILL_WORKER;
  std::chrono::milliseconds lasts{0};
  double pick = 0;  ///< from 0 to 1: which one of those that it may hit
};

/// All faults that begin before the end, in order. From one to the next of its kind it is between
/// half and one and a half times FaultWish::every. A pure function: the same seed gives the same
/// times on every machine, and those of one kind do not depend on the other kinds.
std::vector<PlannedFault> plan_faults(const ChaosPlan& plan);

/// Whom faults may hit.
struct FaultScope {
  std::optional<int> rank;  ///< this one alone
  std::string host;         ///< this one alone; empty: any
  /// Hosts whose agents have refused a kind of fault.
  std::map<proto::FaultKind, std::set<std::string>> refused = {};
};

struct FaultVictim {
  int rank = -1;  ///< -1: the host
  std::string host;
};

/// Of the job's workers that run, or of its hosts that are here, the one that the fault hits; none:
/// there is none in the scope. Pure.
std::optional<FaultVictim> pick_victim(const PlannedFault& fault, const FaultScope& scope,
                                       const proto::StatusReply& status);

/// Whether it hits one worker, and not a host.
bool hits_a_worker(proto::FaultKind kind);
/// "kill", "stop", "partition", "kill-agent"
std::string name_of(proto::FaultKind kind);

}  // namespace pfc
