#include "worker/checkpoint/output_lock.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "common/clock.h"
#include "common/error.h"
#include "common/files/file_error.h"
#include "common/files/regular_file.h"
#include "common/machine/host_name.h"

namespace pfc {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLockPollInterval{100};

/// Returns the file's record of the job that holds the folder; null if there is none.
nlohmann::json read_owner(int fd) {
  std::array<char, 1024> text{};
  const ssize_t size = ::pread(fd, text.data(), text.size(), 0);
  const std::string_view found(text.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  const auto owner = nlohmann::json::parse(found, nullptr, /*allow_exceptions=*/false);
  return owner.is_object() ? owner : nlohmann::json();
}

/// "job 5f0c... (host a, pid 4711)"
std::string owner_name(const nlohmann::json& owner) {
  const auto text = [&](const char* key) {
    const auto found = owner.find(key);
    return found != owner.end() && found->is_string() ? found->get<std::string>() : "unknown";
  };
  if (owner.is_null()) return "another job";
  const auto pid = owner.find("pid");
  return "job " + text("job_id") + " (host " + text("host") + ", pid " +
         (pid != owner.end() ? pid->dump() : "unknown") + ")";
}

constexpr const char* kFile = ".lock";

[[noreturn]] void refuse_folder(const std::filesystem::path& output, int error) {
  throw StorageError("cannot make folder " + output.string() + ": " + file_error_text(error));
}

[[noreturn]] void refuse_file(const std::filesystem::path& file, int error) {
  throw StorageError(file.string() + ": cannot open: " + file_error_text(error));
}

/// Returns the folder, or its nearest existing parent.
std::filesystem::path there_of(const std::filesystem::path& folder) {
  std::filesystem::path there = std::filesystem::absolute(folder);
  while (!something_at(there) && there.has_relative_path()) there = there.parent_path();
  return there;
}

/// Returns an errno value; 0 if files can be created in the folder.
int obstacle_in(const std::filesystem::path& folder) {
  struct stat status {};
  if (::stat(folder.c_str(), &status) != 0) return errno;
  if (!S_ISDIR(status.st_mode)) return ENOTDIR;
  return ::access(folder.c_str(), W_OK | X_OK) == 0 ? 0 : errno;
}

}  // namespace

void check_output_folder(const std::filesystem::path& output) {
  const std::filesystem::path file = output / kFile;
  const std::filesystem::path there = there_of(output);
  const int error = obstacle_in(there);
  struct stat status {};
  const bool is_folder = ::stat(output.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
  if (error != 0 && is_folder) refuse_file(file, error);
  if (error != 0) refuse_folder(output, error);
  expect_regular_or_nothing(file);
}

OutputLock::OutputLock(std::filesystem::path output, std::string job_id, milliseconds patience)
    : output_(std::move(output)), file_(output_ / kFile), job_id_(std::move(job_id)) {
  open_file();
  const TimePoint deadline = Clock::now() + patience;
  for (bool told = false; !try_lock();) {
    if (Clock::now() >= deadline) refuse();
    if (!std::exchange(told, true)) {
      spdlog::info("output: {} is in use by {}; waiting up to {} s", output_.string(),
                   owner_name(read_owner(fd_)), patience.count() / 1000);
    }
    std::this_thread::sleep_for(kLockPollInterval);
  }
  write_owner();
}

void OutputLock::open_file() {
  fd_.reset();
  std::error_code error;
  std::filesystem::create_directories(output_, error);
  if (error) refuse_folder(output_, error.value());
  // Open for writing: NFS requires it for an exclusive lock.
  fd_ = open_to_write(file_, O_RDWR | O_CREAT | O_NOFOLLOW);
  if (fd_ < 0) refuse_file(file_, errno);
}

bool OutputLock::try_lock() {
  while (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    if (error == EINTR) continue;
    if (error == EWOULDBLOCK) return false;
    exclusive_ = false;
    spdlog::warn("output: {} cannot be locked ({}): make sure that no other job uses this folder",
                 output_.string(), file_error_text(error));
    return true;
  }
  exclusive_ = true;
  return true;
}

void OutputLock::refuse() const {
  const nlohmann::json owner = read_owner(fd_);
  if (!owner.is_null() && owner.value("job_id", nlohmann::json()) == job_id_) {
    throw CommError(
        "output: " + output_.string() +
        " is still held by an earlier worker of this job: " + owner_name(owner) +
        "; end that process, or wait until its host or the file server has released the lock");
  }
  throw InputError("output: " + output_.string() + " is in use by " + owner_name(owner) +
                   "; wait until it has ended, or choose another folder. If its coordinator was "
                   "killed, its workers end after about a minute");
}

void OutputLock::write_owner() const {
  const nlohmann::ordered_json owner{
      {"job_id", job_id_}, {"host", host_name()}, {"pid", ::getpid()}};
  const std::string text = owner.dump() + "\n";
  const auto size = static_cast<ssize_t>(text.size());
  // Synced, so that other hosts can read the file while it stays open here.
  if (::ftruncate(fd_, 0) != 0 || ::pwrite(fd_, text.data(), text.size(), 0) != size ||
      ::fsync(fd_) != 0) {
    throw StorageError(file_.string() + ": cannot write: " + file_error_text(errno));
  }
}

void OutputLock::expect_held() const {
  struct stat mine {
  }, there{};
  const bool found = ::fstat(fd_, &mine) == 0 && ::stat(file_.c_str(), &there) == 0;
  const int error = errno;
  if (!found || mine.st_ino != there.st_ino || mine.st_dev != there.st_dev) {
    throw StorageError("output: " + output_.string() +
                       " was removed or replaced while the job ran" +
                       (found ? "" : " (.lock: " + file_error_text(error) + ")"));
  }
  const nlohmann::json owner = read_owner(fd_);
  if (owner.is_null() || owner.value("job_id", nlohmann::json()) == job_id_) return;
  throw StorageError("output: " + output_.string() + " was taken over by " + owner_name(owner) +
                     " while this job ran");
}

void OutputLock::take_again_if_removed() {
  struct stat there {};
  if (::stat(file_.c_str(), &there) == 0 || errno != ENOENT) return;
  open_file();
  if (!try_lock()) refuse();
  write_owner();
}

}  // namespace pfc
