// Tracks how a job recovers from faults, and their total cost.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/coordinator.pb.h"

namespace pfc {

/// The training state in one status reply.
struct JobView {
  std::chrono::milliseconds at{0};  ///< by the watcher's clock
  std::int64_t generation = 0;
  bool trains = false;  ///< all workers of the generation have joined and none has failed
  std::int64_t images_seen = 0;
  std::int64_t images_lost = 0;
  bool has_stepped = false;  ///< a step of this generation has finished
};

JobView view_of(const proto::StatusReply& status, std::chrono::milliseconds at);

/// A fault that was injected.
struct DoneFault {
  proto::FaultKind kind = proto::FAULT_KILL_WORKER;
  std::string target;  ///< "rank 3 (host b, slot 1, pid 4711)"
  std::chrono::milliseconds lasts{0};
  JobView before;                                 ///< state when it was injected
  std::optional<std::chrono::milliseconds> took;  ///< until training resumed; empty: not yet
};

/// Decides when training has resumed after a fault: when the first step finishes
/// - in a later generation; or
/// - in the same one, if the fault is over and did not end a training worker.
/// No I/O, no clock.
class Recovery {
 public:
  void done(DoneFault fault) { faults_.push_back(std::move(fault)); }
  /// Returns the faults after which training has resumed since the last view.
  std::vector<const DoneFault*> see(const JobView& view);

  [[nodiscard]] const std::vector<DoneFault>& faults() const { return faults_; }
  /// Returns when the oldest fault was injected after which training has not resumed yet; empty if
  /// there is none.
  [[nodiscard]] std::optional<std::chrono::milliseconds> waits_since() const;

 private:
  std::vector<DoneFault> faults_;
  std::optional<JobView> last_;
};

/// Input of the final summary.
struct ChaosResult {
  double rate_before = 0;  ///< goodput in images per second, without faults; 0: not measured
  JobView begin, end;
  int refused = 0;  ///< faults that could not be injected
};

/// Returns a table with one line per kind of fault: how often it was injected, how often training
/// resumed, median and worst time until then. Adds the lost images and the goodput: the trained
/// images that were not lost, per second. Pure.
std::string summary(const std::vector<DoneFault>& faults, const ChaosResult& result);

}  // namespace pfc
