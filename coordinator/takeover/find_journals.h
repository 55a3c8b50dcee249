// Finds the job or service of a killed coordinator that this one resumes.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/allocation/hosts.h"
#include "coordinator/cluster/job.h"
#include "coordinator/journal/journal.h"

namespace pfc {

/// The journal of a dead coordinator.
struct FoundJournal {
  std::filesystem::path file;
  Fd lock;  ///< the open and locked file
  JournalContents contents;
  bool is_unwanted = false;  ///< --take-over never: delete the file when another job begins
};

struct FoundJournals {
  std::optional<FoundJournal> found;  ///< journal to resume; empty: none
  /// Other jobs of killed coordinators; their workers may still run. Empty for a service, which
  /// may have many output folders over time.
  std::vector<FoundJournal> unused;
  std::vector<std::string> notes;  ///< lines to print about unused journals
};

/// Choice of the user, instead of "auto" (see find_journals()).
inline constexpr const char* kTakeOverNever = "never";

/// Returns the identity of this command, with the id to use if nothing is resumed. `job`: null for
/// a service. `file`: path of the job file as given.
proto::JournalIdentity identity_of(const std::vector<HostSpec>& hosts, int port, const Job* job,
                                   const std::filesystem::path& file,
                                   std::chrono::milliseconds grace);

/// Returns FOLDER/journals/ID.journal.
std::filesystem::path journal_file(const std::filesystem::path& folder, const std::string& id);

/// Timeouts for a journal that is locked although its coordinator seems dead. A file server keeps
/// the locks of a failed host, usually for 90 s.
struct LockWait {
  /// A coordinator counts as dead if its journal has not changed for this long.
  std::chrono::milliseconds untouched{10'000};
  std::chrono::milliseconds limit{180'000};
  std::function<void(const std::string& line)> tell = [](const std::string&) {};
};

/// Searches FOLDER/journals for the journal of a dead coordinator with the same command: the same
/// hosts in the same order, port, job (file and contents) and version. Deletes the journal of a
/// job whose workers must have ended, but never a service's. Journals of other jobs are `unused`.
/// `choice`: "auto"; "never", which resumes nothing; or a prefix of an id. A matching journal that
/// is locked is watched until its coordinator touches it or the lock is released. Throws
/// InputError if several journals match, none has the id, or the matching one is damaged. Throws
/// StorageError if the folder cannot be created or a dead coordinator's lock is not released.
FoundJournals find_journals(const std::filesystem::path& folder,
                            const proto::JournalIdentity& wanted, const std::string& choice,
                            const LockWait& wait = {});

}  // namespace pfc
