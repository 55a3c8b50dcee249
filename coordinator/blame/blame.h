// Which slots and hosts have failed in a job, how often, and for how long one is left out because
// of it. Plain values and pure functions.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"

namespace pfc {

/// As a slot's number: the host itself, with all its slots.
inline constexpr int kWholeHost = -1;

/// A slot or host that has failed.
struct FailureRecord {
  std::string host;
  int slot = kWholeHost;
  int failures = 0;                ///< as they were at `last`
  TimePoint last;                  ///< of the last failure, or the end of the time it was left out
  int times_left_out = 0;          ///< one after another
  std::optional<TimePoint> until;  ///< it is left out until then; empty: it never was
  std::string cause;               ///< of the last failure: "killed by signal 9 (SIGKILL)"
};

/// Of one job.
struct FailureHistory {
  std::vector<FailureRecord> records;  ///< in order of the first failure
};

/// A slot is left out with this failure, a host likewise. A lost host counts as several: it fails
/// with all its slots.
inline constexpr int kSlotLimit = 2;
inline constexpr int kHostLimit = 5;
inline constexpr int kLostHostWeight = 2;
/// One failure is forgotten after so long without another.
inline constexpr std::chrono::minutes kForgiveness{30};
/// For which a slot or host is left out for the first time; then twice as long each time.
inline constexpr std::chrono::minutes kFirstLeftOut{5};
inline constexpr std::chrono::minutes kLongestLeftOut{120};

/// The failures that are not forgotten. `slot`: or kWholeHost.
int failures_of(const FailureHistory& blame, const std::string& host, int slot, TimePoint now);

/// Counts one more, and drops what is forgotten.
void add_failure(FailureHistory& blame, const std::string& host, int slot, int weight,
                 const std::string& cause, TimePoint now);

/// Whether it has failed so often that the job should do without it.
bool is_at_limit(const FailureRecord& record, TimePoint now);

/// From now on, for a time that grows.
void leave_out(FailureRecord& record, TimePoint now);

/// Whether the slot, or its host, is left out now.
bool is_left_out(const FailureHistory& blame, const std::string& host, int slot, TimePoint now);
bool is_left_out(const FailureRecord& record, TimePoint now);

/// When the slot was last admitted again after it, or its host, was left out; empty: it never was.
std::optional<TimePoint> admitted_at(const FailureHistory& blame, const std::string& host,
                                     int slot);

/// "slot 1 of host b", "host b"
std::string name_of(const FailureRecord& record);

}  // namespace pfc
