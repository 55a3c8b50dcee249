// Starts a job from given weights: init_from() of checkpoint.h.
#include <system_error>

#include "common/files/safetensors.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/head/row_copy.h"

namespace pfc {
namespace {

constexpr const char* kCentres = "centres";

SafetensorsFile open_weights(const std::filesystem::path& path) {
  std::error_code ignored;  // what cannot be looked at is told with its reason when it is read
  if (std::filesystem::is_directory(path, ignored)) {
    throw InputError("init_from: " + path.string() +
                     " is a folder; expected a safetensors file, for example the " +
                     "backbone.safetensors in it");
  }
  return SafetensorsFile(path);
}

/// [C, D]; empty where the file has none.
std::span<const float> centres_in(const SafetensorsFile& file, std::int64_t classes,
                                  std::int64_t dimension) {
  if (!file.tensors().contains(kCentres)) return {};
  return file.float32(kCentres, std::vector<std::int64_t>{classes, dimension});
}

void set_centres(std::span<const float> all, const TrainingState& state) {
  const Tensor mine = state.head.state().centres;  // [shard, D]
  const std::int64_t dimension = mine.shape[1];
  const auto first = static_cast<std::size_t>(state.head.shard().begin * dimension);
  copy_rows_to_device(state.ops, mine, all.data() + first);
  state.head.state_changed();
}

}  // namespace

void init_from(const std::filesystem::path& path, const TrainingState& state) {
  const SafetensorsFile file = open_weights(path);
  const std::int64_t dimension = state.head.state().centres.shape[1];
  const std::span<const float> centres = centres_in(file, state.classes, dimension);
  import_state_dict(state.ops, state.backbone, file, {kCentres});
  if (!centres.empty()) set_centres(centres, state);
}

void check_init_from(const std::filesystem::path& path, const BackboneParameters& parameters,
                     std::int64_t classes, std::int64_t embedding_size) {
  const SafetensorsFile file = open_weights(path);
  (void)centres_in(file, classes, embedding_size);
  check_state_dict(parameters, file, {kCentres});
}

}  // namespace pfc
