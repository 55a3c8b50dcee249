// Tables of class centres that are the base of checkpoints: files in a folder beside the
// checkpoints' folders (KeptPages), named by their manifests.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "common/files/safetensors.h"
#include "common/ids.h"
#include "worker/checkpoint/checkpoint_format.h"
#include "worker/checkpoint/checkpoint_removal.h"
#include "worker/head/class_centres.h"
#include "worker/head/paging/kept_pages.h"

namespace pfc {

/// Returns the name of the tables of worker `rank` of the checkpoint in `folder`.
KeptName kept_name(const std::filesystem::path& folder, const checkpoint_format::Identity& identity,
                   Rank rank);

/// Returns the metadata checkpoint_format::kTables of a file of centres.
std::string tables_text(std::span<const FileTable> tables);
/// Adds the tables of that metadata to the file's tensors: without bytes, with their offsets in the
/// file of pages. Throws InputError that names the file if there are none, or if one is not a table
/// of class centres, or is in the file itself.
void add_tables(SafetensorsFile& file);

/// Passes the folders of tables in `output` that no checkpoint there names to `remove`, except
/// `own`. In other folders, deletes the logs of older checkpoints than those that name it. Does
/// nothing if the manifest of a checkpoint cannot be read, and returns the reason; otherwise "".
/// Logs what cannot be deleted. REQUIRES: no other job uses the folder.
std::string remove_unused_tables(const std::filesystem::path& output, const std::string& own,
                                 const RemoveFolder& remove);

}  // namespace pfc
