#include "model/files/onnx_reader.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/error.h"
#include "kernels/make_ops.h"
#include "model/files/onnx_file.h"
#include "model/networks/network_graph.h"

namespace pfc {
namespace {

using Floats = std::vector<float>;

constexpr std::int64_t kUsualSide = 112;

/// A graph in which each value is mapped to the nodes that read it. Nodes without effect at
/// inference are left out: each one's output counts as its input.
class Walk {
 public:
  explicit Walk(const onnx::GraphProto& graph) {
    static const std::set<std::string_view> kChangesNothing = {"Cast", "Dropout", "Identity"};
    for (const onnx::TensorProto& t : graph.initializer()) initializers_[t.name()] = &t;
    for (const onnx::NodeProto& node : graph.node()) {
      if (node.output_size() == 0 || node.input_size() == 0) continue;
      if (kChangesNothing.contains(node.op_type())) {
        same_as_[node.output(0)] = origin(node.input(0));
        continue;
      }
      for (const std::string& x : node.input()) readers_[origin(x)].push_back(&node);
    }
  }

  [[nodiscard]] std::string origin(const std::string& value) const {
    const auto found = same_as_.find(value);
    return found == same_as_.end() ? value : found->second;
  }

  /// Returns the first node of this type that reads the value and is not `taken`; null: none.
  [[nodiscard]] const onnx::NodeProto* reader(
      const std::string& value, std::string_view type,
      const std::set<const onnx::NodeProto*>& taken = {}) const {
    const auto found = readers_.find(origin(value));
    if (found == readers_.end()) return nullptr;
    const auto node = std::ranges::find_if(found->second, [&](const onnx::NodeProto* each) {
      return each->op_type() == type && !taken.contains(each);
    });
    return node == found->second.end() ? nullptr : *node;
  }

  /// Returns the initializer that is input i of the node; null: none.
  [[nodiscard]] const onnx::TensorProto* parameter(const onnx::NodeProto& node, int i) const {
    if (i >= node.input_size()) return nullptr;
    const auto found = initializers_.find(origin(node.input(i)));
    return found == initializers_.end() ? nullptr : found->second;
  }

 private:
  std::map<std::string, const onnx::TensorProto*> initializers_;
  std::map<std::string, std::string> same_as_;
  std::map<std::string, std::vector<const onnx::NodeProto*>> readers_;
};

/// Values [out, in], as in PyTorch.
struct LinearWeight {
  std::int64_t out = 0, in = 0;
  Floats values;
};

/// Throws InputError for a Gemm other than x * transposed weight + bias, or an empty weight.
LinearWeight linear_weight(const onnx::NodeProto& node, const onnx::TensorProto& tensor) {
  const bool product = node.op_type() == "MatMul";
  const bool plain = int_attribute(node, "transA", 0) == 0 &&
                     float_attribute(node, "alpha", 1) == 1 &&
                     float_attribute(node, "beta", 1) == 1;
  if (tensor.dims_size() != 2 || tensor.dims(0) < 1 || tensor.dims(1) < 1 || !plain ||
      (!product && int_attribute(node, "transB", 0) != 1)) {
    throw InputError("node " + node.name() + ": expected x * transposed weight + bias");
  }
  LinearWeight weight{.out = tensor.dims(0), .in = tensor.dims(1), .values = float_values(tensor)};
  if (!product) return weight;
  std::swap(weight.out, weight.in);
  const Floats transposed = std::exchange(weight.values, Floats(weight.values.size()));
  const auto out = static_cast<std::size_t>(weight.out), in = static_cast<std::size_t>(weight.in);
  for (std::size_t i = 0; i < transposed.size(); ++i) {
    weight.values[i % out * in + i / out] = transposed[i];
  }
  return weight;
}

/// Finds the operations of a network in a graph, one after the other, and takes their tensors.
class Matcher {
 public:
  Matcher(const onnx::GraphProto& graph, const Walk& walk, NamedTensors& out)
      : walk_(walk), out_(out) {
    value_[kNetworkInput] = graph.input(0).name();
  }

  void match(const NetworkOp& op) {
    switch (op.kind) {
      case NetworkOp::Kind::kConv:
        return conv(op);
      case NetworkOp::Kind::kBatchNorm:
        return batch_norm(op);
      case NetworkOp::Kind::kMaxPool:
        return max_pool(op);
      case NetworkOp::Kind::kAveragePool:
        return average_pool(op);
      case NetworkOp::Kind::kRelu:
        value_[op.name] = next(op, value(op.x), "Relu").output(0);
        return;
      case NetworkOp::Kind::kGate:
        return gate(op);
      case NetworkOp::Kind::kLinear:
        return linear(op);
      case NetworkOp::Kind::kPositions:
        return positions(op);
      case NetworkOp::Kind::kLayerNorm:
        return layer_norm(op);
      case NetworkOp::Kind::kAttention:
        return attention(op);
      case NetworkOp::Kind::kAdd:
        return sum(op);
    }
  }

  [[nodiscard]] const std::string& value(const std::string& activation) const {
    return value_.at(activation);
  }

 private:
  void conv(const NetworkOp& op) {
    const onnx::NodeProto& node = next(op, value(op.x), "Conv");
    taken_.insert(&node);  // a shortcut's convolution reads the same activation
    const onnx::TensorProto& weight = parameter(op, node, 1);
    const std::int64_t stride = op.stride, pad = op.pad;
    if (int_attributes(node, "strides", {1, 1}) != Dims{stride, stride} ||
        int_attributes(node, "pads", {0, 0, 0, 0}) != Dims{pad, pad, pad, pad} ||
        int_attribute(node, "group", 1) != op.groups) {
      throw InputError("node " + node.name() + ": its strides, pads or group are not those of " +
                       op.name + " in the network");
    }
    add(op.name + ".weight", dims_of(weight), float_values(weight));
    take_bias(op, node);
    value_[op.name] = node.output(0);
  }

  void max_pool(const NetworkOp& op) {
    const onnx::NodeProto& node = next(op, value(op.x), "MaxPool");
    const std::int64_t kernel = op.kernel, stride = op.stride, pad = op.pad;
    if (int_attributes(node, "kernel_shape", {}) != Dims{kernel, kernel} ||
        int_attributes(node, "strides", {1, 1}) != Dims{stride, stride} ||
        int_attributes(node, "pads", {0, 0, 0, 0}) != Dims{pad, pad, pad, pad}) {
      throw InputError("node " + node.name() +
                       ": its kernel_shape, strides or pads are not those " + "of " + op.name +
                       " in the network");
    }
    value_[op.name] = node.output(0);
  }

  void average_pool(const NetworkOp& op) {
    std::string& y = value_[op.name] = next(op, value(op.x), "GlobalAveragePool").output(0);
    if (op.embeddings) y = next(op, y, "Flatten").output(0);
  }

  void gate(const NetworkOp& op) {
    const std::string& factor = next(op, value(op.logits), "Sigmoid").output(0);
    const onnx::NodeProto& product = next(op, factor, "Mul");
    expect_input(op, product, "product", op.x);
    value_[op.name] = sum_with(op, product.output(0));
  }

  void expect_input(const NetworkOp& op, const onnx::NodeProto& node, const char* what,
                    const std::string& activation) const {
    const std::string x = walk_.origin(value(activation));
    if (std::ranges::any_of(node.input(), [&](const auto& y) { return walk_.origin(y) == x; })) {
      return;
    }
    throw InputError("node " + node.name() + ": expected the " + what + " of " + op.name + " and " +
                     activation);
  }

  void linear(const NetworkOp& op) {
    std::string x = value(op.x);
    for (const char* const flatten : {"Flatten", "Reshape"}) {
      if (const onnx::NodeProto* const node = walk_.reader(x, flatten)) x = node->output(0);
    }
    const onnx::NodeProto* const product = walk_.reader(x, "MatMul");
    const onnx::NodeProto& node = product != nullptr ? *product : next(op, x, "Gemm");
    const LinearWeight weight = linear_weight(node, parameter(op, node, 1));
    add(op.name + ".weight", {weight.out, weight.in}, weight.values);
    take_bias(op, node);
    value_[op.name] = node.output(0);
    if (op.bias && op.per_token) {
      value_[op.name] = take_next(op, op.name, "Add", op.name + ".bias");
    } else if (op.bias) {
      Floats bias = std::exchange(bias_[op.name], {});
      if (bias.empty()) bias.resize(static_cast<std::size_t>(weight.out));
      const auto out = static_cast<std::int64_t>(bias.size());
      add(op.name + ".bias", {out}, std::move(bias));
    }
    if (op.relu6) value_[op.name] = next(op, value(op.name), "Clip").output(0);
  }

  /// Finds the node of this type that reads x, and takes its parameter under the name `name`.
  /// Returns the node's output.
  const std::string& take_next(const NetworkOp& op, const std::string& x, std::string_view type,
                               const std::string& name) {
    const onnx::NodeProto& node = next(op, value(x), type);
    const int i = walk_.parameter(node, 1) != nullptr ? 1 : 0;
    const onnx::TensorProto& tensor = parameter(op, node, i);
    add(name, dims_of(tensor), float_values(tensor));
    return node.output(0);
  }

  void positions(const NetworkOp& op) {
    std::string& y = value_[op.name] = value(op.x);
    for (const char* const type : {"Reshape", "Transpose"}) y = next(op, y, type).output(0);
    y = take_next(op, op.name, "Add", op.x + ".bias");
    y = take_next(op, op.name, "Add", op.name);
    // Only training reads this token, so the graph does not have it.
    const auto width = static_cast<std::int64_t>(channels_.at(op.x));
    add("mask_token", {1, 1, width}, Floats(static_cast<std::size_t>(width)));
  }

  void layer_norm(const NetworkOp& op) {
    std::string& y = value_[op.name] = value(op.x);
    for (const char* const type : {"Sub", "Div"}) y = next(op, y, type).output(0);
    y = take_next(op, op.name, "Mul", op.name + ".weight");
    y = take_next(op, op.name, "Add", op.name + ".bias");
  }

  /// An attention has no parameters, so this only follows the path of the values through the graph.
  void attention(const NetworkOp& op) {
    const onnx::NodeProto& parts = next(op, value(op.x), "Split");
    if (parts.output_size() != 3) {
      throw InputError("node " + parts.name() + ": expected queries, keys and values");
    }
    std::string& y = value_[op.name] = parts.output(2);
    for (const char* const type : {"Reshape", "Transpose", "MatMul", "Transpose", "Reshape"}) {
      y = next(op, y, type).output(0);
    }
  }

  void sum(const NetworkOp& op) { value_[op.name] = sum_with(op, value(op.x)); }

  /// Returns the sum of z and the residual of the operation.
  [[nodiscard]] const std::string& sum_with(const NetworkOp& op, const std::string& z) const {
    const onnx::NodeProto& sum = next(op, z, "Add");
    expect_input(op, sum, "sum", op.residual);
    return sum.output(0);
  }

  void take_bias(const NetworkOp& op, const onnx::NodeProto& node) {
    if (node.input_size() > 2) bias_[op.name] = float_values(parameter(op, node, 2));
  }

  void batch_norm(const NetworkOp& op) {
    // The bias of the previous layer. The graph has it, but the network does not.
    const Floats bias = bias_.contains(op.x) ? bias_.at(op.x) : Floats();
    if (const onnx::NodeProto* const node = walk_.reader(value(op.x), "BatchNormalization")) {
      Floats mean = float_values(parameter(op, *node, 3));
      Floats variance = float_values(parameter(op, *node, 4));
      const float more = float_attribute(*node, "epsilon", 1e-5f) - op.epsilon;
      for (float& each : variance) each += more;
      for (std::size_t c = 0; c < std::min(mean.size(), bias.size()); ++c) mean[c] -= bias[c];
      add_norm(op, float_values(parameter(op, *node, 1)), float_values(parameter(op, *node, 2)),
               std::move(mean), std::move(variance));
      value_[op.name] = node->output(0);
    } else {  // the batch norm was folded into the previous layer
      const std::size_t channels = channels_.at(op.x);
      add_norm(op, Floats(channels, std::sqrt(1.f + op.epsilon)),
               bias.empty() ? Floats(channels) : bias, Floats(channels), Floats(channels, 1.f));
      value_[op.name] = value(op.x);
    }
    std::string& z = value_[op.name];
    if (!op.prelu.empty()) {
      const onnx::NodeProto& node = next(op, z, "PRelu");
      Floats slope = float_values(parameter(op, node, 1));
      const auto channels = static_cast<std::int64_t>(slope.size());
      add(op.prelu + ".weight", {channels}, std::move(slope));
      z = node.output(0);
    }
    if (!op.residual.empty()) z = sum_with(op, z);
  }

  void add_norm(const NetworkOp& op, Floats gamma, Floats beta, Floats mean, Floats variance) {
    const Dims channels{static_cast<std::int64_t>(mean.size())};
    if (op.affine) {
      add(op.name + ".weight", channels, std::move(gamma));
      add(op.name + ".bias", channels, std::move(beta));
    } else {
      into_statistics(op, gamma, beta, mean, variance);
    }
    add(op.name + ".running_mean", channels, std::move(mean));
    add(op.name + ".running_var", channels, std::move(variance));
  }

  /// Merges weight and bias into the statistics, because the network's batch norm has neither.
  static void into_statistics(const NetworkOp& op, const Floats& gamma, const Floats& beta,
                              Floats& mean, Floats& variance) {
    const std::size_t channels = mean.size();
    if (gamma.size() != channels || beta.size() != channels || variance.size() != channels ||
        !std::ranges::all_of(gamma, [](float g) { return g > 0; })) {
      throw InputError("the batch norm for " + op.name + ": expected positive weights");
    }
    for (std::size_t c = 0; c < channels; ++c) {
      const float deviation = std::sqrt(variance[c] + op.epsilon) / gamma[c];
      mean[c] -= beta[c] * deviation;
      variance[c] = deviation * deviation - op.epsilon;
    }
  }

  [[nodiscard]] const onnx::NodeProto& next(const NetworkOp& op, const std::string& value,
                                            std::string_view type) const {
    const onnx::NodeProto* const node = walk_.reader(value, type, taken_);
    if (node != nullptr && node->output_size() > 0) return *node;
    throw InputError(
        fmt::format("expected a node {} after {}, for {} of the network", type, value, op.name));
  }

  [[nodiscard]] const onnx::TensorProto& parameter(const NetworkOp& op, const onnx::NodeProto& node,
                                                   int i) const {
    if (const onnx::TensorProto* const found = walk_.parameter(node, i)) return *found;
    throw InputError(
        fmt::format("node {}: input {} is not a tensor of the file, expected a parameter of {}",
                    node.name(), i, op.name));
  }

  void add(const std::string& name, Dims shape, Floats values) {
    std::int64_t expected = shape.empty() ? 0 : 1;
    for (const std::int64_t d : shape) expected *= d;
    if (values.empty() || std::ssize(values) != expected) {
      throw InputError(
          fmt::format("tensor {}: found {} values, expected {}", name, values.size(), expected));
    }
    if (name.ends_with(".weight")) channels_[name.substr(0, name.size() - 7)] = shape.front();
    const auto bytes = std::as_bytes(std::span(values));
    out_.add_owned(name, "F32", std::move(shape), {bytes.begin(), bytes.end()});
  }

  const Walk& walk_;
  NamedTensors& out_;
  std::set<const onnx::NodeProto*> taken_;       // convolutions that were matched
  std::map<std::string, std::string> value_;     // activation of the network -> value of the graph
  std::map<std::string, Floats> bias_;           // bias of a layer that has none in the network
  std::map<std::string, std::size_t> channels_;  // number of channels of a layer's output
};

/// Returns the weight of a linear layer; null if the node is not one.
const onnx::TensorProto* linear_tensor(const Walk& walk, const onnx::NodeProto& node) {
  if (node.op_type() != "Gemm" && node.op_type() != "MatMul") return nullptr;
  const onnx::TensorProto* const weight = walk.parameter(node, 1);
  return weight != nullptr && weight->dims_size() == 2 ? weight : nullptr;
}

/// Returns the size of the last linear layer's result. Without a linear layer, returns the size of
/// the graph's output; 0 if it is unknown too.
std::int64_t embedding_size_of(const onnx::GraphProto& graph, const Walk& walk) {
  const auto linear = std::find_if(
      graph.node().rbegin(), graph.node().rend(),
      [&walk](const onnx::NodeProto& node) { return linear_tensor(walk, node) != nullptr; });
  if (linear != graph.node().rend()) {
    return linear_tensor(walk, *linear)->dims(linear->op_type() == "Gemm" ? 0 : 1);
  }
  if (graph.output_size() == 0) return 0;
  const auto& output = graph.output(0).type().tensor_type().shape();
  return output.dim_size() == 2 ? output.dim(1).dim_value() : 0;
}

/// Returns the sizes of a graph's input and output; nothing if it cannot be a known network.
std::optional<BackboneOptions> sizes_of(const onnx::GraphProto& graph, const Walk& walk) {
  if (graph.input_size() == 0) return std::nullopt;
  const auto& input = graph.input(0).type().tensor_type().shape();
  if (input.dim_size() != 4) return std::nullopt;
  constexpr std::int64_t kMostSide = 1024, kMostDimensions = 1 << 16;
  const auto side = [&](int i) {
    return input.dim(i).has_dim_value() ? input.dim(i).dim_value() : kUsualSide;
  };
  const BackboneOptions options{.batch = 1,
                                .embedding_size = embedding_size_of(graph, walk),
                                .height = side(2),
                                .width = side(3),
                                .training = false};
  const bool valid = options.embedding_size > 0 && options.embedding_size <= kMostDimensions &&
                     options.height > 0 && options.height <= kMostSide &&
                     options.height % 16 == 0 && options.width == options.height;
  return valid ? std::optional(options) : std::nullopt;
}

/// Returns the network whose convolutions have the same shapes as those in the graph, and which has
/// as many linear layers as the graph.
std::optional<BackboneOptions> recognise(Ops& ops, const onnx::GraphProto& graph,
                                         const Walk& walk) {
  std::optional<BackboneOptions> options = sizes_of(graph, walk);
  if (!options) return std::nullopt;
  std::multiset<Dims> found;
  std::ptrdiff_t linear_layers = 0;
  for (const onnx::NodeProto& node : graph.node()) {
    const onnx::TensorProto* const weight =
        node.op_type() == "Conv" ? walk.parameter(node, 1) : nullptr;
    if (weight != nullptr) found.insert(dims_of(*weight));
    linear_layers += linear_tensor(walk, node) != nullptr;
  }
  for (const std::string& name : network_names()) {
    options->network = name;
    if (!has_sizes(*options)) continue;
    std::multiset<Dims> expected;
    std::ptrdiff_t expected_linear = 0;
    for (const Parameter& p : backbone_parameters(ops, *options).weights) {
      if (p.layout == ParameterLayout::kConvolution) expected.insert(p.torch_shape);
      expected_linear += p.torch_shape.size() == 2;
    }
    if (found == expected && linear_layers == expected_linear) return options;
  }
  return std::nullopt;
}

}  // namespace

NamedTensors match_onnx(const onnx::GraphProto& graph, std::span<const NetworkOp> network,
                        const std::filesystem::path& path) {
  NamedTensors tensors(path);
  if (graph.input_size() == 0) throw InputError("the graph has no input");
  const Walk walk(graph);
  Matcher matcher(graph, walk, tensors);
  for (const NetworkOp& op : network) matcher.match(op);
  const std::string embedding = walk.origin(matcher.value(network.back().name));
  if (graph.output_size() != 1) {
    throw InputError(
        fmt::format("found {} outputs of the graph, expected one", graph.output_size()));
  }
  if (walk.origin(graph.output(0).name()) != embedding) {
    throw InputError("the graph's output is not that of " + network.back().name +
                     "; export the network without the nodes after it");
  }
  return tensors;
}

NamedTensors read_onnx_state_dict(const std::filesystem::path& path) {
  const onnx::ModelProto model = read_onnx(path);
  const Walk walk(model.graph());
  if (std::ranges::any_of(model.graph().node(), [](const onnx::NodeProto& node) {
        return node.op_type() == "DequantizeLinear";
      })) {
    throw InputError(path.string() +
                     ": its weights are rounded to integers; use the float32 or float16 file");
  }
  if (std::ranges::any_of(model.graph().node(), [](const onnx::NodeProto& node) {
        return node.name() == kScaleColours;
      })) {
    throw InputError(path.string() +
                     ": scales colours with image_mean and image_std, which pfc does not read from "
                     "ONNX files; use the network's safetensors file");
  }
  const auto ops = make_ops({.choice = DeviceChoice::kCpu, .cpu_threads = 1});
  const std::optional<BackboneOptions> options = recognise(*ops, model.graph(), walk);
  if (!options) {
    throw InputError(
        path.string() +
        ": unknown network: its convolutions are not those of an iresnet, a "
        "mobilefacenet, a resnet or a vit; expected a file exported by pfcctl or arcface_torch");
  }
  try {
    return match_onnx(model.graph(), network_graph(*ops, *options), path);
  } catch (const InputError& error) {
    throw InputError(
        fmt::format("{}: looks like {}, but {}", path.string(), options->network, error.what()));
  }
}

}  // namespace pfc
