// Files that only their user may read: keys, tokens.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace pfc {

/// Makes the folder (mode 0700) and its missing parents. Throws StorageError if it cannot be made
/// or is not a folder of this user. The error says what to do and names `option`, which sets the
/// path.
void make_own_folder(const std::filesystem::path& folder,
                     const std::string& option = "--state-dir");

/// Makes the folder (mode 0700) where there is none. Throws StorageError that says what to do where
/// it cannot be made, is another user's, or others may enter it.
void make_private_folder(const std::filesystem::path& folder);

/// The whole file. Throws InputError as RegularFile does, and where it is another user's, others
/// may read it, or it has more than `most` bytes.
std::string read_secret(const std::filesystem::path& path, std::size_t most);

/// Replaces the file (mode 0600), whole or not at all. Throws StorageError, which names the
/// `option` that says where the file is.
void write_secret(const std::filesystem::path& path, std::string_view text,
                  const std::string& option = "--state-dir");

/// Holds the lock of a folder's files against other processes of this user.
class FolderLock {
 public:
  /// Waits at most 5 s, then throws StorageError that names the lock's file.
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int fd_ = -1;
};

}  // namespace pfc
