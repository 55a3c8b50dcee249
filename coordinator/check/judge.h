// What the hosts of a check have found, compared with each other.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "proto/coordinator.pb.h"

namespace pfc {

/// Hosts, and what is expected of each where it is known without them.
using KnownValues = std::map<std::string, std::string>;  // by `what`

/// Fills in verdict and expectation of the findings that are to be compared. What must be the same
/// everywhere is `known`, or what most hosts have, and the first host's where no more have another.
/// What must be as fast as elsewhere is slow below kSlow of the median. The remedy of what is right
/// is cleared. Pure.
inline constexpr double kSlow = 0.5;
void compare(std::vector<proto::CheckFinding>& findings, const KnownValues& known);

/// Of the connections between hosts: one finding for each host that does not connect, or is slower
/// than kSlowLink of the median of all pairs. A pair is one host's fault: of that with most such
/// pairs. Pure.
inline constexpr double kSlowLink = 0.3;
std::vector<proto::CheckFinding> judge_pairs(const std::vector<proto::CheckPair>& pairs);

/// The worst first; of equals those of the same `what` together, by host. Pure.
void sort_by_verdict(std::vector<proto::CheckFinding>& findings);

}  // namespace pfc
