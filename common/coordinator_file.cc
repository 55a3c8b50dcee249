#include "common/coordinator_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <iterator>
#include <nlohmann/json.hpp>
#include <system_error>

#include "common/config/json_reader.h"
#include "common/config/strict_json.h"
#include "common/error.h"
#include "common/files/file_error.h"
#include "common/files/regular_file.h"
#include "common/one_line.h"

namespace pfc {
namespace {

namespace fs = std::filesystem;

/// Rejects a folder of another user, who could redirect pfcctl to another address.
void check_owner(const fs::path& folder) {
  struct stat info {};
  if (lstat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != geteuid()) {
    throw StorageError(folder.string() +
                       ": expected a folder of this user; choose another with --state-dir");
  }
}

void make_folder(const fs::path& folder) {
  std::error_code ignored;  // mkdir reports the error
  if (folder.has_parent_path()) fs::create_directories(folder.parent_path(), ignored);
  if (mkdir(folder.c_str(), S_IRWXU) != 0 && errno != EEXIST) {
    throw StorageError(folder.string() + ": cannot be created: " + file_error_text(errno) +
                       "; choose another folder with --state-dir");
  }
  check_owner(folder);
}

/// Returns whether the coordinator that wrote the file is alive: it holds a lock on the file.
bool is_locked(const fs::path& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC));
  return file >= 0 && ::flock(file, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

std::vector<fs::path> files_in(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    throw StorageError(folder.string() + ": cannot be listed: " + error.message());
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// Writes and locks the file under a temporary name first, so that no reader sees it unlocked or
/// incomplete. Returns the descriptor that holds the lock.
Fd write_locked(const fs::path& path, const std::string& text) {
  const fs::path temporary = path.string() + ".tmp";
  const auto fail = [&](const char* doing) {
    const int error = errno;
    ::unlink(temporary.c_str());
    throw StorageError(path.string() + ": cannot be " + doing + ": " + file_error_text(error) +
                       "; choose another folder with --state-dir");
  };
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC;
  Fd file(::open(temporary.c_str(), kFlags, 0600));
  if (file < 0) fail("made");
  if (::flock(file, LOCK_EX | LOCK_NB) != 0) fail("locked");
  if (::write(file, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    fail("written");
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) fail("renamed");
  return file;
}

std::string text_of_file(const CoordinatorFile& file) {
  const nlohmann::ordered_json values = {
      {"job_id", file.job_id}, {"address", file.address}, {"http_address", file.http_address},
      {"pid", file.pid},       {"tls", file.tls},         {"job", file.job}};
  return json_text(values);
}

CoordinatorFile read_file(const fs::path& path) {
  constexpr JsonLimits kLimits{.bytes = 1 << 16, .depth = 2};
  const auto refuse = [&](const std::string& problem) {
    throw InputError(path.string() + ": not a coordinator's file (" + problem +
                     "); give the coordinator's address with --coordinator HOST:PORT");
  };
  CoordinatorFile file;
  try {
    const auto written = parse_strict_json(read_text(path, kLimits.bytes + 1), "JSON", kLimits);
    file = {.job_id = written.at("job_id").get<std::string>(),
            .address = written.at("address").get<std::string>(),
            .http_address = written.at("http_address").get<std::string>(),
            .pid = written.at("pid").get<pid_t>(),
            .tls = written.at("tls").get<bool>(),
            .job = written.at("job").get<std::string>()};
  } catch (const nlohmann::json::exception& error) {
    refuse(problem_of(error));
  } catch (const InputError& error) {
    refuse(error.what());
  }
  return file;
}

/// Returns whether a coordinator wrote this file: other programs may have .json files there.
bool is_coordinators(const fs::path& path) {
  try {
    return read_file(path).job_id == path.stem();
  } catch (const std::exception&) {
    return false;
  }
}

void remove_stale_files(const fs::path& folder) {
  for (const fs::path& path : files_in(folder)) {
    std::error_code ignored;  // harmless if it stays: readers check the lock
    if (!is_locked(path) && is_coordinators(path)) fs::remove(path, ignored);
  }
}

/// Returns text such as "job 1234 (job.json) at 127.0.0.1:7450, pid 42; service 5678 at ...".
std::string list_of(const std::vector<CoordinatorFile>& coordinators) {
  std::string text;
  for (const CoordinatorFile& each : coordinators) {
    const std::string what =
        each.job.empty() ? "service " + each.job_id : "job " + each.job_id + " (" + each.job + ")";
    text += (text.empty() ? "" : "; ") + what + " at " + each.address + ", pid " +
            std::to_string(each.pid);
  }
  return text;
}

}  // namespace

fs::path default_state_folder() {
  const char* chosen = std::getenv("PFC_STATE_DIR");  // NOLINT(concurrency-mt-unsafe): read only
  if (chosen != nullptr && *chosen != '\0') return chosen;
  return "/tmp/pfc-" + std::to_string(geteuid());
}

PublishedCoordinator::PublishedCoordinator(const fs::path& folder, const CoordinatorFile& file)
    : path_(folder / (file.job_id + ".json")), text_(text_of_file(file)) {
  make_folder(folder);
  remove_stale_files(folder);
  fd_ = write_locked(path_, text_);
}

void PublishedCoordinator::renew() {
  struct stat info {};
  if (::stat(path_.c_str(), &info) == 0) return;
  make_folder(path_.parent_path());
  fd_ = write_locked(path_, text_);
}

PublishedCoordinator::~PublishedCoordinator() { ::unlink(path_.c_str()); }

std::vector<CoordinatorFile> living_coordinators(const fs::path& folder) {
  std::vector<CoordinatorFile> living;
  std::error_code ignored;
  if (!fs::exists(folder, ignored)) return living;
  check_owner(folder);
  for (const fs::path& path : files_in(folder)) {
    if (is_locked(path)) living.push_back(read_file(path));
  }
  return living;
}

CoordinatorFile find_coordinator(const fs::path& folder, std::string_view job_id_begin) {
  const std::vector<CoordinatorFile> all = living_coordinators(folder);
  std::vector<CoordinatorFile> fitting;
  std::ranges::copy_if(all, std::back_inserter(fitting), [&](const CoordinatorFile& each) {
    return each.job_id.starts_with(job_id_begin);
  });
  if (fitting.size() == 1) return fitting.front();
  if (all.empty()) {
    throw InputError(folder.string() +
                     ": found no running coordinator of this user; to use another coordinator, "
                     "give --coordinator HOST:PORT");
  }
  if (fitting.empty()) {
    throw InputError("--service " + std::string(job_id_begin) +
                     ": no coordinator of this user has this id; running: " + list_of(all));
  }
  throw InputError(
      std::to_string(fitting.size()) +
      " coordinators of this user run on this machine; choose one with --service ID: " +
      list_of(fitting));
}

}  // namespace pfc
