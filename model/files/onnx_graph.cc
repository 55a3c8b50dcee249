#include "model/files/onnx_graph.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/version.h"
#include "model/files/onnx_file.h"

namespace pfc {
namespace {

using Floats = std::vector<float>;

/// A batch norm at inference: y = scale * x + shift, channel by channel.
struct Affine {
  Floats scale, shift;
};

class GraphMaker {
 public:
  GraphMaker(std::span<const NetworkOp> network, const ModelFile& model, const OnnxOptions& onnx)
      : network_(network),
        options_(model.options),
        tensors_(model.weights.state_dict),
        onnx_(onnx),
        half_(onnx.float16) {}

  onnx::ModelProto make() {
    describe();
    read_images();
    for (std::size_t i = 0; i < network_.size(); ++i) {
      const NetworkOp& op = network_[i];
      const bool folded = op.kind == NetworkOp::Kind::kConv && is_folded(i + 1);
      add(op, folded ? &network_[i + 1] : nullptr);
      if (folded) finish_norm(network_[++i], value_.at(op.name));
    }
    write_embeddings();
    return std::move(model_);
  }

 private:
  /// `norm`: for a convolution, the batch norm to fold into it, or null.
  void add(const NetworkOp& op, const NetworkOp* norm) {
    switch (op.kind) {
      case NetworkOp::Kind::kConv:
        return conv(op, norm);
      case NetworkOp::Kind::kBatchNorm:
        return batch_norm(op);
      case NetworkOp::Kind::kMaxPool:
        return max_pool(op);
      case NetworkOp::Kind::kAveragePool:
        return average_pool(op);
      case NetworkOp::Kind::kRelu:
        value_[op.name] = node("Relu", op.name, {value_.at(op.x)});
        return;
      case NetworkOp::Kind::kGate:
        return gate(op);
      case NetworkOp::Kind::kLinear:
        return op.per_token ? token_linear(op) : linear(op);
      case NetworkOp::Kind::kPositions:
        return positions(op);
      case NetworkOp::Kind::kLayerNorm:
        return layer_norm(op);
      case NetworkOp::Kind::kAttention:
        return attention(op);
      case NetworkOp::Kind::kAdd:
        value_[op.name] = node("Add", op.name, {value_.at(op.residual), value_.at(op.x)});
        return;
    }
  }

  void describe() {
    model_.set_ir_version(onnx_.opset > 11 ? 7 : 6);
    model_.set_producer_name("pfc");
    model_.set_producer_version(version());
    model_.add_opset_import()->set_version(onnx_.opset);
    graph_ = model_.mutable_graph();
    graph_->set_name(options_.network);
    tell("network", options_.network);
    tell("pixels", onnx_.normalize ? "RGB, 0 to 255" : "RGB, x / 127.5 - 1");
  }

  void tell(const char* key, const std::string& value) {
    onnx::StringStringEntryProto& entry = *model_.add_metadata_props();
    entry.set_key(key);
    entry.set_value(value);
  }

  static void declare(onnx::ValueInfoProto& value, const char* name, const Dims& dims) {
    value.set_name(name);
    onnx::TypeProto::Tensor& type = *value.mutable_type()->mutable_tensor_type();
    type.set_elem_type(onnx::TensorProto::FLOAT);
    type.mutable_shape()->add_dim()->set_dim_param("N");
    for (const std::int64_t d : dims) type.mutable_shape()->add_dim()->set_dim_value(d);
  }

  void read_images() {
    declare(*graph_->add_input(), kNetworkInput, {3, options_.height, options_.width});
    std::string x = kNetworkInput;
    if (onnx_.normalize) {
      floats("mean", {}, {127.5f}, false);
      floats("scale", {}, {1.f / 127.5f}, false);
      x = node("Sub", "Sub", {x, "mean"});
      x = node("Mul", "Mul", {x, "scale"});
    }
    x = scale_colours(x);
    if (half_) x = cast("to_float16", x, onnx::TensorProto::FLOAT16);
    if (onnx_.flip) {
      integer("flip.starts", -1);
      integer("flip.ends", std::numeric_limits<std::int64_t>::min());
      integer("flip.axes", 3);
      integer("flip.steps", -1);
      node("Slice", "flip", {x, "flip.starts", "flip.ends", "flip.axes", "flip.steps"});
      x = node("Concat", "both", {x, "flip"});
      attribute("axis", 0);
    }
    value_[kNetworkInput] = x;
  }

  /// Changes x / 127.5 - 1 to what the network reads.
  std::string scale_colours(const std::string& x) {
    if (options_.pixels == PixelScale{}) return x;
    const auto [mean, variance] = statistics_of(options_.pixels);
    floats("colours.weight", {3}, {1.f, 1.f, 1.f}, false);
    floats("colours.bias", {3}, {0.f, 0.f, 0.f}, false);
    floats("colours.mean", {3}, {mean.begin(), mean.end()}, false);
    floats("colours.var", {3}, {variance.begin(), variance.end()}, false);
    std::string y = node("BatchNormalization", kScaleColours,
                         {x, "colours.weight", "colours.bias", "colours.mean", "colours.var"});
    new_attribute("epsilon", onnx::AttributeProto::FLOAT).set_f(0.f);
    return y;
  }

  void write_embeddings() {
    if (onnx_.flip) {
      node("Split", "straight", {value_.at(network_.back().name)});
      attribute("axis", 0);
      current_->add_output("mirrored");
      node("Add", "sum", {"straight", "mirrored"});
    }
    current_->set_output(0, kOnnxOutput);
    declare(*graph_->add_output(), kOnnxOutput, {options_.embedding_size});
  }

  /// Returns whether operation i is a batch norm that reads the result of operation i - 1, and no
  /// other operation reads this result.
  [[nodiscard]] bool is_folded(std::size_t i) const {
    if (i == network_.size() || network_[i].kind != NetworkOp::Kind::kBatchNorm) return false;
    const std::string& x = network_[i].x;
    int readers = 0;
    for (const NetworkOp& op : network_)
      readers += (op.x == x) + (op.residual == x) + (op.logits == x);
    return network_[i - 1].name == x && readers == 1;
  }

  [[nodiscard]] const Dims& shape(const std::string& name) const { return tensors_.at(name).shape; }

  [[nodiscard]] Floats values(const std::string& name) const {
    const std::span<const float> view = tensors_.float32(name, shape(name));
    return {view.begin(), view.end()};
  }

  [[nodiscard]] Affine affine_of(const NetworkOp& norm) const {
    const Floats mean = values(norm.name + ".running_mean");
    const Floats gamma = norm.affine ? values(norm.name + ".weight") : Floats(mean.size(), 1.f);
    const Floats beta = norm.affine ? values(norm.name + ".bias") : Floats(mean.size());
    const Floats variance = values(norm.name + ".running_var");
    Affine affine;
    for (std::size_t c = 0; c < gamma.size(); ++c) {
      const double scale = gamma[c] / std::sqrt(double{variance[c]} + norm.epsilon);
      affine.scale.push_back(static_cast<float>(scale));
      affine.shift.push_back(static_cast<float>(beta[c] - mean[c] * scale));
    }
    return affine;
  }

  /// Adds a convolution. `norm`: the batch norm to fold into it, or null.
  void conv(const NetworkOp& op, const NetworkOp* norm) {
    const std::string weight = op.name + ".weight", bias = op.name + ".bias";
    const Affine affine = norm != nullptr ? affine_of(*norm) : Affine();
    Floats w = values(weight);
    if (op.reads_bgr) reverse_channels(w, op.kernel * op.kernel);
    const std::size_t each = w.size() / static_cast<std::size_t>(shape(weight)[0]);
    for (std::size_t i = 0; i < w.size() && norm != nullptr; ++i) w[i] *= affine.scale[i / each];
    const std::string x = quantized(value_.at(op.x)), read = add_weight(weight, w);
    const std::int64_t kernel = op.kernel, stride = op.stride, pad = op.pad;
    value_[op.name] = node("Conv", op.name, {x, read});
    attribute("dilations", Dims{1, 1});
    attribute("group", op.groups);
    attribute("kernel_shape", Dims{kernel, kernel});
    attribute("pads", Dims{pad, pad, pad, pad});
    attribute("strides", Dims{stride, stride});
    if (norm != nullptr) {
      current_->add_input(bias);
      floats(bias, {shape(weight)[0]}, affine.shift, half_);
    }
  }

  /// Adds the weight of a convolution or a linear layer. Returns the value that holds its floats.
  std::string add_weight(const std::string& name, const Floats& w) {
    const Dims& dims = shape(name);
    if (onnx_.int8 == nullptr) {
      floats(name, dims, w, half_);
      return name;
    }
    const std::size_t each = w.size() / static_cast<std::size_t>(dims[0]);
    std::vector<std::int8_t> steps;
    Floats scales;
    for (std::size_t begin = 0; begin < w.size(); begin += each) {
      const std::span channel = std::span(w).subspan(begin, each);
      float largest = 0;
      for (const float value : channel) largest = std::max(largest, std::abs(value));
      const float scale = largest > 0 ? largest / 127 : 1.f;
      for (const float value : channel) {
        steps.push_back(static_cast<std::int8_t>(std::lround(value / scale)));
      }
      scales.push_back(scale);
    }
    initializer(name, dims, onnx::TensorProto::INT8).set_raw_data(steps.data(), steps.size());
    add_scale(name, {dims[0]}, scales);
    return dequantized(name, name);
  }

  /// Returns the value x after quantization to int8, or in a float graph x itself.
  std::string quantized(const std::string& x) {
    if (onnx_.int8 == nullptr) return x;
    std::string& y = quantized_[x];
    if (!y.empty()) return y;
    add_scale(x, {}, {onnx_.int8->at(x) / 127});
    const std::string int8 =
        node("QuantizeLinear", x + ".int8", {x, x + ".scale", x + ".zero_point"});
    return y = dequantized(int8, x);
  }

  /// Converts an int8 value to floats, with the scale and the zero point of the value `of`.
  std::string dequantized(const std::string& int8, const std::string& of) {
    const std::string y =
        node("DequantizeLinear", of + ".dequantized", {int8, of + ".scale", of + ".zero_point"});
    attribute("axis", 0);
    return y;
  }

  void add_scale(const std::string& of, const Dims& dims, const Floats& scales) {
    floats(of + ".scale", dims, scales, false);
    initializer(of + ".zero_point", dims, onnx::TensorProto::INT8)
        .set_raw_data(std::string(scales.size(), '\0'));
  }

  void max_pool(const NetworkOp& op) {
    const std::int64_t kernel = op.kernel, stride = op.stride, pad = op.pad;
    value_[op.name] = node("MaxPool", op.name, {value_.at(op.x)});
    attribute("kernel_shape", Dims{kernel, kernel});
    attribute("pads", Dims{pad, pad, pad, pad});
    attribute("strides", Dims{stride, stride});
  }

  void average_pool(const NetworkOp& op) {
    std::string y = node("GlobalAveragePool", op.name + ".mean", {value_.at(op.x)});
    value_[op.name] = y;
    if (!op.embeddings) return;
    if (half_) y = cast("to_float32", y, onnx::TensorProto::FLOAT);
    half_ = false;
    value_[op.name] = node("Flatten", op.name, {y});
    attribute("axis", 1);
  }

  void gate(const NetworkOp& op) {
    std::string y = node("Sigmoid", op.name + ".sigmoid", {value_.at(op.logits)});
    y = node("Mul", op.name + ".mul", {value_.at(op.x), y});
    value_[op.name] = node("Add", op.name, {y, value_.at(op.residual)});
  }

  void batch_norm(const NetworkOp& op) {
    const std::string weight = op.name + ".weight", bias = op.name + ".bias";
    const std::string mean = op.name + ".running_mean", variance = op.name + ".running_var";
    const std::string y =
        node("BatchNormalization", op.name, {value_.at(op.x), weight, bias, mean, variance});
    onnx::AttributeProto& epsilon = new_attribute("epsilon", onnx::AttributeProto::FLOAT);
    epsilon.set_f(op.epsilon);
    const Dims& channels = shape(mean);
    Floats mu = values(mean), var = values(variance);
    Floats gamma = op.affine ? values(weight) : Floats(mu.size(), 1.f);
    Floats beta = op.affine ? values(bias) : Floats(mu.size());
    if (half_) {  // its statistics may exceed float16's range: use mean 0 and variance 1
      Affine affine = affine_of(op);
      for (float& scale : affine.scale) scale *= std::sqrt(1.f + op.epsilon);
      gamma = affine.scale, beta = affine.shift;
      mu.assign(mu.size(), 0.f), var.assign(var.size(), 1.f);
    }
    floats(weight, channels, gamma, half_);
    floats(bias, channels, beta, half_);
    floats(mean, channels, mu, half_);
    floats(variance, channels, var, half_);
    finish_norm(op, y);
  }

  /// Adds the PReLU and residual sum after a batch norm, whose result is z.
  void finish_norm(const NetworkOp& op, std::string z) {
    if (!op.prelu.empty()) {
      const std::string slope = op.prelu + ".weight";
      z = node("PRelu", op.prelu, {z, slope});
      floats(slope, {shape(slope)[0], 1, 1}, values(slope), half_);
    }
    if (!op.residual.empty()) z = node("Add", op.name + ".add", {z, value_.at(op.residual)});
    value_[op.name] = z;
  }

  void linear(const NetworkOp& op) {
    std::string x = value_.at(op.x);
    if (half_) x = cast("to_float32", x, onnx::TensorProto::FLOAT);
    half_ = false;  // the rest is float32
    x = node("Flatten", op.name + ".flatten", {x});
    attribute("axis", 1);
    const std::string weight = op.name + ".weight", bias = op.name + ".bias";
    x = quantized(x);
    value_[op.name] = node("Gemm", op.name, {x, add_weight(weight, values(weight))});
    attribute("transB", 1);
    if (op.bias) {
      current_->add_input(bias);
      floats(bias, shape(bias), values(bias), false);
    }
  }

  /// Adds the linear layer of each token: x [N, T, C] times the transposed weight.
  void token_linear(const NetworkOp& op) {
    const std::string weight = op.name + ".weight", bias = op.name + ".bias";
    const Dims& dims = shape(weight);
    const Floats w = values(weight);
    Floats transposed(w.size());
    const auto out = static_cast<std::size_t>(dims[0]), in = static_cast<std::size_t>(dims[1]);
    for (std::size_t i = 0; i < w.size(); ++i) transposed[i % in * out + i / in] = w[i];
    floats(weight, {dims[1], dims[0]}, transposed, half_);
    std::string y = node("MatMul", op.name, {value_.at(op.x), weight});
    if (op.bias) {
      floats(bias, shape(bias), values(bias), half_);
      y = node("Add", op.name + ".add", {y, bias});
    }
    if (op.relu6) {
      floats(op.name + ".min", {}, {0}, half_);
      floats(op.name + ".max", {}, {6}, half_);
      y = node("Clip", op.name + ".relu6", {y, op.name + ".min", op.name + ".max"});
    }
    value_[op.name] = y;
  }

  void positions(const NetworkOp& op) {
    const Dims& dims = shape(op.name);  // [1, T, C]
    const std::string bias = op.x + ".bias";
    std::string y = reshape(op.name + ".reshape", value_.at(op.x), {0, dims[2], dims[1]});
    y = transpose(op.name + ".transpose", y, {0, 2, 1});
    floats(bias, shape(bias), values(bias), half_);
    floats(op.name, dims, values(op.name), half_);
    y = node("Add", bias + ".add", {y, bias});
    value_[op.name] = node("Add", op.name + ".add", {y, op.name});
  }

  /// Adds a layer norm in float32, because float16 is too coarse for its sums.
  void layer_norm(const NetworkOp& op) {
    const std::string weight = op.name + ".weight", bias = op.name + ".bias";
    const auto name = [&op](const char* part) { return op.name + "." + part; };
    std::string x = value_.at(op.x);
    if (half_) x = cast(name("to_float32"), x, onnx::TensorProto::FLOAT);
    const std::string centred = node("Sub", name("centred"), {x, mean(name("mean"), x)});
    const std::string squares = node("Mul", name("squares"), {centred, centred});
    floats(name("epsilon"), {}, {op.epsilon}, false);
    const std::string variance =
        node("Add", name("add_epsilon"), {mean(name("variance"), squares), name("epsilon")});
    const std::string deviation = node("Sqrt", name("deviation"), {variance});
    floats(weight, shape(weight), values(weight), false);
    floats(bias, shape(bias), values(bias), false);
    std::string y = node("Div", name("unit"), {centred, deviation});
    y = node("Mul", name("mul"), {y, weight});
    y = node("Add", op.name, {y, bias});
    if (half_) y = cast(name("to_float16"), y, onnx::TensorProto::FLOAT16);
    value_[op.name] = y;
  }

  /// Returns the mean over the last of three axes.
  std::string mean(const std::string& name, const std::string& x) {
    const std::string y = node("ReduceMean", name, {x});
    attribute("axes", Dims{2});
    attribute("keepdims", 1);
    return y;
  }

  void attention(const NetworkOp& op) {
    const auto name = [&op](const char* part) { return op.name + "." + part; };
    const std::int64_t width = shape(op.x + ".weight")[0] / 3, size = width / op.heads;
    node("Split", name("q"), {value_.at(op.x)});
    attribute("axis", 2);
    current_->add_output(name("k"));
    current_->add_output(name("v"));
    const auto heads_of = [&](const char* part, const Dims& order) {
      const std::string heads = name(part) + ".heads";
      const std::string y = reshape(heads, name(part), {0, -1, op.heads, size});
      return transpose(heads + ".transpose", y, order);
    };
    const std::string q = heads_of("q", {0, 2, 1, 3}), k = heads_of("k", {0, 2, 3, 1}),
                      v = heads_of("v", {0, 2, 1, 3});
    floats(name("scale"), {}, {1.f / std::sqrt(static_cast<float>(size))}, half_);
    // Scale before the product, because the product might exceed float16's range.
    const std::string scaled = node("Mul", name("scaled"), {q, name("scale")});
    const std::string scores = node("MatMul", name("scores"), {scaled, k});
    const std::string weights = node("Softmax", name("weights"), {scores});
    attribute("axis", 3);
    std::string y = node("MatMul", name("of_heads"), {weights, v});
    y = transpose(name("transpose"), y, {0, 2, 1, 3});
    value_[op.name] = reshape(op.name, y, {0, -1, width});
  }

  std::string reshape(const std::string& name, const std::string& x, const Dims& dims) {
    initializer(name + ".shape", {std::ssize(dims)}, onnx::TensorProto::INT64)
        .set_raw_data(dims.data(), dims.size() * sizeof(std::int64_t));
    return node("Reshape", name, {x, name + ".shape"});
  }

  std::string transpose(const std::string& name, const std::string& x, const Dims& order) {
    const std::string y = node("Transpose", name, {x});
    attribute("perm", order);
    return y;
  }

  std::string cast(const std::string& name, const std::string& x, onnx::TensorProto::DataType to) {
    node("Cast", name, {x});
    attribute("to", to);
    return name;
  }

  /// Adds a node and makes it the current one. Returns its name, which is also the name of its
  /// output.
  std::string node(const char* type, const std::string& name, std::vector<std::string> inputs) {
    current_ = graph_->add_node();
    current_->set_op_type(type);
    current_->set_name(name);
    current_->add_output(name);
    for (std::string& input : inputs) current_->add_input(std::move(input));
    return name;
  }

  // Attributes of the current node.
  onnx::AttributeProto& new_attribute(const char* name, onnx::AttributeProto::AttributeType type) {
    onnx::AttributeProto& attribute = *current_->add_attribute();
    attribute.set_name(name);
    attribute.set_type(type);
    return attribute;
  }
  void attribute(const char* name, std::int64_t value) {
    new_attribute(name, onnx::AttributeProto::INT).set_i(value);
  }
  void attribute(const char* name, const Dims& values) {
    onnx::AttributeProto& attribute = new_attribute(name, onnx::AttributeProto::INTS);
    for (const std::int64_t value : values) attribute.add_ints(value);
  }

  onnx::TensorProto& initializer(const std::string& name, const Dims& dims,
                                 onnx::TensorProto::DataType type) {
    onnx::TensorProto& tensor = *graph_->add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(type);
    for (const std::int64_t d : dims) tensor.add_dims(d);
    return tensor;
  }

  void floats(const std::string& name, const Dims& dims, const Floats& values, bool half) {
    onnx::TensorProto& tensor =
        initializer(name, dims, half ? onnx::TensorProto::FLOAT16 : onnx::TensorProto::FLOAT);
    if (!half) {
      tensor.set_raw_data(values.data(), values.size() * sizeof(float));
      return;
    }
    std::vector<_Float16> halves;
    halves.reserve(values.size());
    for (const float value : values) halves.push_back(static_cast<_Float16>(value));
    tensor.set_raw_data(halves.data(), halves.size() * sizeof(_Float16));
  }

  void integer(const char* name, std::int64_t value) {
    initializer(name, {1}, onnx::TensorProto::INT64).set_raw_data(&value, sizeof value);
  }

  const std::span<const NetworkOp> network_;
  const BackboneOptions& options_;
  const NamedTensors& tensors_;
  const OnnxOptions& onnx_;
  bool half_;  // whether the operations added from now on are in float16
  onnx::ModelProto model_;
  onnx::GraphProto* graph_ = nullptr;
  onnx::NodeProto* current_ = nullptr;
  std::map<std::string, std::string> value_;      // activation of the network -> output of a node
  std::map<std::string, std::string> quantized_;  // output of a node -> its quantized value
};

}  // namespace

onnx::ModelProto make_onnx(std::span<const NetworkOp> network, const ModelFile& model,
                           const OnnxOptions& options) {
  return GraphMaker(network, model, options).make();
}

}  // namespace pfc
