// Starts a job from given weights: init_from() of checkpoint.h.
#include <system_error>

#include "model/files/weights_file.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/head/row_copy.h"

namespace pfc {
namespace {

constexpr const char* kCentres = "centres";

WeightsFile open_weights(const std::filesystem::path& path) {
  std::error_code ignored;  // what cannot be looked at is told with its reason when it is read
  if (std::filesystem::is_directory(path, ignored)) {
    throw InputError("init_from: " + path.string() +
                     " is a folder; expected a file of weights, for example the " +
                     "backbone.safetensors or model.pt in it");
  }
  return read_weights(path);
}

/// [C, D]; empty where the file has none for these classes, of which `left` then says so.
std::span<const float> centres_in(const WeightsFile& file, const std::vector<std::int64_t>& shape,
                                  std::vector<std::string>& left) {
  const auto found = file.others.tensors().find(kCentres);
  if (found == file.others.tensors().end()) return {};
  const bool has_network = !file.state_dict.tensors().empty();
  if (has_network && found->second.shape != shape) {  // the network alone, for other identities
    left.push_back(std::string(kCentres) + " " + shape_text(found->second.shape) + ", here " +
                   shape_text(shape));
    return {};
  }
  return file.others.float32(kCentres, shape);
}

void set_centres(std::span<const float> all, const TrainingState& state) {
  const Tensor mine = state.head.state().centres;  // [shard, D]
  const std::int64_t dimension = mine.shape[1];
  const auto first = static_cast<std::size_t>(state.head.shard().begin * dimension);
  copy_rows_to_device(state.ops, mine, all.data() + first);
  state.head.state_changed();
}

}  // namespace

std::vector<std::string> init_from(const std::filesystem::path& path, const TrainingState& state) {
  const WeightsFile file = open_weights(path);
  std::vector<std::string> left_centres;
  const std::span<const float> centres =
      centres_in(file, {state.classes, state.head.state().centres.shape[1]}, left_centres);
  std::vector<std::string> left =
      import_state_dict(state.ops, state.backbone, file.state_dict, {}, LastLayers::kMayDiffer);
  if (!centres.empty()) set_centres(centres, state);
  left.insert(left.end(), left_centres.begin(), left_centres.end());
  return left;
}

void check_init_from(const std::filesystem::path& path, const BackboneParameters& parameters,
                     std::int64_t classes, std::int64_t embedding_size) {
  const WeightsFile file = open_weights(path);
  std::vector<std::string> left;
  (void)centres_in(file, {classes, embedding_size}, left);
  (void)check_state_dict(parameters, file.state_dict, {}, LastLayers::kMayDiffer);
}

}  // namespace pfc
