// Lists folders, and removes a folder that contains only a program's own files.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace pfc {

/// Returns the paths of a folder's entries, sorted by name; empty if the folder does not exist.
/// Throws StorageError with the folder and the reason if it cannot be listed.
std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder);

/// Returns whether `name` is a name that the program gives to its files.
using IsOwnName = std::function<bool(const std::string& name)>;

/// Returns the name of the first entry that is not the program's own; "" if there is none. Own
/// entries are files (not links) with a name that is_own() accepts, or that a file manager creates
/// (.DS_Store). Throws like entries_of().
std::string foreign_entry(const std::filesystem::path& folder, const IsOwnName& is_own);

/// Removes a folder that contains only the program's own files. Deletes them one by one, `last` (a
/// marker or a lock) at the end, so that an interrupted removal can be repeated. Does not recurse
/// and follows no link. If a file is added during the call, that file and the folder stay. Does
/// nothing if the folder does not exist. Throws StorageError that names a foreign entry (nothing
/// was deleted then) or the entry that could not be deleted.
void remove_own_folder(const std::filesystem::path& folder, const IsOwnName& is_own,
                       const std::string& last = {});

}  // namespace pfc
