// The folder of the real data that some tests read, which is not part of the repository.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>

namespace pfc::testing {

/// The folder that PFC_TEST_DATA names; nullopt when that variable is not set.
inline std::optional<std::filesystem::path> test_data() {
  const char* const folder = std::getenv("PFC_TEST_DATA");  // NOLINT(concurrency-mt-unsafe)
  if (folder == nullptr || *folder == '\0') return std::nullopt;
  return folder;
}

}  // namespace pfc::testing
