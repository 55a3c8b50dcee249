// Queue of waiting jobs, and results of recent ones.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "coordinator/cluster/job.h"
#include "coordinator/rules/refusal.h"
#include "proto/journal.pb.h"

namespace pfc {

/// First in, first out. Keeps at most kMostWaiting jobs with at most kMostBytes in total, and the
/// last kMostEnded ended jobs. Used on the event loop only.
class JobQueue {
 public:
  static constexpr std::size_t kMostWaiting = 1'000;
  static constexpr std::size_t kMostBytes = std::size_t{64} << 20;
  static constexpr int kMostEnded = 100;

  /// Appends the job; refuses if the queue is full.
  std::optional<Refusal> add(Job job);
  /// Removes and returns the first job.
  std::optional<Job> take();
  /// Removes and returns this job.
  std::optional<Job> take(std::string_view id);
  void remember(proto::EndedJob job);
  /// Replaces the ended jobs.
  void restore(proto::EndedJobs ended) { ended_ = std::move(ended); }

  [[nodiscard]] const std::deque<Job>& waiting() const { return waiting_; }
  [[nodiscard]] const proto::EndedJobs& ended() const { return ended_; }
  /// Returns null if the job has not ended, or is no longer among the kept ones.
  [[nodiscard]] const proto::EndedJob* find_ended(std::string_view id) const;

 private:
  Job take_at(std::deque<Job>::iterator place);

  std::deque<Job> waiting_;
  proto::EndedJobs ended_;
  std::size_t bytes_ = 0;  ///< size of the waiting jobs' JSON
};

}  // namespace pfc
