// Files that only their owner may read, such as keys and tokens.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include "common/files/fd.h"

namespace pfc {

/// Makes the folder (mode 0700) and its missing parents. Throws StorageError if it cannot be made
/// or is not a folder of this user. The error names `option`, the flag that sets the path.
void make_own_folder(const std::filesystem::path& folder,
                     const std::string& option = "--state-dir");

/// Like make_own_folder(), and also throws StorageError if the folder's mode lets other users
/// enter it.
void make_private_folder(const std::filesystem::path& folder);

/// Returns the whole file. Throws InputError as RegularFile does, and if the file belongs to
/// another user, other users have access to it, or it has more than `most` bytes.
std::string read_secret(const std::filesystem::path& path, std::size_t most);

/// Replaces the file (mode 0600) atomically. Throws StorageError that names `option`, the flag
/// that sets the path.
void write_secret(const std::filesystem::path& path, std::string_view text,
                  const std::string& option = "--state-dir");

/// Locks a folder's files against other processes of this user.
class FolderLock {
 public:
  /// Waits up to 5 s, then throws StorageError that names the lock file.
  explicit FolderLock(const std::filesystem::path& folder);
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  Fd fd_;
};

}  // namespace pfc
