// The files of a checkpoint: their names, the manifest, and the list of files that each worker
// leaves for rank 0.
//
//   OUTPUT/step-000000010/                 a checkpoint; it has this name only once it is whole
//     manifest.json                        Manifest
//     backbone.safetensors                 PyTorch's state dict
//     backbone_optimizer.safetensors       "momentum.NAME", for AdamW also "second.NAME"
//     centres-00001-of-00004.safetensors   rows of worker 1 of 4: "weight", "momentum", ("second"),
//                                          "updated", "updates" (kUpdated)
//   OUTPUT/.step-000000020.ID.g3.tmp/      being written by job ID in its generation 3
//     part-00001.json                      the files that worker 1 has written
//   OUTPUT/.step-000000010.ID.g3.old-1.tmp/    no longer wanted, being removed
//   OUTPUT/.shared-RANDOM.tmp              looked for by the workers when a job begins
//   (output_links.h) OUTPUT/step-000000020.set-aside-1/     had the name of a checkpoint that was
//   published, and was
//                                          none of this model
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/files/safetensors.h"
#include "common/ids.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/gradients/loss_scale.h"
#include "worker/schedule/step_plan.h"

namespace pfc::checkpoint_format {

/// Version 1 had neither a checksum of the manifest nor the job's id. Version 2 has no "trained",
/// only "step". Both can still be read.
inline constexpr int kVersion = 3;
inline constexpr const char* kManifest = "manifest.json";
inline constexpr const char* kBackbone = "backbone.safetensors";
inline constexpr const char* kBackboneOptimizer = "backbone_optimizer.safetensors";
inline constexpr const char* kMomentumPrefix = "momentum.";
inline constexpr const char* kSecondPrefix = "second.";
inline constexpr const char* kWeight = "weight";
inline constexpr const char* kMomentum = "momentum";
inline constexpr const char* kSecond = "second";
/// I32 [rows]: how many of the updates each row has seen. It has yet to catch up with the others
/// (kernels/math/missed_updates.h). A file of a job that has made no update lacks this tensor, and
/// so do those of older versions: their rows have seen all updates.
inline constexpr const char* kUpdated = "updated";
/// F32 [updates, 3]: learning rate, momentum and weight decay of every update so far, oldest first.
/// AdamW has in the place of the momentum the number of the update, from 1, for its bias
/// correction.
inline constexpr const char* kUpdates = "updates";

std::string folder_name(std::int64_t step);
/// The step of a checkpoint folder's name; nullopt for any other name.
std::optional<std::int64_t> step_of(const std::string& folder_name);

/// Who writes a temporary folder. The name contains both, so that neither another job nor a worker
/// of an old generation that still runs can write into it.
struct Owner {
  std::string job_id;
  Generation generation = 1;
};
std::string temporary_name(std::int64_t step, const Owner& owner);
/// Of a checkpoint that is no longer wanted. `number` tells those of one writer apart.
std::string removed_name(std::int64_t step, const Owner& owner, int number);
/// Of what had a checkpoint's name and is kept: no checkpoint's name.
std::string set_aside_name(std::int64_t step, int number);
bool is_removed(const std::string& folder_name);
/// Of the file by which workers find out whether they see rank 0's folder.
std::string probe_name(const std::string& random);
/// A temporary or a removed name, or a probe's: nothing that a job needs once no writer is at work
/// in the folder.
bool is_temporary(const std::string& folder_name);
std::string centres_name(Rank rank, int world_size);
std::string part_name(Rank rank);
/// Whether pfc gives a file in a checkpoint's folder this name, also while it writes it.
bool is_file_name(const std::string& name);

struct File {
  std::string name;
  std::uint64_t bytes = 0;
  std::string sha256;
};

/// What the manifest says about the job and its state.
struct Identity {
  std::string job_id;  ///< of the job that has written it; empty in version 1
  TrainedSoFar trained;
  int world_size = 0;
  std::int64_t global_batch = 0;
  std::int64_t classes = 0;
  std::int64_t embedding_size = 0;
  LossScale::State loss_scale;
  std::vector<int> threads;       ///< compute threads of the workers, by rank; empty: unknown
  std::vector<std::string> data;  ///< FileBrief::holds of the data sets; empty: unknown
  nlohmann::json job;

  /// Whether both hold the same network with as many classes and embeddings of the same size.
  [[nodiscard]] bool same_model(const Identity& other) const;
};

struct Manifest {
  Identity identity;
  std::vector<File> files;

  /// The entry of the file `name`; `folder` is for the message. Throws InputError when there is
  /// none.
  [[nodiscard]] const File& file(const std::filesystem::path& folder,
                                 const std::string& name) const;
};

/// Its key "sha256" is the checksum of the other keys: of their JSON without white space, sorted.
void write_manifest(const std::filesystem::path& folder, const Manifest& manifest);
/// Throws InputError that names the file and says what is wrong with it: there is none, it is not
/// what was written, or it disagrees with the folder's name or with itself.
Manifest load_manifest(const std::filesystem::path& folder);
/// Opens a file of the checkpoint. Throws InputError unless its size and SHA-256 are the
/// manifest's.
SafetensorsFile open_verified(const std::filesystem::path& folder, const Manifest& manifest,
                              const std::string& name);

struct Published {
  std::filesystem::path folder;
  std::optional<Identity> identity;  ///< none when the manifest cannot be read
  std::string damage;                ///< says why it cannot be read
};
/// The checkpoints under `output`: the one with the most images seen first, those last that cannot
/// be read for any reason. Empty when there is no such folder. Throws StorageError when it cannot
/// be listed.
std::vector<Published> published(const std::filesystem::path& output);

void write_part(const std::filesystem::path& folder, Rank rank, const std::vector<File>& files);
std::vector<File> read_part(const std::filesystem::path& folder, Rank rank);

}  // namespace pfc::checkpoint_format
