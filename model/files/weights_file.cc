#include "model/files/weights_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/files/regular_file.h"
#include "common/files/safetensors.h"
#include "kernels/math/bfloat16.h"
#include "model/files/onnx_reader.h"
#include "model/files/torch_file.h"

namespace pfc {
namespace {

constexpr std::string_view kCentres = "centres";
constexpr std::string_view kRunningVariance = ".running_var";
constexpr std::string_view kBatchCounter = ".num_batches_tracked";

template <typename Number>
std::vector<std::byte> as_float32(const NamedTensors::Tensor& tensor, float (*convert)(Number)) {
  const std::size_t count = tensor.bytes.size() / sizeof(Number);
  std::vector<std::byte> out(count * sizeof(float));
  for (std::size_t i = 0; i < count; ++i) {
    Number number;
    std::memcpy(&number, tensor.bytes.data() + i * sizeof number, sizeof number);
    const float value = convert(number);
    std::memcpy(out.data() + i * sizeof value, &value, sizeof value);
  }
  return out;
}

/// Returns the tensor as float32; nothing if it is float32 already, or not floating-point.
std::optional<std::vector<std::byte>> converted(const NamedTensors::Tensor& tensor) {
  if (tensor.dtype == "F64") {
    return as_float32<double>(tensor, [](double x) { return static_cast<float>(x); });
  }
  if (tensor.dtype == "F16") {
    return as_float32<_Float16>(tensor, [](_Float16 x) { return static_cast<float>(x); });
  }
  if (tensor.dtype == "BF16") {
    return as_float32<BFloat16>(tensor, [](BFloat16 x) { return float_of(x); });
  }
  return std::nullopt;
}

void convert_to_float32(NamedTensors& table) {
  const auto tensors = table.tensors();  // a copy of the views
  for (const auto& [name, tensor] : tensors) {
    if (auto bytes = converted(tensor)) {
      table.add_owned(name, "F32", tensor.shape, std::move(*bytes));
    }
  }
}

/// Adds num_batches_tracked if it is missing: old files lack it, and so do files that PyTorch did
/// not write.
void add_missing_counters(NamedTensors& table) {
  const auto tensors = table.tensors();
  for (const auto& [name, tensor] : tensors) {
    if (!name.ends_with(kRunningVariance)) continue;
    const std::string counter =
        name.substr(0, name.size() - kRunningVariance.size()) + std::string(kBatchCounter);
    if (tensors.contains(counter)) continue;
    table.add_owned(counter, "I64", {}, std::vector<std::byte>(sizeof(std::int64_t)));
  }
}

constexpr const char* kAdafaceStem = "input_layer.0.weight";
constexpr std::string_view kLightningModule = "model.", kCvlfaceModule = "net.";

/// Returns the order of colours that a state dict has in pfc: BGR for AdaFace's networks. TFace's
/// networks have the same tensor names and also squeeze and excitation, and read RGB.
ChannelOrder usual_order(const NamedTensors& state_dict) {
  const bool adaface = state_dict.tensors().contains(kAdafaceStem) &&
                       !state_dict.tensors().contains("body.0.res_layer.se_block.fc1.weight");
  return adaface ? ChannelOrder::kBgr : ChannelOrder::kRgb;
}

/// Reads CVLface's order of colours from the file beside the weights. Throws InputError.
ChannelOrder order_of_cvlface(std::filesystem::path path) {
  path.replace_extension(".yaml");
  std::ifstream file(path);
  std::string line(4096, '\0');  // longest line
  while (file.getline(line.data(), static_cast<std::streamsize>(line.size()))) {
    const std::string_view text = line.c_str();
    if (!text.starts_with("color_space:")) continue;
    if (text.find("BGR") != std::string_view::npos) return ChannelOrder::kBgr;
    if (text.find("RGB") != std::string_view::npos) return ChannelOrder::kRgb;
  }
  throw InputError(
      path.string() +
      ": found no line \"color_space: RGB\" or \"color_space: BGR\", expected one for the network "
      "in the same folder; copy the file that CVLface saved with the weights");
}

/// Converts a network with AdaFace's tensor names from RGB to BGR, or back.
void reverse_stem(NamedTensors& state_dict) {
  const NamedTensors::Tensor stem = state_dict.at(kAdafaceStem);
  const std::vector<std::int64_t>& shape = stem.shape;
  if (stem.dtype != "F32" || shape.size() != 4 || shape[1] != 3) return;
  std::vector<std::byte> bytes(stem.bytes.begin(), stem.bytes.end());
  reverse_channels({reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)},
                   shape[2] * shape[3]);
  state_dict.add_owned(kAdafaceStem, "F32", shape, std::move(bytes));
}

/// Adds AdaFace's class centres, which are the columns of a matrix.
void add_adaface_centres(NamedTensors& others) {
  const auto found = others.tensors().find("head.kernel");
  if (found == others.tensors().end()) return;
  const NamedTensors::Tensor kernel = found->second;  // [D, C]
  if (kernel.dtype != "F32" || kernel.shape.size() != 2) return;
  const auto dimension = static_cast<std::size_t>(kernel.shape[0]);
  const auto classes = static_cast<std::size_t>(kernel.shape[1]);
  std::vector<std::byte> centres(kernel.bytes.size());
  for (std::size_t i = 0; i < dimension * classes; ++i) {
    std::memcpy(centres.data() + (i % classes * dimension + i / classes) * sizeof(float),
                kernel.bytes.data() + i * sizeof(float), sizeof(float));
  }
  others.add_owned(std::string(kCentres), "F32", {kernel.shape[1], kernel.shape[0]},
                   std::move(centres));
}

WeightsFile read_safetensors(const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  NamedTensors state_dict = file;
  NamedTensors others =
      state_dict.extract([](const std::string& name) { return name == kCentres; });
  const ChannelOrder order = usual_order(state_dict);
  return {.format = "safetensors",
          .state_dict = std::move(state_dict),
          .others = std::move(others),
          .about = file.metadata(),
          .channel_order = order};
}

/// Prefixes under which programs save a network's state dict beside other data: arcface_torch,
/// Lightning.
constexpr std::array<std::string_view, 2> kStateDicts = {"state_dict_backbone/", "state_dict/"};
/// Prefixes of modules that contain the network: DistributedDataParallel, Lightning (AdaFace),
/// CVLface.
constexpr std::array<std::string_view, 4> kModules = {"module.", kLightningModule, kCvlfaceModule,
                                                      "backbone."};
/// Prefixes of data that only training needs.
constexpr std::array<std::string_view, 3> kOptimizers = {"state_optimizer/", "optimizer_states/",
                                                         "optimizer/"};

bool begins_with_one_of(const std::string& name, std::span<const std::string_view> prefixes) {
  return std::ranges::any_of(prefixes, [&](auto prefix) { return name.starts_with(prefix); });
}

/// Moves tensors whose names do not begin with `prefix` to `others` and removes the prefix from
/// the other names. Returns false, without a change, if no name begins with it.
bool strip(NamedTensors& state_dict, NamedTensors& others, std::string_view prefix) {
  NamedTensors stripped = state_dict.extract([&](const auto& n) { return n.starts_with(prefix); });
  if (stripped.tensors().empty()) return false;
  for (const auto& [name, tensor] : state_dict.tensors()) others.add(name, tensor);
  state_dict = stripped.extract([](const std::string&) { return false; });
  for (const auto& [name, tensor] : stripped.tensors()) {
    state_dict.add(name.substr(prefix.size()), tensor);
  }
  return true;
}

WeightsFile read_torch(const std::filesystem::path& path) {
  TorchFile file = read_torch_file(path);
  const auto& tensors = file.tensors.tensors();
  if (tensors.contains("")) {
    throw InputError(path.string() + ": holds one tensor " + shape_text(tensors.at("").shape) +
                     ", as arcface_torch saves class centres; expected a network's state dict, for "
                     "example model.pt or backbone.pth");
  }
  if (tensors.empty()) {
    throw InputError(
        path.string() + ": holds no tensors" +
        (file.opaque.empty() ? "" : " but " + file.opaque.begin()->second) +
        " (nothing in it was run); expected a state dict: torch.save(model.state_dict(), "
        "\"model.pt\")");
  }
  nlohmann::json about = nlohmann::json::object();
  for (const auto& [name, number] : file.numbers) {
    if (name.find('/') == std::string::npos) about[name] = number;  // epoch, global_step
  }
  WeightsFile out{.format = "PyTorch",
                  .state_dict = std::move(file.tensors),
                  .others = NamedTensors(path),
                  .about = about};
  out.others = out.state_dict.extract(
      [](const std::string& name) { return begins_with_one_of(name, kOptimizers); });
  for (const std::string_view prefix : kStateDicts) strip(out.state_dict, out.others, prefix);
  std::string_view module;
  for (const std::string_view prefix : kModules) {
    if (strip(out.state_dict, out.others, prefix)) module = prefix;
  }
  out.channel_order = usual_order(out.state_dict);
  if (!out.state_dict.tensors().contains(kAdafaceStem)) return out;
  if (module == kLightningModule) out.channel_order = ChannelOrder::kBgr;  // AdaFace
  if (module == kCvlfaceModule) out.channel_order = order_of_cvlface(path);
  return out;
}

/// Moves torchvision's classifier, which the head replaces, out of the network.
void move_classifier(WeightsFile& file) {
  const NamedTensors classifier = file.state_dict.extract(
      [](const std::string& name) { return name == "fc.weight" || name == "fc.bias"; });
  for (const auto& [name, tensor] : classifier.tensors()) file.others.add(name, tensor);
}

/// ONNX files usually begin with the field ir_version, a small number. Safetensors files may begin
/// like that too, but their ninth byte is a brace.
bool looks_like_onnx_file(const std::filesystem::path& path) {
  if (path.extension() == ".onnx") return true;
  const std::string begin = read_text(path, 9);
  return begin.size() == 9 && begin[0] == '\x08' && begin[1] < 0x20 && begin[8] != '{';
}

WeightsFile read_onnx_file(const std::filesystem::path& path) {
  return {.format = "ONNX",
          .state_dict = read_onnx_state_dict(path),
          .others = NamedTensors(path),
          .about = nlohmann::json::object()};
}

}  // namespace

void reverse_channels(std::span<float> weights, std::int64_t places) {
  const auto count = static_cast<std::size_t>(places);
  for (; weights.size() >= 3 * count && count > 0; weights = weights.subspan(3 * count)) {
    std::ranges::swap_ranges(weights.first(count), weights.subspan(2 * count, count));
  }
}

bool is_torchvision(const NamedTensors& state_dict) {
  const auto stem = state_dict.tensors().find("conv1.weight");
  const std::vector<std::int64_t> of_resnet{64, 3, 7, 7};  // arcface_torch's iresnet: 3 x 3
  return stem != state_dict.tensors().end() && stem->second.shape == of_resnet;
}

WeightsFile read_weights(const std::filesystem::path& path) {
  WeightsFile file = looks_like_torch_file(path)  ? read_torch(path)
                     : looks_like_onnx_file(path) ? read_onnx_file(path)
                                                  : read_safetensors(path);
  if (is_torchvision(file.state_dict)) move_classifier(file);
  convert_to_float32(file.state_dict);
  convert_to_float32(file.others);
  add_missing_counters(file.state_dict);
  if (file.channel_order != usual_order(file.state_dict)) reverse_stem(file.state_dict);
  add_adaface_centres(file.others);
  return file;
}

}  // namespace pfc
