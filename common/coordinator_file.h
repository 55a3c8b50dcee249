// Where a running coordinator leaves its address, so that pfcctl on the same machine finds it.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

namespace pfc {

/// $XDG_RUNTIME_DIR/pfc, or /tmp/pfc-UID where that is not set.
std::filesystem::path default_state_folder();

struct CoordinatorFile {
  std::string address;       ///< host:port of its RPCs
  std::string http_address;  ///< host:port of its pages
  pid_t pid = 0;
  std::string job;  ///< the job file's path
};

/// Writes FOLDER/coordinator.json, for this user alone (the folder is made when it is missing).
/// Throws StorageError when it cannot be written, or the folder is somebody else's.
void write_coordinator_file(const std::filesystem::path& folder, const CoordinatorFile& file);

/// Throws InputError that names the file when no coordinator has left one, or it makes no sense.
CoordinatorFile read_coordinator_file(const std::filesystem::path& folder);

/// Removes it, unless another coordinator has written its own meanwhile. Never throws.
void remove_coordinator_file(const std::filesystem::path& folder, pid_t pid) noexcept;

}  // namespace pfc
