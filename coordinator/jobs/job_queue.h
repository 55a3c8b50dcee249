// Queue of waiting jobs, and results of recent ones.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/ids.h"
#include "coordinator/cluster/job.h"
#include "coordinator/rules/refusal.h"
#include "coordinator/rules/verdict.h"

namespace pfc {

/// A job that has ended. Its configuration is not kept.
struct EndedJob {
  std::string id;
  std::string file;
  WallTime submitted;
  std::optional<WallTime> started;  ///< empty: removed from the queue
  WallTime ended;
  Verdict::Kind how = Verdict::Kind::kFailed;
  std::string message;  ///< one line
  int workers = 0;
  std::vector<Rank> first_ranks;  ///< by host; locates the logs of the workers
  std::string name = {};
  std::string submitter = {};  ///< as in Job, like name
  std::string output = {};
};

/// First in, first out. Keeps at most kMostWaiting jobs with at most kMostBytes in total, and the
/// last kMostEnded ended jobs. Used on the event loop only.
class JobQueue {
 public:
  static constexpr std::size_t kMostWaiting = 1'000;
  static constexpr std::size_t kMostBytes = std::size_t{64} << 20;
  static constexpr std::size_t kMostEnded = 100;

  /// Appends the job; refuses if the queue is full.
  std::optional<Refusal> add(Job job);
  /// Removes and returns the first job.
  std::optional<Job> take();
  /// Removes and returns this job.
  std::optional<Job> take(std::string_view id);
  void remember(EndedJob job);

  [[nodiscard]] const std::deque<Job>& waiting() const { return waiting_; }
  [[nodiscard]] const std::deque<EndedJob>& ended() const { return ended_; }  ///< oldest first

 private:
  Job take_at(std::deque<Job>::iterator place);

  std::deque<Job> waiting_;
  std::deque<EndedJob> ended_;
  std::size_t bytes_ = 0;  ///< of the waiting jobs' JSON
};

}  // namespace pfc
