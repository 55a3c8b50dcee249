// Starts a job from given weights: init_from() of checkpoint.h.
#include <system_error>

#include "common/files/safetensors.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/head/row_copy.h"

namespace pfc {
namespace {

constexpr const char* kCentres = "centres";

void set_centres(const SafetensorsFile& file, const TrainingState& state) {
  const Tensor mine = state.head.state().centres;  // [shard, D]
  const std::int64_t dimension = mine.shape[1];
  const std::span<const float> all =
      file.float32(kCentres, std::vector<std::int64_t>{state.classes, dimension});
  const auto first = static_cast<std::size_t>(state.head.shard().begin * dimension);
  copy_rows_to_device(state.ops, mine, all.data() + first);
  state.head.state_changed();
}

}  // namespace

void init_from(const std::filesystem::path& path, const TrainingState& state) {
  std::error_code ignored;  // what cannot be looked at is told with its reason when it is read
  if (std::filesystem::is_directory(path, ignored)) {
    throw InputError("init_from: " + path.string() +
                     " is a folder; expected a safetensors file, for example the " +
                     "backbone.safetensors in it");
  }
  const SafetensorsFile file(path);
  import_state_dict(state.ops, state.backbone, file, {kCentres});
  if (file.tensors().contains(kCentres)) set_centres(file, state);
}

}  // namespace pfc
