// Folder of real data that some tests read; not part of the repository.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>

namespace pfc::testing {

/// Returns the folder in PFC_TEST_DATA; nullopt if that variable is not set.
inline std::optional<std::filesystem::path> test_data() {
  const char* const folder = std::getenv("PFC_TEST_DATA");  // NOLINT(concurrency-mt-unsafe)
  if (folder == nullptr || *folder == '\0') return std::nullopt;
  return folder;
}

}  // namespace pfc::testing
