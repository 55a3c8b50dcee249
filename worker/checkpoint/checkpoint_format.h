// The files of a checkpoint: their names, the manifest, and the list of files that each worker
// leaves for rank 0.
//
//   OUTPUT/step-000000010/                 a checkpoint; it has this name only once it is whole
//     manifest.json                        Manifest
//     backbone.safetensors                 PyTorch's state dict
//     backbone_optimizer.safetensors       "momentum.NAME", for AdamW also "second.NAME"
//     backbone_average.safetensors         with ema_decay: the averages, as a state dict
//     neighbours.safetensors               with sampler "hard": "neighbours", I32 [classes, k]
//     centres-00001-of-00004.safetensors   rows of worker 1 of 4: "weight", ("momentum"),
//                                          ("second"), "updated", "updates" (kUpdated); for
//                                          one-byte numbers also "weight_scale" and
//                                          "momentum_scale"
//   OUTPUT/.step-000000020.ID.g3.tmp/      being written by job ID in its generation 3
//     part-00001.json                      the files that worker 1 has written
//   OUTPUT/.step-000000010.ID.g3.old-1.tmp/  being removed
//   OUTPUT/.shared-RANDOM.tmp              probe file at the start of a job (output_links.h)
//   OUTPUT/class_centres.ID.g3/            tables of class centres in files, which are the base of
//                                          checkpoints (KeptPages); made by job ID in generation 3
//     00001-of-00004.pages                 tables of worker 1 of 4
//   OUTPUT/step-000000020.set-aside-1/     another model's; had the name of a published checkpoint
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "comm/class_positions.h"
#include "common/files/safetensors.h"
#include "common/ids.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/gradients/loss_scale.h"
#include "worker/head/sample_margins.h"
#include "worker/schedule/step_plan.h"

namespace pfc::checkpoint_format {

/// Version 1 had neither a checksum of the manifest nor the job's id. Version 2 has no "trained",
/// only "step". Versions 1 to 3 store the centres in the order of the labels. Version 4 has
/// "positions"; it is written only if they are in another order. Version 5 has "tables"; it is
/// written only if the tables are not in the files of centres.
inline constexpr int kVersion = 5;
inline constexpr const char* kManifest = "manifest.json";
inline constexpr const char* kBackbone = "backbone.safetensors";
inline constexpr const char* kBackboneOptimizer = "backbone_optimizer.safetensors";
inline constexpr const char* kBackboneAverage = "backbone_average.safetensors";
inline constexpr const char* kNeighboursFile = "neighbours.safetensors";
/// I32 [classes, k]: ClassNeighbours::table, with the positions of the files of centres. The file
/// is missing until neighbours have been found.
inline constexpr const char* kNeighbours = "neighbours";
inline constexpr const char* kMomentumPrefix = "momentum.";
inline constexpr const char* kSecondPrefix = "second.";
inline constexpr const char* kWeight = "weight";
inline constexpr const char* kMomentum = "momentum";
inline constexpr const char* kSecond = "second";
/// Suffix of the tensor that has the scales of a tensor of one-byte numbers, F32 [rows,
/// sub-centres].
inline constexpr const char* kScaleSuffix = "_scale";
/// I32 [rows]: how many of the updates each row has seen. The row has yet to catch up with the
/// rest (kernels/math/missed_updates.h). Missing in files of jobs without updates and in files of
/// older versions: their rows have seen all updates.
inline constexpr const char* kUpdated = "updated";
/// F32 [updates, 3]: learning rate, momentum and weight decay of every update so far, oldest
/// first. For AdamW the second column is the number of the update, from 1, for its bias
/// correction.
inline constexpr const char* kUpdates = "updates";

/// Metadata of a file of centres without tables: JSON, the name, dtype, shape and offset of each
/// table in the file of pages.
inline constexpr const char* kTables = "tables";

/// Returns the type's name in safetensors.
std::string dtype_name(DType type);

std::string folder_name(std::int64_t step);
/// Returns the step in a checkpoint folder's name; nullopt for any other name.
std::optional<std::int64_t> step_of(const std::string& folder_name);

/// The writer of a temporary folder. The folder's name contains both fields, so neither another
/// job nor a worker of an old generation that still runs can write into it.
struct Owner {
  std::string job_id;
  Generation generation = 1;
};
std::string temporary_name(std::int64_t step, const Owner& owner);
/// Returns the name of a checkpoint being removed. `number` differs for each of one writer.
std::string removed_name(std::int64_t step, const Owner& owner, int number);
/// Returns the name for a kept entry that had a checkpoint's name. It is not a checkpoint's name.
std::string set_aside_name(std::int64_t step, int number);
bool is_removed(const std::string& folder_name);
/// Returns the name of the file by which workers find out whether they see rank 0's folder.
std::string probe_name(const std::string& random);
/// Returns whether this is a temporary or removed name, or a probe's. No job needs such an entry
/// once no writer uses the folder.
bool is_temporary(const std::string& folder_name);
std::string centres_name(Rank rank, int world_size);
std::string part_name(Rank rank);
/// Returns whether a checkpoint may have a file of this name, finished or not.
bool is_file_name(const std::string& name);

/// Returns the name of the folder for tables that this writer creates.
std::string tables_folder(const Owner& owner);
/// Returns KeptName::name of a worker's tables.
std::string tables_name(Rank rank, int world_size);
/// Returns the name of a checkpoint in KeptPages. It begins with the step.
std::string tables_checkpoint(std::int64_t step, const Owner& owner);
bool is_tables_folder(const std::string& name);
/// Returns whether a folder of tables may have a file of this name.
bool is_tables_file(const std::string& name);
/// Returns the step of the checkpoint to which a log in a folder of tables belongs; nullopt: the
/// name is not of a log.
std::optional<std::int64_t> step_of_log(const std::string& file_name);

struct File {
  std::string name;
  std::uint64_t bytes = 0;
  std::string sha256;
};

/// The files with the tables of class centres, if the files of centres do not have them.
struct Tables {
  std::string folder;      ///< its name in the folder of the checkpoint's folder; empty: none
  std::string checkpoint;  ///< in KeptPages
  [[nodiscard]] bool kept() const { return !folder.empty(); }
};

/// The manifest's data about the job and its state.
struct Identity {
  std::string job_id;  ///< job that wrote it; empty in version 1
  TrainedSoFar trained;
  int world_size = 0;
  std::int64_t global_batch = 0;
  std::int64_t classes = 0;
  std::int64_t embedding_size = 0;  ///< centre_size(): length of a class's row
  std::int64_t sample_unit = 1;     ///< ClassPositions::sample_unit of the files of centres
  std::uint64_t position_seed = 0;  ///< ClassPositions::seed; used if sample_unit is above 1
  Tables tables;
  LossScale::State loss_scale;
  LossState loss_state;           ///< older manifests: as in a new job
  std::vector<int> threads;       ///< compute threads of the workers, by rank; empty: unknown
  std::vector<std::string> data;  ///< FileBrief::holds of the data sets; empty: unknown
  nlohmann::json job;

  /// Returns the order of the rows in the files of centres.
  [[nodiscard]] ClassPositions positions() const {
    return {.classes = classes, .sample_unit = sample_unit, .seed = position_seed};
  }
  /// Returns the job's value of a key; `older` if the job is from a version without this key.
  [[nodiscard]] nlohmann::json value_of(const char* key, const nlohmann::json& older = {}) const;
  /// Returns whether both have the same network, pixel scale, number of classes, feature size,
  /// sub-centres and length of a class's row.
  [[nodiscard]] bool same_model(const Identity& other) const;
};

struct Manifest {
  Identity identity;
  std::vector<File> files;

  [[nodiscard]] bool has(const std::string& name) const;
  /// Returns the entry of the file `name`; `folder` is for the message. Throws InputError if
  /// there is none.
  [[nodiscard]] const File& file(const std::filesystem::path& folder,
                                 const std::string& name) const;
};

/// Writes the manifest. Key "sha256" is the checksum of the other keys' sorted, compact JSON.
void write_manifest(const std::filesystem::path& folder, const Manifest& manifest);
/// Throws InputError that names the file and its fault: it is missing, was changed after it was
/// written, or disagrees with the folder's name or with itself.
Manifest load_manifest(const std::filesystem::path& folder);
/// Opens a file of the checkpoint. Throws InputError unless its size and SHA-256 match the
/// manifest.
SafetensorsFile open_verified(const std::filesystem::path& folder, const Manifest& manifest,
                              const std::string& name);

struct Published {
  std::filesystem::path folder;
  std::optional<Identity> identity;  ///< nullopt if the manifest cannot be read
  std::string damage;                ///< why it cannot be read
};
/// Returns the checkpoints under `output`, those with the most images seen first, unreadable ones
/// last. Empty if there is no such folder. Throws StorageError if it cannot be listed.
std::vector<Published> published(const std::filesystem::path& output);

void write_part(const std::filesystem::path& folder, Rank rank, const std::vector<File>& files);
std::vector<File> read_part(const std::filesystem::path& folder, Rank rank);

}  // namespace pfc::checkpoint_format
