// Compares the findings of a check's hosts with each other.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "proto/coordinator.pb.h"

namespace pfc {

/// Expected values known to the coordinator.
using KnownValues = std::map<std::string, std::string>;  // key: CheckFinding::what

inline constexpr double kSlow = 0.5;
/// Sets verdict and expected value of the findings that have a comparison. With
/// CHECK_SAME_EVERYWHERE the value in `known` is expected, or else the most common one (the first
/// if there is a tie). With CHECK_AS_FAST_AS_OTHERS a value is too slow if it is at most kSlow
/// times the median, and below CheckFinding::enough. Clears the remedy of good findings. Pure.
void compare(std::vector<proto::CheckFinding>& findings, const KnownValues& known);

inline constexpr double kSlowLink = 0.3;
/// Returns one finding per host with pairs that do not connect, or are slower than kSlowLink times
/// the median. Each pair is assigned to the host with most such pairs. Pure.
std::vector<proto::CheckFinding> judge_pairs(const std::vector<proto::CheckPair>& pairs);

/// Sorts by verdict, worst first, then by `what`, then by host. Pure.
void sort_by_verdict(std::vector<proto::CheckFinding>& findings);

}  // namespace pfc
