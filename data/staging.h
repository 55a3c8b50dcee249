// Copies a data set to faster storage, such as /dev/shm or a local disk.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "data/doing.h"

namespace pfc {

/// Returns the folder in `where` for the copy of the data set `rec`. The folder may not exist yet.
/// Its name depends only on this user and on `rec`, so it is the same on all hosts of a job.
std::filesystem::path staged_folder(const std::filesystem::path& rec,
                                    const std::filesystem::path& where);

/// Returns the files to copy: for RecordIO, tar shards and embeddings. Throws InputError for any
/// other layout, and says how to pack it.
std::vector<std::filesystem::path> files_to_stage(const std::filesystem::path& rec);

/// Copies the data set, unless the copy already exists and its files have the same sizes and times,
/// and returns the path of the copy. Removes data files of an earlier copy from the folder, but not
/// files that pfc did not put there. One process per host copies, and others wait for it. If there
/// is not enough room, throws InputError that says what is needed and available; on a file system
/// in memory the copy must also fit into available memory. Throws StorageError, also if the data
/// change meanwhile. An exception from `doing` stops the copy and leaves only complete files.
std::filesystem::path stage_dataset(const std::filesystem::path& rec,
                                    const std::filesystem::path& where, const Doing& doing = {});

/// Throws InputError like stage_dataset() if the folder `where` does not exist, or lacks room for
/// the part of these data sets that is not copied yet. Changes nothing.
void check_staging(std::span<const std::filesystem::path> recs, const std::filesystem::path& where);

/// Removes the copy, after waiting for a process that is making it. Returns whether there was one.
/// Throws like stage_dataset(), and like remove_own_folder() if there are files of others.
bool remove_staged(const std::filesystem::path& rec, const std::filesystem::path& where,
                   const Doing& doing = {});

}  // namespace pfc
