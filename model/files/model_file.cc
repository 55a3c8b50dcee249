#include "model/files/model_file.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "common/config/keys/job_keys.h"
#include "common/error.h"
#include "kernels/make_ops.h"

namespace pfc {
namespace {

/// Names of tensors after the last convolution. Their shapes give the sizes of a network.
struct LastLayerNames {
  const char* linear;     ///< [D, anything]
  const char* places;     ///< [*, ...]: each row has channels * H * W of the last feature map
  std::int64_t channels;  ///< 0: as many as there are rows
  std::int64_t pixels;    ///< side of the image, divided by that of the last feature map
};
constexpr std::array<LastLayerNames, 4> kLastLayers = {
    {{"fc.weight", "fc.weight", 512, 16},  // iresnet: [D, 512 * H/16 * W/16]
     {"output_layer.3.weight", "output_layer.3.weight", 512, 16},  // AdaFace
     {"features.layers.2.weight", "features.layers.0.layers.0.weight", 1,
      16},                                              // [512, 1, H/16, W/16]
     {"feature.2.weight", "feature.0.weight", 0, 9}}};  // vit: [C, H/9 * W/9 * C]

/// Returns the image's side; nothing if no side fits. A vision transformer ignores pixels after its
/// last whole patch, so several sides fit. In that case returns a multiple of 16 (such as 112) if
/// there is one.
std::optional<std::int64_t> image_side(std::int64_t places, std::int64_t channels,
                                       std::int64_t pixels) {
  constexpr std::int64_t kMostSide = 1024, kUsualStep = 16;
  const auto side = static_cast<std::int64_t>(
      std::lround(std::sqrt(static_cast<double>(places) / static_cast<double>(channels))));
  if (side < 1 || side * pixels > kMostSide || side * side * channels != places) {
    return std::nullopt;
  }
  const std::int64_t least = side * pixels;
  const std::int64_t usual = (least + kUsualStep - 1) / kUsualStep * kUsualStep;
  return usual < least + pixels ? usual : least;
}

/// Returns the number of channels of the last convolution of torchvision's network; nothing for
/// other networks.
std::optional<std::int64_t> resnet_width(const NamedTensors& table) {
  if (!is_torchvision(table)) return std::nullopt;
  for (const char* const last : {"layer4.0.conv3.weight", "layer4.0.conv2.weight"}) {
    const auto found = table.tensors().find(last);
    if (found == table.tensors().end() || found->second.shape.size() != 4) continue;
    const std::int64_t width = found->second.shape[0];
    if (width == 512 || width == 2048) return width;
  }
  return std::nullopt;
}

/// Returns all options except the name; nothing if the last layers of a network are missing.
std::optional<BackboneOptions> sizes_of(const NamedTensors& table) {
  constexpr std::int64_t kMostDimensions = 1 << 16;
  constexpr std::int64_t kResnetSide = 224;  // its tensors fit all sizes
  if (const auto width = resnet_width(table)) {
    return BackboneOptions{.batch = 1,
                           .embedding_size = *width,
                           .height = kResnetSide,
                           .width = kResnetSide,
                           .training = false};
  }
  for (const LastLayerNames& last : kLastLayers) {
    const auto linear = table.tensors().find(last.linear);
    const auto places = table.tensors().find(last.places);
    if (linear == table.tensors().end() || places == table.tensors().end()) continue;
    const std::vector<std::int64_t>& of = places->second.shape;
    if (linear->second.shape.size() != 2 || of.size() < 2 || of[0] < 1) continue;
    const std::int64_t dimensions = linear->second.shape[0];
    const auto bytes = static_cast<std::int64_t>(places->second.bytes.size() / sizeof(float));
    const std::int64_t channels = last.channels == 0 ? of[0] : last.channels;
    const auto side = image_side(bytes / of[0], channels, last.pixels);
    if (!side || dimensions < 1 || dimensions > kMostDimensions) continue;
    return BackboneOptions{.batch = 1,
                           .embedding_size = dimensions,
                           .height = *side,
                           .width = *side,
                           .training = false};
  }
  return std::nullopt;
}

/// Returns how many tensors of a network the table has with the same shape.
std::size_t fitting(const BackboneParameters& parameters, const NamedTensors& table) {
  std::size_t count = 0;
  for (const auto* of : {&parameters.weights, &parameters.state}) {
    for (const Parameter& p : *of) {
      const auto found = table.tensors().find(p.name);
      if (found != table.tensors().end() && found->second.shape == p.torch_shape) ++count;
    }
  }
  return count;
}

/// Published networks that are not among network_names(), recognised by one of their tensors.
struct ForeignNetwork {
  const char* tensor;
  const char* name;
};
constexpr std::array<ForeignNetwork, 1> kForeignNetworks = {
    {{"body.0.res_layer.5.fc1.weight", "face.evoLVe's network with squeeze and excitation"}}};

void refuse_foreign_network(const NamedTensors& table) {
  for (const ForeignNetwork& foreign : kForeignNetworks) {
    if (!table.tensors().contains(foreign.tensor)) continue;
    throw InputError(table.path().string() + ": contains " + foreign.name +
                     ", which pfc does not support yet; use a file of arcface_torch's iresnet, "
                     "mobilefacenet or vit, of AdaFace's ir_50, or of TFace's ir_se_50");
  }
}

/// Returns the network that has the most tensors in common with the table, and of these the one
/// with the fewest other tensors.
BackboneOptions recognise(const NamedTensors& table) {
  refuse_foreign_network(table);
  std::optional<BackboneOptions> options = sizes_of(table);
  if (!options) {
    throw InputError(
        table.path().string() +
        ": unknown network: found no fc.weight, features.layers.2.weight, "
        "feature.2.weight, output_layer.3.weight or layer4 of a matching size; expected "
        "a state dict with the tensor names of arcface_torch's iresnet, mobilefacenet "
        "or vit, of AdaFace, or of torchvision's resnet");
  }
  const auto ops = make_ops({.choice = DeviceChoice::kCpu, .cpu_threads = 1});
  BackboneParameters best;
  std::string best_name;
  // Number of tensors in common; negated number of others.
  std::tuple<std::size_t, std::ptrdiff_t> best_score;
  for (const std::string& name : network_names()) {
    options->network = name;
    if (!has_sizes(*options)) continue;
    BackboneParameters parameters = backbone_parameters(*ops, *options);
    const std::size_t common = fitting(parameters, table);
    const std::size_t all = parameters.weights.size() + parameters.state.size();
    const std::tuple score{common, static_cast<std::ptrdiff_t>(common - all)};
    if (score <= best_score) continue;
    best_score = score;
    best_name = name;
    best = std::move(parameters);
  }
  options->network = best_name;
  check_state_dict(best, table);
  return *options;
}

constexpr const char* kImageMean = "image_mean";
constexpr const char* kImageStd = "image_std";

/// Reads three numbers, "[0.485,0.456,0.406]", if the metadata have them.
void read_colours(const WeightsFile& file, const char* key, const NumberRange& range,
                  std::array<double, 3>& out) {
  if (!file.about.contains(key)) return;
  const nlohmann::json& value = file.about[key];
  try {
    const auto read = nlohmann::json::parse(value.get<std::string>()).get<std::vector<double>>();
    if (read.size() == out.size() &&
        std::ranges::all_of(read, [&](double x) { return range.has(x); })) {
      std::ranges::copy(read, out.begin());
      return;
    }
  } catch (const nlohmann::json::exception&) {  // reported below
  }
  throw InputError(fmt::format("{}: metadata {}: found {}, expected {}",
                               file.state_dict.path().string(), key, value.dump(), range.text));
}

}  // namespace

ModelFile read_model(const std::filesystem::path& path) {
  ModelFile model{.weights = read_weights(path), .options = {}};
  model.options = recognise(model.weights.state_dict);
  model.options.pixels = pixels_of(model.weights);
  return model;
}

PixelScale pixels_of(const WeightsFile& file) {
  PixelScale pixels;
  read_colours(file, kImageMean, keys::kColourMean, pixels.mean);
  read_colours(file, kImageStd, keys::kColourDeviation, pixels.std);
  return pixels;
}

std::map<std::string, std::string> metadata_of(const BackboneOptions& options) {
  std::map<std::string, std::string> all{{"network", options.network}};
  if (options.pixels == PixelScale{}) return all;
  all[kImageMean] = nlohmann::json(options.pixels.mean).dump();
  all[kImageStd] = nlohmann::json(options.pixels.std).dump();
  return all;
}

std::unique_ptr<Backbone> make_backbone(Ops& ops, const ModelFile& model, std::int64_t batch) {
  BackboneOptions options = model.options;
  options.batch = batch;
  options.random_weights = false;
  std::unique_ptr<Backbone> backbone = make_backbone(ops, options);
  import_state_dict(ops, *backbone, model.weights.state_dict);
  return backbone;
}

}  // namespace pfc
