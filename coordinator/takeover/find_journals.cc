#include "coordinator/takeover/find_journals.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <system_error>
#include <thread>

#include "common/clock.h"
#include "common/error.h"
#include "common/files/regular_file.h"
#include "common/files/sha256.h"
#include "common/version.h"
#include "coordinator/journal/saved_state.h"
#include "security/secret_file.h"

namespace pfc {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

// Time for workers to write a checkpoint after their grace period.
constexpr milliseconds kEnd{60'000};
// How long to wait for a lock, because another coordinator may be reading the file.
constexpr milliseconds kLockPatience{500};
constexpr milliseconds kLockPoll{10};
constexpr std::uint64_t kMostBytes = std::uint64_t{4} << 30;

/// A journal found in the folder.
struct Left {
  fs::path file;
  proto::JournalIdentity identity;
  milliseconds age{0};
};

milliseconds age_of(const fs::path& file) {
  struct stat info {};
  if (::stat(file.c_str(), &info) != 0) return {};
  const auto changed = std::chrono::seconds{info.st_mtim.tv_sec};
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::max(std::chrono::duration_cast<milliseconds>(now - changed), milliseconds{0});
}

/// Locks the file. Returns nothing if a live coordinator holds the lock.
std::optional<Fd> lock_file(const fs::path& file, milliseconds patience = kLockPatience) {
  const TimePoint deadline = Clock::now() + patience;
  while (true) {
    Fd open(::open(file.c_str(), O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC));
    if (open < 0) {
      if (errno == ENOENT) return {};
      throw StorageError(file.string() + ": found a journal that cannot be written (" +
                         std::strerror(errno) +
                         "); it may belong to the job that this command should resume. Make it "
                         "writable, or remove it to start a new job");
    }
    struct stat own {
    }, named{};
    if (::flock(open, LOCK_EX | LOCK_NB) == 0 && ::fstat(open, &own) == 0 &&
        ::stat(file.c_str(), &named) == 0 && own.st_ino == named.st_ino) {
      return open;
    }
    if (Clock::now() >= deadline) return {};
    std::this_thread::sleep_for(kLockPoll);
  }
}

std::string identity_title(const proto::JournalIdentity& identity) {
  return (identity.is_service() ? "service " : "job ") + identity.id();
}

/// Part of a journal's state that a live coordinator changes every few seconds, by touching or
/// replacing the file.
struct FileState {
  ino_t inode = 0;
  std::int64_t seconds = 0, nanoseconds = 0;
  friend bool operator==(const FileState&, const FileState&) = default;
};

/// Returns zeros if there is no file.
FileState state_of(const fs::path& file) {
  struct stat info {};
  if (::stat(file.c_str(), &info) != 0) return {};
  return {
      .inode = info.st_ino, .seconds = info.st_mtim.tv_sec, .nanoseconds = info.st_mtim.tv_nsec};
}

/// Watches a locked journal. Returns false if its coordinator is alive, or ended and removed the
/// journal. Returns true when the lock of a dead coordinator is released; throws StorageError if
/// that takes too long. Compares file times only with each other, because a file server's clock
/// may differ.
bool outlive_lock(const Left& left, const LockWait& wait) {
  const FileState first = state_of(left.file);
  const TimePoint start = Clock::now();
  const auto seconds = [](milliseconds time) { return std::to_string(time.count() / 1000) + " s"; };
  bool told = false;
  // Opening the file makes an NFS client fetch its modification time.
  while (!lock_file(left.file, milliseconds{0})) {
    if (state_of(left.file) != first) return false;
    const TimePoint now = Clock::now();
    const std::string what = left.file.string() + ": locked, but unchanged for ";
    if (now - start >= wait.untouched + wait.limit) {
      throw StorageError(what + seconds(wait.untouched + wait.limit) +
                         ": its coordinator seems dead, or is suspended. End it, or restart its "
                         "host so that the file server releases the lock; or start without "
                         "its job: --take-over never");
    }
    if (now - start >= wait.untouched && !std::exchange(told, true)) {
      wait.tell(what + seconds(wait.untouched) + ": its coordinator seems dead. Waiting at most " +
                seconds(wait.limit) + " for the file server to release the lock, to continue " +
                identity_title(left.identity) + " (to start without it, give --take-over never)");
    }
    std::this_thread::sleep_for(kLockPoll);
  }
  return true;
}

/// Returns whether all processes that waited for this coordinator must have ended.
bool is_outdated(const Left& left) {
  return !left.identity.is_service() && left.age > milliseconds{left.identity.grace_ms()} + kEnd;
}

std::string hosts_text(const proto::JournalIdentity& identity) {
  std::string text;
  for (const std::string& host : identity.hosts()) text += (text.empty() ? "" : ",") + host;
  return text;
}

/// Returns how the commands differ; empty if they are the same, nothing if unrelated.
std::optional<std::string> difference(const proto::JournalIdentity& left,
                                      const proto::JournalIdentity& wanted) {
  if (left.is_service() != wanted.is_service() || left.job_file() != wanted.job_file()) return {};
  if (hosts_text(left) != hosts_text(wanted)) {
    if (wanted.is_service() && left.port() != wanted.port()) return {};
    return "its hosts were " + hosts_text(left) + ", and are " + hosts_text(wanted) + " now";
  }
  if (left.port() != wanted.port()) {
    if (wanted.is_service()) return {};
    return "its --port was " + std::to_string(left.port()) + ", and is " +
           std::to_string(wanted.port()) + " now";
  }
  if (left.job_sha256() != wanted.job_sha256())
    return wanted.job_file() + " or --set was changed since then";
  if (left.version() != wanted.version()) {
    return "it was written by pfc " + left.version() + ", and this is " + wanted.version();
  }
  if (left.state_format() != wanted.state_format()) {
    return "another build of pfc " + left.version() + " wrote its state, in another format";
  }
  return "";
}

/// Reads up to `most` bytes from the start of the file.
std::string read_begin(const fs::path& path, std::uint64_t most) {
  RegularFile file(path);
  std::string bytes(std::min(file.bytes(), most), '\0');
  bytes.resize(file.read(std::as_writable_bytes(std::span(bytes))));
  return bytes;
}

/// Returns the journals in the folder. An unreadable one may belong to this command, so it is an
/// error unless `choice` names another.
std::vector<Left> journals_in(const fs::path& folder, const std::string& choice,
                              std::vector<std::string>& notes) {
  std::vector<Left> all;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path().extension() != ".journal") continue;
    try {
      const std::string begin = read_begin(entry.path(), std::uint64_t{kLongestIdentity} + 64);
      all.push_back({.file = entry.path(),
                     .identity = parse_identity(begin, entry.path().string()),
                     .age = age_of(entry.path())});
    } catch (const InputError& error) {
      if (choice == "auto") {
        throw InputError(
            std::string(error.what()) +
            ". Restore the file; or remove it, or give --take-over never, to start without it");
      }
      notes.emplace_back(error.what());
    }
  }
  std::ranges::sort(all, {}, &Left::file);
  return all;
}

void forget(const Left& left) {
  if (const auto lock = lock_file(left.file)) ::unlink(left.file.c_str());
}

/// Returns the note about a journal that is not used.
std::string not_used(const Left& left, const std::string& why) {
  return identity_title(left.identity) + ", whose coordinator was killed, is not resumed: " + why +
         ". Its workers end at most " + std::to_string(left.identity.grace_ms() / 1000) +
         " s after that coordinator was killed";
}

std::string list_of(const std::vector<Left>& fitting) {
  std::string text;
  for (const Left& left : fitting) {
    text += (text.empty() ? "" : ", ") + left.identity.id() + " (" + left.file.string() + ")";
  }
  return text;
}

FoundJournal open_journal(const Left& left, Fd lock) {
  // Read again, because its coordinator may have been alive until the lock was taken.
  JournalContents contents = parse_journal(read_begin(left.file, kMostBytes), left.file.string());
  return {.file = left.file, .lock = std::move(lock), .contents = std::move(contents)};
}

/// Adds the journal to `journals.unused` if it belongs to a job whose coordinator is dead. Returns
/// whether it was added. Ignores unreadable journals.
bool set_aside(const Left& left, const proto::JournalIdentity& wanted, FoundJournals& journals) {
  if (wanted.is_service() || left.identity.is_service()) return false;
  try {
    auto lock = lock_file(left.file, milliseconds{0});
    if (lock) journals.unused.push_back(open_journal(left, std::move(*lock)));
    return lock.has_value();
  } catch (const std::exception&) {
    return false;
  }
}

/// Returns the matching journals of dead coordinators. Adds the others to `journals`.
std::vector<Left> fitting_of(const std::vector<Left>& all, const proto::JournalIdentity& wanted,
                             const std::string& choice, const LockWait& wait,
                             FoundJournals& journals) {
  std::vector<Left> fitting;
  for (const Left& left : all) {
    const auto differs = difference(left.identity, wanted);
    const bool fits = differs && differs->empty();
    if (!fits && is_outdated(left)) {
      forget(left);
    } else if (!differs) {
      set_aside(left, wanted, journals);
    } else if (!lock_file(left.file)) {
      const bool is_wanted = fits && (choice == "auto" || left.identity.id().starts_with(choice)) &&
                             !is_outdated(left);
      if (is_wanted && outlive_lock(left, wait)) fitting.push_back(left);
    } else if (is_outdated(left)) {
      forget(left);
    } else if (fits) {
      fitting.push_back(left);
    } else {
      journals.notes.push_back(not_used(left, *differs));
      set_aside(left, wanted, journals);
    }
  }
  return fitting;
}

}  // namespace

proto::JournalIdentity identity_of(const std::vector<HostSpec>& hosts, int port, const Job* job,
                                   const fs::path& file, milliseconds grace) {
  proto::JournalIdentity identity;
  for (const HostSpec& host : hosts) {
    identity.add_hosts(host.name + (host.slots > 0 ? ":" + std::to_string(host.slots) : ""));
  }
  identity.set_port(port);
  identity.set_version(version());
  identity.set_state_format(kStateFormat);
  identity.set_grace_ms(grace.count());
  identity.set_is_service(job == nullptr);
  if (job == nullptr) return identity;
  identity.set_id(job->id);
  identity.set_job_file(fs::absolute(file).lexically_normal().string());
  identity.set_job_sha256(sha256_hex(std::as_bytes(std::span(job->json))));
  return identity;
}

fs::path journal_file(const fs::path& folder, const std::string& id) {
  return folder / "journals" / (id + ".journal");
}

FoundJournals find_journals(const fs::path& folder, const proto::JournalIdentity& wanted,
                            const std::string& choice, const LockWait& wait) {
  FoundJournals journals;
  const fs::path journals_folder = journal_file(folder, "").parent_path();
  make_private_folder(journals_folder);
  std::vector<Left> fitting = fitting_of(journals_in(journals_folder, choice, journals.notes),
                                         wanted, choice, wait, journals);
  if (choice == kTakeOverNever) {
    for (const Left& left : fitting) {
      journals.notes.push_back(not_used(left, "--take-over never"));
      if (set_aside(left, wanted, journals)) {
        journals.unused.back().is_unwanted = true;
      } else {
        forget(left);
      }
    }
    return journals;
  }
  if (choice != "auto") {
    std::erase_if(fitting,
                  [&](const Left& left) { return !left.identity.id().starts_with(choice); });
    if (fitting.empty()) {
      throw InputError(
          "--take-over " + choice + ": found no journal in " + journals_folder.string() +
          " whose id begins with this text, whose coordinator is dead, and whose command is the "
          "same as this one");
    }
  }
  if (fitting.size() > 1) {
    throw InputError(journals_folder.string() + ": " + std::to_string(fitting.size()) +
                     " killed coordinators ran this command; choose one with --take-over ID: " +
                     list_of(fitting));
  }
  if (fitting.empty()) return journals;
  std::optional<Fd> lock = lock_file(fitting.front().file);
  if (lock) journals.found = open_journal(fitting.front(), std::move(*lock));
  return journals;
}

}  // namespace pfc
