// Which job or service of a killed coordinator this one goes on with.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/allocation/hosts.h"
#include "coordinator/jobs/job.h"
#include "coordinator/journal/journal.h"

namespace pfc {

/// A journal that a coordinator has left which lives no more.
struct FoundJournal {
  std::filesystem::path file;
  LockedFile lock;
  JournalContents contents;
  bool is_unwanted = false;  ///< --take-over never: the file goes when another job begins
};

struct Takeover {
  std::optional<FoundJournal> found;  ///< empty: there is nothing to go on with
  /// Of other jobs whose coordinators were killed: their workers may still run. None for a service,
  /// which may have many outputs, one after another.
  std::vector<FoundJournal> unused;
  std::vector<std::string> notes;  ///< lines for the person: what was left and is not used
};

/// What people may choose instead of "auto", which is what find_takeover() describes.
inline constexpr const char* kTakeOverNever = "never";

/// The command of this coordinator, with the id that it has if it begins anew. `job`: null for a
/// service. `file`: the job file, as it was given.
proto::JournalIdentity identity_of(const std::vector<HostSpec>& hosts, int port, const Job* job,
                                   const std::filesystem::path& file,
                                   std::chrono::milliseconds grace);

/// FOLDER/journals/ID.journal
std::filesystem::path journal_file(const std::filesystem::path& folder, const std::string& id);

/// Timeouts for a journal that is locked although its coordinator seems dead. A file server keeps
/// the locks of a failed host, usually for 90 s.
struct LockWait {
  /// A coordinator counts as dead if its journal has not changed for this long.
  std::chrono::milliseconds untouched{10'000};
  std::chrono::milliseconds limit{180'000};
  std::function<void(const std::string& line)> tell = [](const std::string&) {};
};

/// Looks in FOLDER/journals for the journal of a coordinator that lives no more and was the same
/// command: the same hosts in the same order, port, job (the file and what it says) and version. A
/// job whose coordinator has been away for longer than its workers wait is forgotten, a service
/// never. The journals of other jobs are `unused`. `choice`: "auto"; "never", which forgets what is
/// found; or the beginning of an id. A matching journal that is locked is watched until its
/// coordinator touches it or the lock is released. Throws InputError if several journals match, if
/// none has the id, or if the matching one is damaged. Throws StorageError if the folder cannot be
/// created or a dead coordinator's lock is not released.
Takeover find_takeover(const std::filesystem::path& folder, const proto::JournalIdentity& wanted,
                       const std::string& choice, const LockWait& wait = {});

}  // namespace pfc
