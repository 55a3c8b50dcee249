// The job that pfcctl chaos breaks things in, as its coordinator tells of it.
#pragma once

#include <optional>
#include <string>

#include "common/clock.h"
#include "pfcctl/chaos/schedule.h"
#include "pfcctl/coordinator_call.h"
#include "proto/coordinator.pb.h"

namespace pfc {

/// The job that ran when this object was made. Its coordinator may go away for a minute, and come
/// back on another port. One thread.
class WatchedJob {
 public:
  /// Borrows the target. Throws InputError where no job runs, and as Target::endpoint() does.
  explicit WatchedJob(const Target& target);

  /// Asks how the job is, and waits a moment where the coordinator cannot be reached. False, after
  /// a line that says why: the job has ended, or the coordinator has been away for too long.
  bool look();
  /// Whether look() has found that.
  [[nodiscard]] bool is_lost() const { return is_lost_; }
  /// The last that the coordinator has told.
  [[nodiscard]] const proto::StatusReply& status() const { return status_; }

  /// Breaks something. `only_ask`: asks whether that is allowed, and breaks nothing. Throws
  /// InputError with the coordinator's words where it is refused, and CommError.
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
