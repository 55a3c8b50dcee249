#include "common/files/folder.h"

#include <algorithm>
#include <system_error>

#include "common/error.h"

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

}  // namespace pfc
