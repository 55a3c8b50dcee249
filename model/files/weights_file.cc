#include "model/files/weights_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "common/error.h"
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

/// Nothing where the tensor is float32 already, or holds no floating-point numbers.
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

/// Files that do not come from PyTorch, and old ones, do not count batches.
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

WeightsFile read_safetensors(const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  NamedTensors state_dict = file;
  NamedTensors others =
      state_dict.extract([](const std::string& name) { return name == kCentres; });
  return {.format = "safetensors",
          .state_dict = std::move(state_dict),
          .others = std::move(others),
          .about = file.metadata()};
}

/// Under which names programs save a network's state dict beside other things: arcface_torch,
/// Lightning.
constexpr std::array<std::string_view, 2> kStateDicts = {"state_dict_backbone/", "state_dict/"};
/// What modules that hold the network put before its names: DistributedDataParallel, Lightning
/// (AdaFace), CVLface.
constexpr std::array<std::string_view, 4> kModules = {"module.", "model.", "net.", "backbone."};
/// What only training needs.
constexpr std::array<std::string_view, 3> kOptimizers = {"state_optimizer/", "optimizer_states/",
                                                         "optimizer/"};

bool begins_with_one_of(const std::string& name, std::span<const std::string_view> prefixes) {
  return std::ranges::any_of(prefixes, [&](auto prefix) { return name.starts_with(prefix); });
}

/// Moves tensors whose names do not begin with `prefix` to `others` and cuts it from the names of
/// those that do. Does nothing where there are none.
void strip(NamedTensors& state_dict, NamedTensors& others, std::string_view prefix) {
  NamedTensors stripped = state_dict.extract([&](const auto& n) { return n.starts_with(prefix); });
  if (stripped.tensors().empty()) return;
  for (const auto& [name, tensor] : state_dict.tensors()) others.add(name, tensor);
  state_dict = stripped.extract([](const std::string&) { return false; });
  for (const auto& [name, tensor] : stripped.tensors()) {
    state_dict.add(name.substr(prefix.size()), tensor);
  }
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
  for (const std::string_view prefix : kModules) strip(out.state_dict, out.others, prefix);
  return out;
}

WeightsFile read_onnx_file(const std::filesystem::path& path) {
  return {.format = "ONNX",
          .state_dict = read_onnx_state_dict(path),
          .others = NamedTensors(path),
          .about = nlohmann::json::object()};
}

}  // namespace

WeightsFile read_weights(const std::filesystem::path& path) {
  WeightsFile file = path.extension() == ".onnx"   ? read_onnx_file(path)
                     : looks_like_torch_file(path) ? read_torch(path)
                                                   : read_safetensors(path);
  convert_to_float32(file.state_dict);
  convert_to_float32(file.others);
  add_missing_counters(file.state_dict);
  return file;
}

}  // namespace pfc
