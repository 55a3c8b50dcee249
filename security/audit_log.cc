#include "security/audit_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/clock.h"
#include "common/error.h"
#include "common/files/file_error.h"
#include "common/one_line.h"

namespace pfc {
namespace {

constexpr std::size_t kMostWaiting = 1'024;  // lines
constexpr std::size_t kLongestText = 500;    // bytes of a field
constexpr const char* kNoFile =
    "expected a regular file of this user, not a link or a pipe; remove it";

/// Returns the current time in RFC 3339's format: UTC, with milliseconds.
std::string time_text() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto unix_ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  const std::time_t seconds = unix_ms / 1000;
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char day[24], text[40];
  std::strftime(day, sizeof(day), "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(text, sizeof(text), "%s.%03dZ", day, static_cast<int>(unix_ms % 1000));
  return text;
}

nlohmann::ordered_json to_json(const AuditEvent& event) {
  nlohmann::ordered_json json = {{"time", time_text()},
                                 {"what", event.what},
                                 {"result", event.result},
                                 {"peer", one_line(event.peer, kLongestText)},
                                 {"role", name_of(event.identity.role)}};
  if (!event.identity.host.empty()) json["host"] = one_line(event.identity.host, kLongestText);
  if (!event.identity.job.empty()) json["job"] = one_line(event.identity.job, kLongestText);
  if (!event.serial.empty()) json["credential"] = event.serial;
  if (!event.detail.empty()) json["detail"] = one_line(event.detail, kLongestText);
  return json;
}

}  // namespace

AuditLog::AuditLog(std::filesystem::path folder, std::uintmax_t most_bytes)
    : path_(std::move(folder) / "audit.jsonl"), most_bytes_(most_bytes) {
  if (const std::string problem = open(); !problem.empty()) {
    throw StorageError(path_.string() + ": " + problem);
  }
  thread_ = std::thread([this] { run(); });
}

AuditLog::~AuditLog() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::string AuditLog::open() {
  // O_NONBLOCK: opening a FIFO without a reader then fails here instead of blocking.
  constexpr int kFlags = O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  const auto cannot = [](const char* what) {
    return std::string("cannot be ") + what + ": " + file_error_text(errno) +
           "; choose another folder with --state-dir";
  };
  fd_ = Fd(::open(path_.c_str(), kFlags, S_IRUSR | S_IWUSR));
  if (fd_ < 0 && errno == ENXIO) return kNoFile;
  if (fd_ < 0) return cannot("opened");
  struct stat info {};
  std::string problem;
  if (fstat(fd_, &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != geteuid()) {
    problem = kNoFile;
  } else if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0 && fchmod(fd_, S_IRUSR | S_IWUSR) != 0) {
    problem = cannot("hidden from other users");
  }
  if (!problem.empty()) fd_.reset();
  return problem;
}

bool AuditLog::may_write_refusal() {
  const std::int64_t second =
      std::chrono::duration_cast<std::chrono::seconds>(Clock::now().time_since_epoch()).count();
  if (std::exchange(second_, second) != second) refusals_ = 0;
  return ++refusals_ <= kMostRefusals;
}

void AuditLog::add(const AuditEvent& event) {
  const std::lock_guard lock(mutex_);
  if (lines_.size() >= kMostWaiting || (event.refused && !may_write_refusal())) {
    ++dropped_;
    ++left_out_;
    return;
  }
  nlohmann::ordered_json json = to_json(event);
  if (left_out_ > 0) json["left_out_before"] = std::exchange(left_out_, 0);
  lines_.push_back(json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  changed_.notify_all();
}

std::uint64_t AuditLog::dropped() const {
  const std::lock_guard lock(mutex_);
  return dropped_;
}

void AuditLog::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ending_ || !lines_.empty(); });
    if (lines_.empty()) return;
    const std::string line = std::move(lines_.front());
    lines_.pop_front();
    lock.unlock();
    write(line);
    lock.lock();
  }
}

void AuditLog::write(const std::string& line) {
  struct stat info {};
  struct stat there {};
  const bool is_open = fd_ >= 0 && fstat(fd_, &info) == 0;
  const bool is_removed = is_open && stat(path_.c_str(), &there) != 0;
  const bool is_full =
      is_open && static_cast<std::uintmax_t>(info.st_size) + line.size() > most_bytes_;
  // Another coordinator of this user may have renamed it already.
  if (is_full && there.st_ino == info.st_ino) {
    ::rename(path_.c_str(), (path_.string() + ".1").c_str());
  }
  if (is_full || is_removed) fd_.reset();
  if (fd_ < 0) static_cast<void>(open());  // if this fails, lines are dropped
  if (fd_ >= 0 && ::write(fd_, line.data(), line.size()) == static_cast<ssize_t>(line.size()))
    return;
  const std::lock_guard lock(mutex_);
  ++dropped_;
}

}  // namespace pfc
