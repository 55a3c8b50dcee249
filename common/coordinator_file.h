// File in which a running coordinator publishes its address for pfcctl on the same machine.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/files/fd.h"

namespace pfc {

/// Returns $PFC_STATE_DIR, or /tmp/pfc-UID if it is not set. $XDG_RUNTIME_DIR is not used, because
/// it is removed when the user logs out while jobs continue.
std::filesystem::path default_state_folder();

struct CoordinatorFile {
  std::string job_id;        ///< random; a service has its own id
  std::string address;       ///< host:port for RPCs
  std::string http_address;  ///< host:port for HTTP
  pid_t pid = 0;
  bool tls = false;  ///< both ports use TLS, and the folder holds an admin credential
  std::string job;   ///< path of the job file; empty for a service
};

/// Creates FOLDER/JOB_ID.json, readable only by this user, for the lifetime of this object. The
/// lock shows that the coordinator is alive. The next coordinator removes files without a lock.
class PublishedCoordinator {
 public:
  /// Creates the folder if necessary. Throws StorageError if the file cannot be written or locked,
  /// or if the folder belongs to another user.
  PublishedCoordinator(const std::filesystem::path& folder, const CoordinatorFile& file);
  ~PublishedCoordinator();
  /// Recreates the folder and the file if they were removed. Throws StorageError.
  void renew();
  PublishedCoordinator(const PublishedCoordinator&) = delete;
  PublishedCoordinator& operator=(const PublishedCoordinator&) = delete;

 private:
  const std::filesystem::path path_;
  const std::string text_;
  Fd fd_;  ///< holds the lock
};

/// Returns this user's live coordinators, by job id. Throws InputError that names a malformed
/// file, and StorageError if the folder belongs to another user.
std::vector<CoordinatorFile> living_coordinators(const std::filesystem::path& folder);

/// Returns the coordinator whose job id starts with `job_id_begin`; if that is empty, the only
/// one. If none or several match, throws InputError that lists all.
CoordinatorFile find_coordinator(const std::filesystem::path& folder,
                                 std::string_view job_id_begin);

}  // namespace pfc
