// ONNX files: any bytes are either a model or an InputError, both when read as a known network
// and when run. The seeds are exports of two networks, one of convolutions and one of tokens, small
// enough for a million inputs.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/error.h"
#include "kernels/make_ops.h"
#include "model/files/model_file.h"
#include "model/files/onnx_file.h"
#include "model/files/onnx_graph.h"
#include "model/files/onnx_interpreter.h"
#include "model/files/onnx_reader.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace {

using pfc::NetworkOp;
using Kind = NetworkOp::Kind;

constexpr std::int64_t kSide = 8, kChannels = 2, kFeatures = kChannels * 4 * 4, kDimensions = 3;

const std::vector<NetworkOp>& network() {
  static const std::vector<NetworkOp> kNetwork = {
      {.name = "c", .x = pfc::kNetworkInput, .kernel = 3, .stride = 2, .pad = 1},
      {.kind = Kind::kBatchNorm, .name = "n", .x = "c", .prelu = "p"},
      {.kind = Kind::kBatchNorm, .name = "m", .x = "n"},
      {.kind = Kind::kMaxPool, .name = "s", .x = "m"},
      {.name = "d", .x = "s", .kernel = 3, .pad = 1, .groups = 2},
      {.kind = Kind::kBatchNorm, .name = "o", .x = "d", .residual = "n"},
      {.kind = Kind::kLinear, .name = "l", .x = "o", .bias = true},
      {.kind = Kind::kBatchNorm, .name = "e", .x = "l", .affine = false}};
  return kNetwork;
}

constexpr std::int64_t kTokens = 16, kWidth = 4;

/// One block of a vision transformer, over patches of 2 x 2 pixels.
const std::vector<NetworkOp>& token_network() {
  static const std::vector<NetworkOp> kNetwork = {
      {.name = "t", .x = pfc::kNetworkInput, .kernel = 2, .stride = 2},
      {.kind = Kind::kPositions, .name = "q", .x = "t"},
      {.kind = Kind::kLayerNorm, .name = "u", .x = "q"},
      {.kind = Kind::kLinear, .name = "v", .x = "u", .per_token = true},
      {.kind = Kind::kAttention, .name = "a", .x = "v", .heads = 2},
      {.kind = Kind::kLinear,
       .name = "w",
       .x = "a",
       .bias = true,
       .per_token = true,
       .relu6 = true},
      {.kind = Kind::kAdd, .name = "b", .x = "w", .residual = "q"},
      {.kind = Kind::kLinear, .name = "k", .x = "b"},
      {.kind = Kind::kBatchNorm, .name = "e", .x = "k", .affine = false}};
  return kNetwork;
}

/// Max pooling, a gate, and the average over pixels.
const std::vector<NetworkOp>& pooled_network() {
  static const std::vector<NetworkOp> kNetwork = {
      {.name = "h", .x = pfc::kNetworkInput, .kernel = 3, .pad = 1},
      {.kind = Kind::kRelu, .name = "r", .x = "h"},
      {.kind = Kind::kMaxPool, .name = "x", .x = "r", .kernel = 3, .stride = 2, .pad = 1},
      {.kind = Kind::kAveragePool, .name = "y", .x = "x"},
      {.name = "f", .x = "y"},
      {.kind = Kind::kGate, .name = "g", .x = "x", .residual = "x", .logits = "f"},
      {.kind = Kind::kAveragePool, .name = "z", .x = "g", .embeddings = true}};
  return kNetwork;
}

/// Holds the weights of all networks.
pfc::ModelFile model() {
  pfc::ModelFile model{
      .weights = {.state_dict = pfc::NamedTensors("m"), .others = pfc::NamedTensors()},
      .options = {
          .network = "small", .embedding_size = kDimensions, .height = kSide, .width = kSide}};
  std::mt19937 engine(1);
  const auto add = [&](const std::string& name, std::vector<std::int64_t> shape) {
    std::size_t count = 1;
    for (const std::int64_t d : shape) count *= static_cast<std::size_t>(d);
    std::vector<float> values(count);
    for (float& value : values) value = 0.1f + static_cast<float>(engine() % 100) / 100;
    const auto bytes = std::as_bytes(std::span(values));
    model.weights.state_dict.add_owned(name, "F32", std::move(shape), {bytes.begin(), bytes.end()});
  };
  add("c.weight", {kChannels, 3, 3, 3});
  add("d.weight", {kChannels, 1, 3, 3});
  add("h.weight", {kDimensions, 3, 3, 3});
  add("f.weight", {kDimensions, kDimensions, 1, 1});
  add("l.weight", {kDimensions, kFeatures});
  add("l.bias", {kDimensions});
  add("p.weight", {kChannels});
  add("t.weight", {kWidth, 3, 2, 2});
  add("q", {1, kTokens, kWidth});
  add("v.weight", {3 * kWidth, kWidth});
  add("w.weight", {kWidth, kWidth});
  add("k.weight", {kDimensions, kTokens * kWidth});
  for (const char* const name : {"t.bias", "u.weight", "u.bias", "w.bias"}) add(name, {kWidth});
  for (const char* const norm : {"n", "m", "o", "e"}) {
    const std::int64_t channels = *norm == 'e' ? kDimensions : kChannels;
    for (const char* const part : {".weight", ".bias", ".running_mean", ".running_var"}) {
      if (*norm == 'e' && std::string_view(part).substr(1, 7) != "running") continue;
      add(norm + std::string(part), {channels});
    }
  }
  return model;
}

/// Ends the process if the model is accepted as the network but has a tensor of a wrong size.
void match(const onnx::ModelProto& model, const std::vector<NetworkOp>& network,
           const std::filesystem::path& file) {
  try {
    const pfc::NamedTensors matched = pfc::match_onnx(model.graph(), network, file);
    for (const auto& [name, tensor] : matched.tensors()) {
      std::size_t bytes = sizeof(float);
      for (const std::int64_t d : tensor.shape) bytes *= static_cast<std::size_t>(d);
      if (bytes != tensor.bytes.size()) std::abort();
    }
  } catch (const pfc::InputError&) {
  }
}

void run(pfc::Ops& ops, const onnx::ModelProto& model) {
  if (model.graph().input_size() == 0) return;
  const auto& shape = model.graph().input(0).type().tensor_type().shape();
  std::int64_t numbers = 2;
  for (int i = 1; i < 4; ++i) {
    if (shape.dim_size() != 4 || shape.dim(i).dim_value() < 1 || shape.dim(i).dim_value() > 16) {
      return;
    }
    numbers *= shape.dim(i).dim_value();
  }
  run_onnx(ops, model, 2, std::vector<float>(static_cast<std::size_t>(numbers), 0.5f));
}

}  // namespace

namespace pfc::fuzz {

std::vector<std::string> seeds() {
  const ModelFile small = model();
  const ActivationRanges ranges = {{"data", 1.f}, {"s", 2.f}, {"l.flatten", 2.f}};
  std::vector<std::string> seeds;
  for (const OnnxOptions& options : std::vector<OnnxOptions>{{},
                                                             {.opset = 11, .flip = true},
                                                             {.float16 = true, .normalize = true},
                                                             {.int8 = &ranges}}) {
    seeds.push_back(make_onnx(network(), small, options).SerializeAsString());
    if (options.int8 != nullptr) continue;
    seeds.push_back(make_onnx(pooled_network(), small, options).SerializeAsString());
    seeds.push_back(make_onnx(token_network(), small, options).SerializeAsString());
  }
  return seeds;
}

}  // namespace pfc::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const pfc::TemporaryFolder folder;
  static const auto ops = pfc::make_ops({.choice = pfc::DeviceChoice::kCpu, .cpu_threads = 1});
  const std::filesystem::path file = folder / "m.onnx";
  pfc::testing::write_file(file, std::as_bytes(std::span(data, size)));
  try {
    const onnx::ModelProto model = pfc::read_onnx(file);
    match(model, network(), file);
    match(model, pooled_network(), file);
    match(model, token_network(), file);
    pfc::check_onnx(file, model);
    run(*ops, model);
  } catch (const pfc::InputError&) {
  }
  return 0;
}
