// Names of the copies made by staging.h.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace pfc {

/// Prefix of folders with copies.
inline constexpr const char* kStagedFolder = "pfc-staged-";

/// Returns the name of a shard's copy. It starts with a number, because shards are read in order
/// and may come from several folders.
std::string staged_shard_name(std::size_t number, const std::filesystem::path& shard);

/// Returns the name of the file; for a shard's copy, the shard's original name.
std::string name_before_staging(const std::filesystem::path& file);

}  // namespace pfc
