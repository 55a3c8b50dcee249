#include "worker/initial/init_from.h"

#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include <map>
#include <optional>
#include <system_error>
#include <unordered_map>

#include "common/config/parameters/name_patterns.h"
#include "common/config/parameters/parameter_rules.h"
#include "common/counted.h"
#include "common/files/regular_file.h"
#include "data/identity_names.h"
#include "model/files/model_file.h"
#include "model/files/weights_file.h"
#include "worker/checkpoint/stored_centres.h"
#include "worker/head/row_copy.h"

namespace pfc {
namespace {

constexpr const char* kNamesFile = "identities.txt";

WeightsFile open_weights(const std::filesystem::path& path) {
  std::error_code ignored;  // an unreadable path is reported when it is read
  if (std::filesystem::is_directory(path, ignored)) {
    throw InputError("init_from: " + path.string() +
                     " is a folder; expected a file of weights, for example the " +
                     "backbone.safetensors or model.pt in it");
  }
  return read_weights(path);
}

/// Rows of the file's centres [rows, D] by the names of their classes.
struct NamedRows {
  std::unordered_map<std::string, std::int64_t> row_of;
  std::span<const float> rows;
};

/// Returns the rows if both identities.txt beside the file and the data have names of the classes.
std::optional<NamedRows> centres_by_name(const WeightsFile& file, const InitFrom& from,
                                         std::int64_t dimension) {
  const auto found = file.others.tensors().find(kCentresName);
  if (found == file.others.tensors().end() || from.dataset == nullptr) return std::nullopt;
  const std::vector<std::int64_t>& shape = found->second.shape;
  if (shape.size() != 2 || shape[1] != dimension) return std::nullopt;
  const IdentityNames names = read_identity_names(from.file.parent_path() / kNamesFile, shape[0]);
  if (names.size() == 0) return std::nullopt;
  NamedRows named{.row_of = {}, .rows = file.others.float32(kCentresName, shape)};
  for (std::int64_t row = 0; row < shape[0]; ++row) {
    if (!names.at(row).empty()) named.row_of.emplace(names.at(row), row);
  }
  for (std::int64_t c = 0; c < from.dataset->info().classes; ++c) {
    if (!from.dataset->identity(c).empty()) return named;
  }
  return std::nullopt;
}

/// Returns the centres [C, D]. Returns nothing if the file has no centres, or if it has a network
/// and its centres have another shape; in the latter case, adds a text to `left`.
std::span<const float> centres_in(const WeightsFile& file, const std::vector<std::int64_t>& shape,
                                  std::vector<std::string>& left) {
  const auto found = file.others.tensors().find(kCentresName);
  if (found == file.others.tensors().end()) return {};
  const bool has_network = !file.state_dict.tensors().empty();
  // Centres of another shape are for other identities: take only the network.
  if (has_network && found->second.shape != shape) {
    left.push_back(std::string(kCentresName) + " " + shape_text(found->second.shape) + ", here " +
                   shape_text(shape));
    return {};
  }
  return file.others.float32(kCentresName, shape);
}

/// all: [C, D], by label.
void set_centres(std::span<const float> all, const TrainingState& state) {
  const ScaledRows mine = state.head.state().centres;  // [shard, D]
  const auto dimension = static_cast<std::size_t>(mine.shape[1]);
  const RowRange shard = state.head.shard();
  std::vector<float> rows;
  for (const RowRange& piece : pieces_of(shard, mine.shape[1])) {
    rows.clear();
    for (std::int64_t position = piece.begin; position < piece.end; ++position) {
      const auto label = static_cast<std::size_t>(state.head.positions().label_at(position));
      const auto row = all.subspan(label * dimension, dimension);
      rows.insert(rows.end(), row.begin(), row.end());
    }
    const auto pinned = state.head.pin(piece, PageUse::kChange, mine);
    copy_rows_to_device(state.ops, row_range(mine, piece.begin - shard.begin, piece.size()),
                        rows.data());
  }
  state.head.state_changed();
}

/// Sets the rows of this worker's shard for the classes whose names are in the file, and returns
/// which rows were set. Adds the number of rows set on all workers to `count`.
std::vector<bool> set_centres_by_name(const NamedRows& named, const Dataset& dataset,
                                      const TrainingState& state, std::int64_t& count) {
  const ScaledRows mine = state.head.state().centres;
  const RowRange shard = state.head.shard();
  std::vector<bool> set(static_cast<std::size_t>(shard.size()));
  for (std::int64_t c = 0; c < state.classes; ++c) {
    const auto found = named.row_of.find(dataset.identity(c));
    if (found == named.row_of.end()) continue;
    ++count;
    const std::int64_t position = state.head.positions().position_of(c);
    if (!shard.contains(position)) continue;
    const auto pinned = state.head.pin({position, position + 1}, PageUse::kChange, mine);
    copy_rows_to_device(state.ops, row_range(mine, position - shard.begin, 1),
                        named.rows.data() + found->second * mine.shape[1]);
    set[static_cast<std::size_t>(position - shard.begin)] = true;
  }
  state.head.state_changed();
  return set;
}

bool takes(const InitFrom& from, const std::string& name) {
  return from.names.empty() || matches_any(name, from.names);
}

void check_names(const InitFrom& from, const BackboneParameters& parameters) {
  std::vector<std::string> names = parameter_names(parameters.weights);
  for (const Parameter& p : parameters.state) names.push_back(p.name);
  names.emplace_back(kCentresName);
  check_patterns("init_from_names", from.names, names);
}

/// Returns a list of the first words of the names: "conv1 (1 tensor), layer1 (33 tensors)".
std::string summary(const BackboneParameters& parameters, const InitFrom& from, bool taken) {
  std::map<std::string, long long> counts;
  for (const auto* of : {&parameters.weights, &parameters.state}) {
    for (const Parameter& p : *of) {
      if (takes(from, p.name) == taken) ++counts[p.name.substr(0, p.name.find('.'))];
    }
  }
  std::vector<std::string> texts;
  for (const auto& [word, count] : counts) {
    texts.push_back(fmt::format("{} ({})", word, counted(count, "tensor")));
  }
  return texts.empty() ? "nothing" : fmt::format("{}", fmt::join(texts, ", "));
}

std::string message_of(const InitFrom& from, const BackboneParameters& parameters,
                       const std::vector<std::string>& left) {
  std::string message = "weights from " + from.file.string();
  if (!from.names.empty()) {
    message += fmt::format(": took {}; left as initialised {}", summary(parameters, from, true),
                           summary(parameters, from, false));
  }
  if (!left.empty()) {
    message += fmt::format("; these do not fit and stay as initialised: {}", fmt::join(left, "; "));
  }
  return message;
}

/// Returns a warning if the file's network reads pixels in another way than the job's. Returns an
/// empty text if it reads them in the same way, or if the file does not say how, because it is not
/// from pfc.
std::string other_pixels(const WeightsFile& file, const PixelScale& expected) {
  if (!file.about.contains("network")) return "";
  const PixelScale found = pixels_of(file);
  if (found == expected) return "";
  return fmt::format(
      "; warning: its network reads pixels with image_mean [{}] and image_std [{}], but this job "
      "with image_mean [{}] and image_std [{}]",
      fmt::join(found.mean, ", "), fmt::join(found.std, ", "), fmt::join(expected.mean, ", "),
      fmt::join(expected.std, ", "));
}

}  // namespace

InitialWeights init_from(const InitFrom& from, const TrainingState& state) {
  const WeightsFile file = open_weights(from.file);
  const BackboneParameters parameters{state.backbone.weights.parameters,
                                      state.backbone.state.parameters};
  check_names(from, parameters);
  const std::int64_t dimension = state.head.state().centres.shape[1];
  std::vector<std::string> left_centres;
  std::optional<NamedRows> by_name;
  std::span<const float> centres;
  if (takes(from, kCentresName)) {
    by_name = centres_by_name(file, from, dimension);
    if (!by_name) centres = centres_in(file, {state.classes, dimension}, left_centres);
  }
  std::vector<std::string> left =
      import_state_dict(state.ops, state.backbone, file.state_dict, {},
                        {.last = LastLayers::kMayDiffer, .names = from.names});
  left.insert(left.end(), left_centres.begin(), left_centres.end());
  InitialWeights initial{
      .message = message_of(from, parameters, left) + other_pixels(file, state.pixels),
      .centres = {}};
  if (by_name) {
    std::int64_t count = 0;
    initial.centres = set_centres_by_name(*by_name, *from.dataset, state, count);
    initial.message += fmt::format("; centres of {} of {} classes by name", count, state.classes);
  } else if (!centres.empty()) {
    set_centres(centres, state);
    initial.centres.assign(static_cast<std::size_t>(state.head.shard().size()), true);
  }
  return initial;
}

void check_init_from(const InitFrom& from, const BackboneParameters& parameters,
                     std::int64_t classes, std::int64_t embedding_size) {
  const WeightsFile file = open_weights(from.file);
  check_names(from, parameters);
  std::vector<std::string> left;
  const std::filesystem::path names = from.file.parent_path() / kNamesFile;
  const auto centres = file.others.tensors().find(kCentresName);
  if (centres != file.others.tensors().end() && takes(from, kCentresName)) {
    const std::vector<std::int64_t>& shape = centres->second.shape;
    if (something_at(names) && shape.size() == 2 && shape[1] == embedding_size) {
      (void)read_identity_names(names, shape[0]);
    } else {
      (void)centres_in(file, {classes, embedding_size}, left);
    }
  }
  (void)check_state_dict(parameters, file.state_dict, {},
                         {.last = LastLayers::kMayDiffer, .names = from.names});
}

}  // namespace pfc
