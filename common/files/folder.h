// What a folder holds, and the removal of one that holds a program's own files and nothing else.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace pfc {

/// The paths of a folder's entries, in the order of their names; none where there is no such
/// folder. Throws StorageError that names the folder and the reason when it cannot be listed: a
/// folder that cannot be read is not an empty one.
std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder);

/// Whether the program gives its files such a name.
using IsOwnName = std::function<bool(const std::string& name)>;

/// The name of an entry that the program has not made: it is not a regular file (but a folder, or a
/// link), or its name is none of its own, nor one that file managers leave (.DS_Store). Empty:
/// there is none. Throws as entries_of().
std::string foreign_entry(const std::filesystem::path& folder, const IsOwnName& is_own);

/// Removes a folder and the files in it, one by one, where all are the program's own; `last`, such
/// as a marker or a lock, after all others, so that a removal that was cut off can be done again.
/// Goes into no folder in it and follows no link. What is put there meanwhile stays, and the folder
/// with it. Does nothing where there is no such folder. Throws StorageError that names what is
/// foreign, with all still there, or what cannot be removed.
void remove_own_folder(const std::filesystem::path& folder, const IsOwnName& is_own,
                       const std::string& last = {});

}  // namespace pfc
