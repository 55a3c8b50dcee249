// The logs of the workers of one host: a folder for each job, a file for each rank.
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
#include "common/ids.h"

namespace pfc {

/// $XDG_STATE_HOME/pfc/logs, or ~/.local/state/pfc/logs; /tmp/pfc-UID/logs where there is no home.
std::filesystem::path default_log_folder();

/// FOLDER/JOB/rank-R.log. Files are written and read by a thread of its own, so that a disk that
/// hangs holds nobody: what it has not taken yet is kept, at most kMostBytes, and what is beyond
/// that is dropped, and counted in the log. What goes wrong with a job's files is told once, and
/// the job goes on without them. The folders of the last LogLimits::jobs jobs are kept, and those
/// that another agent writes into. A folder that lacks add()'s marker, or
/// contains anything except logs, is never removed.
class WorkerLogs {
 public:
  static constexpr std::size_t kMostBytes = std::size_t{8} << 20;
  using Warning = std::function<void(const std::string&)>;
  using Answer = std::function<void(const LogPiece&, const std::string& problem)>;

  /// `warning` is called on the thread.
  WorkerLogs(std::filesystem::path folder, const LogLimits& limits, Warning warning);
  /// Writes what is left.
  ~WorkerLogs();
  WorkerLogs(const WorkerLogs&) = delete;
  WorkerLogs& operator=(const WorkerLogs&) = delete;

  /// Adds lines, each with its end, to the log of this rank.
  void add(const std::string& job, Rank rank, std::string lines);
  /// Reads on the thread, and calls `answer` there with a piece, or with what is wrong.
  void read(const std::string& job, Rank rank, std::int64_t part, std::int64_t offset,
            std::size_t most, Answer answer);

 private:
  [[nodiscard]] std::filesystem::path path_of(const std::string& job, Rank rank) const;
  // On the thread.
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
  // Used on the thread only.
  std::string job_;      // whose files are open
  int lock_ = -1;        // its folder, so that nobody removes it
  bool warned_ = false;  // of this job
  std::map<Rank, std::unique_ptr<RotatingLog>> files_;
  std::set<std::filesystem::path> told_;  // folders already reported as not removable
  boost::asio::thread_pool thread_{1};    // last: it uses what is above
};

}  // namespace pfc
