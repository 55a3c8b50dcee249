// What a folder holds.
#pragma once

#include <filesystem>
#include <vector>

namespace pfc {

/// The paths of a folder's entries, in the order of their names; none where there is no such
/// folder. Throws StorageError that names the folder and the reason when it cannot be listed: a
/// folder that cannot be read is not an empty one.
std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder);

}  // namespace pfc
