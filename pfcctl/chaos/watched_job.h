// The job under test, as its coordinator reports it.
#pragma once

#include <optional>
#include <string>

#include "common/clock.h"
#include "pfcctl/chaos/schedule.h"
#include "pfcctl/coordinator_call.h"
#include "proto/coordinator.pb.h"

namespace pfc {

/// The job that ran when this object was created. Tolerates a coordinator that is away for up to a
/// minute and returns on another port. Not thread-safe.
class WatchedJob {
 public:
  /// Does not own the target. Throws InputError if no job runs, and as Target::endpoint() does.
  explicit WatchedJob(const Target& target);

  /// Updates the status; pauses briefly if the coordinator cannot be reached. Prints the reason
  /// and returns false if the job has ended or the coordinator has been away for too long.
  bool look();
  /// Returns whether look() has returned false.
  [[nodiscard]] bool is_lost() const { return is_lost_; }
  /// Returns the last status received.
  [[nodiscard]] const proto::StatusReply& status() const { return status_; }

  /// Injects a fault. `only_ask` asks whether it is allowed and injects nothing. Throws InputError
  /// with the coordinator's message if it is refused, and CommError.
  proto::InjectFaultReply inject(const PlannedFault& fault, const FaultVictim& victim,
                                 bool only_ask);

 private:
  bool find_again();

  const Target& target_;
  std::optional<CoordinatorCall> call_;
  proto::StatusReply status_;
  std::string id_;
  bool away_ = false;
  bool is_lost_ = false;
  TimePoint away_since_;
};

}  // namespace pfc
