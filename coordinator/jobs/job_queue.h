// The jobs that wait for the one that runs, and how the last ones have ended.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/ids.h"
#include "coordinator/jobs/job.h"
#include "coordinator/refusal.h"
#include "coordinator/verdict.h"

namespace pfc {

/// A job that has ended. Its configuration is forgotten.
struct EndedJob {
  std::string id;
  std::string file;
  WallTime submitted;
  std::optional<WallTime> started;  ///< empty: it was taken out of the queue
  WallTime ended;
  Verdict::Kind how = Verdict::Kind::kFailed;
  std::string message;  ///< one line
  int workers = 0;
  std::vector<Rank> first_ranks;  ///< by host: where the logs of the workers lie
  std::string name = {};
  std::string submitter = {};  ///< both as in Job
  std::string output = {};
};

/// In the order in which they were given. However many jobs come, the queue keeps at most
/// kMostWaiting of them, with kMostBytes together, and remembers the last kMostEnded that have
/// ended. Used on the event loop only.
class JobQueue {
 public:
  static constexpr std::size_t kMostWaiting = 1'000;
  static constexpr std::size_t kMostBytes = std::size_t{64} << 20;
  static constexpr std::size_t kMostEnded = 100;

  /// Puts the job at the end; says why where there is no room.
  std::optional<Refusal> add(Job job);
  /// Takes the first one out.
  std::optional<Job> take();
  /// Takes this one out.
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
