// Failures of a job's slots and hosts, and for how long they are excluded. Plain values and pure
// functions.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"

namespace pfc {

/// Slot number that stands for the whole host.
inline constexpr int kWholeHost = -1;

/// A slot or host that has failed.
struct FailureRecord {
  std::string host;
  int slot = kWholeHost;
  int failures = 0;                ///< number of failures at time `last`, without forgiven ones
  TimePoint last;                  ///< last failure, or end of the last exclusion
  int times_left_out = 0;          ///< consecutive exclusions
  std::optional<TimePoint> until;  ///< end of the exclusion; empty: never excluded
  std::string cause;               ///< cause of the last failure: "killed by signal 9 (SIGKILL)"
};

/// Failures in one job.
struct FailureHistory {
  std::vector<FailureRecord> records;  ///< in order of the first failure
};

/// Number of failures at which a slot or host is excluded. A lost host counts as several failures,
/// because all its slots fail.
inline constexpr int kSlotLimit = 2;
inline constexpr int kHostLimit = 5;
inline constexpr int kLostHostWeight = 2;
/// Time without a failure after which one failure is forgiven.
inline constexpr std::chrono::minutes kForgiveness{30};
/// Duration of the first exclusion. It doubles each time.
inline constexpr std::chrono::minutes kFirstLeftOut{5};
inline constexpr std::chrono::minutes kLongestLeftOut{120};

/// Returns the failures that are not forgiven. `slot` may be kWholeHost.
int failures_of(const FailureHistory& blame, const std::string& host, int slot, TimePoint now);

/// Adds a failure, and removes forgiven records.
void add_failure(FailureHistory& blame, const std::string& host, int slot, int weight,
                 const std::string& cause, TimePoint now);

/// Returns whether the slot or host has failed so often that it should be excluded.
bool is_at_limit(const FailureRecord& record, TimePoint now);

/// Excludes a slot or host from now on, longer each time.
void leave_out(FailureRecord& record, TimePoint now);

/// Returns whether the slot or its host is excluded now.
bool is_left_out(const FailureHistory& blame, const std::string& host, int slot, TimePoint now);
bool is_left_out(const FailureRecord& record, TimePoint now);

/// Returns the end of the last exclusion of the slot or its host; empty if it was never excluded.
std::optional<TimePoint> admitted_at(const FailureHistory& blame, const std::string& host,
                                     int slot);

/// "slot 1 of host b", "host b"
std::string name_of(const FailureRecord& record);

}  // namespace pfc
