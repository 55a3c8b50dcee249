// Turns errors of file operations into messages.
#pragma once

#include <filesystem>
#include <string>

#include "common/error.h"

namespace pfc {

/// Returns the text of an errno value, with advice for a full disk or quota. For a file at the size
/// limit of this process (EFBIG), the text names the limit and its source.
std::string file_error_text(int error);

/// Runs `work` and turns a std::filesystem error into a StorageError with the path and the reason.
template <typename Work>
auto as_storage_error(Work work) {
  try {
    return work();
  } catch (const std::filesystem::filesystem_error& error) {
    throw StorageError(error.path1().string() + ": " + file_error_text(error.code().value()));
  }
}

}  // namespace pfc
