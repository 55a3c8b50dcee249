// Copies a data set to where it is read faster, such as /dev/shm or a local disk.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "data/doing.h"

namespace pfc {

/// The folder in `where` that holds the copy of the data set `rec`, whether it is there or not: its
/// name depends on this user and on `rec` alone, so that all hosts of a job have the same.
std::filesystem::path staged_folder(const std::filesystem::path& rec,
                                    const std::filesystem::path& where);

/// The files that are copied: those of RecordIO, of tar shards and of embeddings. Throws InputError
/// for any other layout, and says how to pack it.
std::vector<std::filesystem::path> files_to_stage(const std::filesystem::path& rec);

/// Copies the data set, unless there is a copy of files of the same sizes and times, and returns
/// what to open there. Data files of an earlier copy are removed from the folder; what else is in
/// it was put there by somebody, and stays. One process of a host copies, and others wait for it.
/// Throws InputError that says what is needed and what there is where it does not fit: on a file
/// system in memory it must fit into the memory that is available too. Throws StorageError, also
/// where the data change meanwhile. What `doing` throws ends it, and leaves only whole files there.
std::filesystem::path stage_dataset(const std::filesystem::path& rec,
                                    const std::filesystem::path& where, const Doing& doing = {});

/// Throws InputError as stage_dataset() would where there is no folder `where`, or no room there
/// for what of all these data sets is not copied yet. Changes nothing.
void check_staging(std::span<const std::filesystem::path> recs, const std::filesystem::path& where);

/// Removes the copy, when nobody makes it any more. Returns whether there was one. Throws as above,
/// and as remove_own_folder() where somebody has put something else there.
bool remove_staged(const std::filesystem::path& rec, const std::filesystem::path& where,
                   const Doing& doing = {});

}  // namespace pfc
