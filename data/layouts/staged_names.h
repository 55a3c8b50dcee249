// The names of copies that staging.h makes.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace pfc {

/// What the names of folders with copies begin with.
inline constexpr const char* kStagedFolder = "pfc-staged-";

/// The name of a shard's copy. Shards are read in their order and may come from several folders, so
/// a number comes first.
std::string staged_shard_name(std::size_t number, const std::filesystem::path& shard);

/// The name of the file; of a shard's copy, that of the shard.
std::string name_before_staging(const std::filesystem::path& file);

}  // namespace pfc
