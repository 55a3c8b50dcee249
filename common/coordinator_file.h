// Where a running coordinator leaves its address, so that pfcctl on the same machine finds it.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace pfc {

/// $PFC_STATE_DIR, or /tmp/pfc-UID where that is not set. Not $XDG_RUNTIME_DIR: that is removed
/// when its user logs out, and jobs go on.
std::filesystem::path default_state_folder();

struct CoordinatorFile {
  std::string job_id;        ///< random; of a service, its own id
  std::string address;       ///< host:port of its RPCs
  std::string http_address;  ///< host:port of its pages
  pid_t pid = 0;
  bool tls = false;  ///< both are over TLS, and the folder has an admin's credential
  std::string job;   ///< the job file's path; empty: a service
};

/// FOLDER/JOB_ID.json, for this user alone, as long as this object lives. It is locked, so that
/// what a killed coordinator has left is told from the file of a living one, and removed by the
/// next.
class PublishedCoordinator {
 public:
  /// Makes the folder when it is missing. Throws StorageError when the file cannot be written or
  /// locked, or the folder is somebody else's.
  PublishedCoordinator(const std::filesystem::path& folder, const CoordinatorFile& file);
  ~PublishedCoordinator();
  /// Recreates the folder and the file if they were removed. Throws as the constructor does.
  void renew();
  PublishedCoordinator(const PublishedCoordinator&) = delete;
  PublishedCoordinator& operator=(const PublishedCoordinator&) = delete;

 private:
  const std::filesystem::path path_;
  const std::string text_;
  int fd_ = -1;  ///< holds the lock
};

/// The coordinators of this user that live, by job id. Throws InputError that names the file where
/// one makes no sense, StorageError when the folder is somebody else's.
std::vector<CoordinatorFile> living_coordinators(const std::filesystem::path& folder);

/// The one whose job id begins with these letters; without any, the only one. Throws InputError
/// that lists all where there is none or more than one.
CoordinatorFile find_coordinator(const std::filesystem::path& folder,
                                 std::string_view job_id_begin);

}  // namespace pfc
