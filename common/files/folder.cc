#include "common/files/folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "common/error.h"
#include "common/files/fd.h"
#include "common/files/file_error.h"

namespace pfc {

std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> entries;
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  if (error == std::errc::no_such_file_or_directory) return entries;
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    entries.push_back(entry->path());
  }
  if (error) {
    throw StorageError(folder.string() + ": cannot list this folder: " + error.message());
  }
  std::ranges::sort(entries);
  return entries;
}

namespace {

/// Returns whether a file manager created the file as a side effect of showing the folder.
bool is_of_a_file_manager(const std::string& name) {
  return name == ".DS_Store" || name == "Thumbs.db" || name == "desktop.ini";
}

bool is_own_file(const struct stat& status, const std::string& name, const IsOwnName& is_own) {
  return S_ISREG(status.st_mode) && (is_own(name) || is_of_a_file_manager(name));
}

/// An open folder. It refers to the same folder even if its path is replaced. Does not open
/// symbolic links.
class OpenFolder {
 public:
  explicit OpenFolder(const std::filesystem::path& path)
      : fd_(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) {}

  [[nodiscard]] bool is_open() const { return fd_ >= 0; }
  /// Returns false if the entry no longer exists.
  bool look_at(const std::string& name, struct stat& status) const {
    return ::fstatat(fd_, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
  }
  bool remove_file(const std::string& name) const {
    return ::unlinkat(fd_, name.c_str(), 0) == 0 || errno == ENOENT;
  }

 private:
  Fd fd_;
};

}  // namespace

std::string foreign_entry(const std::filesystem::path& folder, const IsOwnName& is_own) {
  for (const std::filesystem::path& entry : entries_of(folder)) {
    const std::string name = entry.filename().string();
    struct stat status {};
    if (::lstat(entry.c_str(), &status) == 0 && !is_own_file(status, name, is_own)) return name;
  }
  return {};
}

void remove_own_folder(const std::filesystem::path& folder, const IsOwnName& is_own,
                       const std::string& last) {
  const auto fail = [&](const std::string& why) {
    throw StorageError(folder.string() + ": not removed: " + why);
  };
  const OpenFolder opened(folder);
  if (!opened.is_open()) {
    if (errno == ENOENT) return;
    fail(errno == ENOTDIR || errno == ELOOP ? "expected a folder, found a link or a file"
                                            : file_error_text(errno));
  }
  std::vector<std::string> names;
  for (const std::filesystem::path& entry : entries_of(folder)) {
    const std::string name = entry.filename().string();
    struct stat status {};
    if (!opened.look_at(name, status)) continue;
    if (!is_own_file(status, name, is_own)) {
      fail("contains " + name + ", which pfc did not make; move it elsewhere");
    }
    names.push_back(name);
  }
  std::ranges::stable_partition(names, [&](const std::string& name) { return name != last; });
  for (const std::string& name : names) {
    if (!opened.remove_file(name)) fail(name + ": " + file_error_text(errno));
  }
  if (::rmdir(folder.c_str()) != 0 && errno != ENOENT) fail(file_error_text(errno));
}

}  // namespace pfc
