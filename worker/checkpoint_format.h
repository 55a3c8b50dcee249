// What a checkpoint folder holds: names, the manifest, and the part that each worker reports.
//
//   OUTPUT/step-000000010/                 a checkpoint: visible only once it is whole
//     manifest.json                        Manifest
//     backbone.safetensors                 PyTorch's state dict
//     backbone_optimizer.safetensors       "momentum.NAME", for AdamW also "second.NAME"
//     centres-00001-of-00004.safetensors   rows of worker 1 of 4: "weight", "momentum", ("second"),
//                                          (for SGD "updated", "updates": kUpdated)
//   OUTPUT/.step-000000020.g3.tmp/         being written in generation 3
//     part-00001.json                      Part: what worker 1 has written
//   OUTPUT/.step-000000010.g3.old-1.tmp/   no longer wanted, being removed
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/ids.h"
#include "worker/checkpoint.h"
#include "worker/loss_scale.h"

namespace pfc::checkpoint_format {

inline constexpr int kVersion = 1;
inline constexpr const char* kManifest = "manifest.json";
inline constexpr const char* kBackbone = "backbone.safetensors";
inline constexpr const char* kBackboneOptimizer = "backbone_optimizer.safetensors";
inline constexpr const char* kMomentumPrefix = "momentum.";
inline constexpr const char* kSecondPrefix = "second.";
inline constexpr const char* kWeight = "weight";
inline constexpr const char* kMomentum = "momentum";
inline constexpr const char* kSecond = "second";
/// I32 [rows]: a row is as it was after this many of the updates; the others it has yet to catch up
/// with (kernels/math/missed_updates.h). Missing, as in AdamW's and in older files: up to date.
inline constexpr const char* kUpdated = "updated";
/// F32 [updates, 3]: learning rate, momentum and weight decay of every update so far, in order.
inline constexpr const char* kUpdates = "updates";

std::string folder_name(std::int64_t step);
/// The step of a checkpoint folder's name; nullopt for any other name.
std::optional<std::int64_t> step_of(const std::string& folder_name);
/// Carries the generation, so that a straggler of an old one cannot write into a new one's.
std::string temporary_name(std::int64_t step, Generation generation);
/// Of a checkpoint that is no longer wanted. `number` tells those of one writer apart.
std::string removed_name(std::int64_t step, Generation generation, int number);
/// Either of the two: nothing that a job needs once no writer is at work in the folder.
bool is_temporary(const std::string& folder_name);
std::string centres_name(Rank rank, int world_size);
std::string part_name(Rank rank);

struct File {
  std::string name;
  std::uint64_t bytes = 0;
  std::string sha256;
};

/// Which job's state this is.
struct Identity {
  std::int64_t step = 0;
  int world_size = 0;
  std::int64_t global_batch = 0;
  std::int64_t classes = 0;
  std::int64_t embedding_size = 0;
  LossScale::State loss_scale;
  nlohmann::json job;

  /// What tells checkpoints' ages: steps count differently when the global batch has changed.
  [[nodiscard]] std::int64_t images_seen() const { return step * global_batch; }
};

struct Manifest {
  Identity identity;
  std::vector<File> files;

  /// Throws InputError when the manifest does not list it.
  [[nodiscard]] const File& file(const std::filesystem::path& folder,
                                 const std::string& name) const;
};

void write_manifest(const std::filesystem::path& folder, const Manifest& manifest);
/// Throws InputError that names the file and what is wrong; a folder without one is no checkpoint.
Manifest load_manifest(const std::filesystem::path& folder);

struct Published {
  std::filesystem::path folder;
  std::optional<Identity> identity;  ///< none: the manifest does not read, and
  std::string damage;                ///< says why
};
/// Checkpoints under `output` by images seen, the newest first, damaged ones last; none when there
/// is no such folder.
std::vector<Published> published(const std::filesystem::path& output);

void write_part(const std::filesystem::path& folder, Rank rank, const std::vector<File>& files);
std::vector<File> read_part(const std::filesystem::path& folder, Rank rank);

}  // namespace pfc::checkpoint_format
