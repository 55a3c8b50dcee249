// How a job takes the faults: when it goes on after each, and what they cost in all.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/coordinator.pb.h"

namespace pfc {

/// What a status tells of the training.
struct JobView {
  std::chrono::milliseconds at{0};  ///< by the watcher's clock
  std::int64_t generation = 0;
  bool trains = false;  ///< all workers of the generation have joined, and none has failed
  std::int64_t images_seen = 0;
  std::int64_t images_lost = 0;
  bool has_stepped = false;  ///< a step of this generation is done
};

JobView view_of(const proto::StatusReply& status, std::chrono::milliseconds at);

/// A fault that was done.
struct DoneFault {
  proto::FaultKind kind = proto::FAULT_KILL_WORKER;
  std::string target;  ///< "rank 3 (host b, slot 1, pid 4711)"
  std::chrono::milliseconds lasts{0};
  JobView before;                                 ///< when it was done
  std::optional<std::chrono::milliseconds> took;  ///< until training went on; empty: it has not
};

/// Training goes on after a fault with the first step that is done
///   - in a later generation; or
///   - in the same one, where the fault does not end a worker and is over, or where the job did not
///     train when the fault came.
/// No I/O, no clock.
class Recovery {
 public:
  void done(DoneFault fault) { faults_.push_back(std::move(fault)); }
  /// Returns the faults after which training has gone on since the last view.
  std::vector<const DoneFault*> see(const JobView& view);

  [[nodiscard]] const std::vector<DoneFault>& faults() const { return faults_; }
  /// Of those after which training has not gone on yet, when the oldest was done; empty: none.
  [[nodiscard]] std::optional<std::chrono::milliseconds> waits_since() const;

 private:
  std::vector<DoneFault> faults_;
  std::optional<JobView> last_;
};

/// What is told at the end.
struct ChaosResult {
  double rate_before = 0;  ///< images that count a second, without faults; 0: not measured
  JobView begin, end;
  int refused = 0;  ///< faults that were not done
};

/// A table with a line for each kind: how often, how often training went on, and the median and the
/// worst time until then; the images that were lost; the goodput. Pure.
std::string summary(const std::vector<DoneFault>& faults, const ChaosResult& result);

}  // namespace pfc
