// Stores the logs of one host's workers: one folder per job, one file per rank.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <boost/asio/thread_pool.hpp>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "agent/logs/rotating_log.h"
#include "common/files/fd.h"
#include "common/ids.h"

namespace pfc {

/// Returns $XDG_STATE_HOME/pfc/logs, or ~/.local/state/pfc/logs; without a home /tmp/pfc-UID/logs.
std::filesystem::path default_log_folder();

/// Writes FOLDER/JOB/rank-R.log on its own thread, so that a hanging disk blocks no caller. Buffers
/// up to kMostBytes; output beyond that is dropped, and its size is written to the log. The first
/// problem with a job's files is reported as a warning, and the job continues. Keeps the folders of
/// the newest LogLimits::jobs jobs and removes older ones, but never a folder that another agent
/// uses, that lacks pfc's marker, or that has other files than logs.
class WorkerLogs {
 public:
  static constexpr std::size_t kMostBytes = std::size_t{8} << 20;
  using Warning = std::function<void(const std::string&)>;
  using Answer = std::function<void(const LogPiece&, const std::string& problem)>;

  /// `warning` is called on the log thread.
  WorkerLogs(std::filesystem::path folder, const LogLimits& limits, Warning warning);
  /// Writes the queued output.
  ~WorkerLogs();
  WorkerLogs(const WorkerLogs&) = delete;
  WorkerLogs& operator=(const WorkerLogs&) = delete;

  /// Appends lines, each with its line feed, to the log of this rank.
  void add(const std::string& job, Rank rank, std::string lines);
  /// Reads on the log thread, and calls `answer` there with a piece or the problem.
  void read(const std::string& job, Rank rank, std::int64_t part, std::int64_t offset,
            std::size_t most, Answer answer);

 private:
  [[nodiscard]] std::filesystem::path path_of(const std::string& job, Rank rank) const;
  // Called on the log thread.
  void write(const std::string& job, Rank rank, const std::string& lines);
  void begin_job(const std::string& job);
  void end_job();
  void remove_old_jobs();
  void warn(const std::string& problem);

  const std::filesystem::path folder_;
  const LogLimits limits_;
  const Warning warning_;
  std::atomic<std::size_t> waiting_bytes_{0};
  std::atomic<std::size_t> dropped_bytes_{0};
  // Used on the log thread only.
  std::string job_;      // job whose files are open
  Fd lock_;              // lock on the job's folder; prevents its removal
  bool warned_ = false;  // already warned for this job
  std::map<Rank, std::unique_ptr<RotatingLog>> files_;
  std::set<std::filesystem::path> told_;  // folders already reported as not removable
  boost::asio::thread_pool thread_{1};    // last: uses the members above
};

}  // namespace pfc
