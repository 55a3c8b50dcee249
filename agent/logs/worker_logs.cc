#include "agent/logs/worker_logs.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cstdlib>
#include <string_view>
#include <utility>
#include <vector>

#include "common/byte_size.h"
#include "common/coordinator_file.h"
#include "common/error.h"
#include "common/error_text.h"
#include "common/files/atomic_file.h"
#include "common/files/file_error.h"
#include "common/files/folder.h"
#include "security/secret_file.h"

namespace pfc {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestId = 64;

bool is_id(const std::string& job) {
  return !job.empty() && job.size() <= kLongestId &&
         job.find_first_not_of("0123456789abcdefghijklmnopqrstuvwxyz") == job.npos;
}

/// Rejects text that is not an id, because job ids come from another program and name folders.
void check_id(const std::string& job) {
  if (!is_id(job)) throw InputError("malformed job id; expected one that pfcctl queue lists");
}

std::string folder_variable(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): only read
  return value == nullptr ? "" : value;
}

/// Marks the job folders that pfc has created.
constexpr const char* kMarker = ".pfc-logs";
constexpr const char* kMarkerText =
    "pfc-agent keeps the logs of one job here. It deletes this folder when it has the logs of 20\n"
    "newer jobs, unless the folder contains other files.\n";

bool is_log_name(const std::string& name) {
  constexpr std::string_view kBegin = "rank-", kDigits = "0123456789";
  if (name == kMarker) return true;
  if (!name.starts_with(kBegin)) return false;
  const std::size_t dot = name.find_first_not_of(kDigits, kBegin.size());
  if (dot == kBegin.size() || dot == name.npos || !name.substr(dot).starts_with(".log")) {
    return false;
  }
  const std::string part = name.substr(dot + std::string_view(".log").size());
  return part.empty() ||
         (part.size() > 1 && part[0] == '.' && part.find_first_not_of(kDigits, 1) == part.npos);
}

/// Returns whether pfc has created this folder.
bool is_own(const fs::directory_entry& folder) {
  std::error_code error;
  return folder.is_directory(error) && !folder.is_symlink(error) &&
         is_id(folder.path().filename().string()) && fs::exists(folder.path() / kMarker, error);
}

/// Locks a folder against removal. Returns a negative descriptor if that fails.
Fd lock_folder(const fs::path& folder, int how) {
  Fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd >= 0 && ::flock(fd, how | LOCK_NB) != 0) fd.reset();
  return fd;
}

}  // namespace

fs::path default_log_folder() {
  if (const std::string state = folder_variable("XDG_STATE_HOME"); !state.empty()) {
    return fs::path(state) / "pfc/logs";
  }
  if (const std::string home = folder_variable("HOME"); !home.empty()) {
    return fs::path(home) / ".local/state/pfc/logs";
  }
  return "/tmp/pfc-" + std::to_string(geteuid()) + "/logs";
}

WorkerLogs::WorkerLogs(fs::path folder, const LogLimits& limits, Warning warning)
    : folder_(std::move(folder)), limits_(limits), warning_(std::move(warning)) {}

WorkerLogs::~WorkerLogs() {
  thread_.join();
  end_job();
}

fs::path WorkerLogs::path_of(const std::string& job, Rank rank) const {
  return folder_ / job / ("rank-" + std::to_string(rank) + ".log");
}

void WorkerLogs::add(const std::string& job, Rank rank, std::string lines) {
  const std::size_t bytes = lines.size();
  if (waiting_bytes_ + bytes > kMostBytes) {
    dropped_bytes_ += bytes;
    return;
  }
  waiting_bytes_ += bytes;
  boost::asio::post(thread_, [this, job, rank, lines = std::move(lines)] {
    write(job, rank, lines);
    waiting_bytes_ -= lines.size();
  });
}

void WorkerLogs::write(const std::string& job, Rank rank, const std::string& lines) {
  try {
    if (job != job_) begin_job(job);
    if (lock_ < 0) return;  // the folder could not be created
    auto& file = files_[rank];
    if (!file) file = std::make_unique<RotatingLog>(path_of(job, rank), limits_);
    if (const std::size_t dropped = dropped_bytes_.exchange(0); dropped > 0) {
      file->write("(dropped here: " + byte_size_text(dropped) +
                  " of output of this host's workers, because the disk was too slow)\n");
    }
    file->write(lines);
  } catch (const std::exception& error) {
    warn(text_of(error));
  }
}

void WorkerLogs::warn(const std::string& problem) {
  if (!std::exchange(warned_, true)) {
    warning_(problem + "; the job continues, but its logs are incomplete");
  }
}

void WorkerLogs::begin_job(const std::string& job) {
  end_job();
  job_ = job;
  check_id(job);
  std::error_code error;
  bool made = false;
  // The folder may be in the state directory with the agent's key, which is private.
  if (!fs::exists(folder_, error)) make_own_folder(folder_, "--log-dir");
  if (fs::create_directory(folder_ / job, error)) {
    fs::permissions(folder_ / job, fs::perms::owner_all, error);
    made = true;
  }
  lock_ = lock_folder(folder_ / job, LOCK_SH);
  if (lock_ < 0) {
    throw StorageError((folder_ / job).string() + ": cannot be created: " +
                       (error ? error.message() : file_error_text(errno)) +
                       "; choose another folder with --log-dir");
  }
  try {
    if (made) write_file_atomically(folder_ / job / kMarker, kMarkerText);
  } catch (const StorageError& problem) {
    warning_(std::string(problem.what()) +
             "; pfc will never delete this log folder; delete it yourself");
  }
  remove_old_jobs();
}

void WorkerLogs::end_job() {
  files_.clear();
  warned_ = false;
  lock_.reset();
}

void WorkerLogs::remove_old_jobs() {
  std::vector<std::pair<fs::file_time_type, fs::path>> jobs;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_, error)) {
    if (is_own(entry)) {
      jobs.emplace_back(entry.last_write_time(error), entry.path());
    }
  }
  std::ranges::sort(jobs, std::greater{});  // newest first
  for (std::size_t i = static_cast<std::size_t>(limits_.jobs); i < jobs.size(); ++i) {
    const Fd lock = lock_folder(jobs[i].second, LOCK_EX);
    if (lock < 0) continue;  // another agent uses it
    try {
      remove_own_folder(jobs[i].second, is_log_name, kMarker);
    } catch (const StorageError& problem) {
      if (told_.insert(jobs[i].second).second) warning_(problem.what());
    }
  }
}

void WorkerLogs::read(const std::string& job, Rank rank, std::int64_t part, std::int64_t offset,
                      std::size_t most, Answer answer) {
  boost::asio::post(thread_, [=, this, answer = std::move(answer)] {
    try {
      check_id(job);
      const LogPiece piece = read_log(path_of(job, rank), part, offset, most);
      answer(piece, {});
    } catch (const std::exception& error) {
      answer({}, text_of(error));
    }
  });
}

}  // namespace pfc
