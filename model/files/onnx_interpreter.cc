#include "model/files/onnx_interpreter.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "common/error.h"
#include "common/one_line.h"
#include "kernels/math/pooling.h"
#include "model/files/onnx_file.h"
#include "model/files/onnx_tokens.h"

namespace pfc {
namespace {

/// An activation. Its memory is channels-last, like that of Ops: [N, H, W, C], or [N, C]; that of
/// tokens has the order of `dims`.
struct Activation {
  std::int64_t n = 0, c = 0, h = 1, w = 1;
  bool half = false;
  std::vector<float> values;
  Dims dims = {};  ///< shape of tokens (c: product of all but the first); otherwise empty

  [[nodiscard]] std::int64_t elements() const { return n * c * h * w; }
};

// Limits the size of all activations that are still to be read to 1 GB. Without a limit, a hostile
// file could make activations grow without end, by padding or doubling them again and again.
constexpr double kMostNumbers = 1 << 28;

/// [outer, rows, columns] -> [outer, columns, rows]. NCHW to NHWC, OIHW to OHWI, and back.
std::vector<float> transposed(std::span<const float> from, std::int64_t rows,
                              std::int64_t columns) {
  std::vector<float> to(from.size());
  const auto r = static_cast<std::size_t>(rows), c = static_cast<std::size_t>(columns);
  for (std::size_t begin = 0; begin < from.size(); begin += r * c) {
    for (std::size_t i = 0; i < r * c; ++i) to[begin + i % c * r + i / c] = from[begin + i];
  }
  return to;
}

/// Returns tokens of this shape and with these values.
Activation tokens_of(const Activation& like, Dims dims, std::vector<float> values) {
  Activation y{.n = dims[0], .half = like.half, .values = std::move(values)};
  y.c = product_of(dims) / y.n;
  y.dims = std::move(dims);
  return y;
}

class Interpreter {
 public:
  Interpreter(Ops& ops, const onnx::GraphProto& graph, const ObserveActivation& observe)
      : ops_(ops), graph_(graph), observe_(observe) {
    for (const onnx::TensorProto& t : graph.initializer()) initializers_[t.name()] = &t;
  }

  std::vector<float> run(std::int64_t batch, std::span<const float> images) {
    const auto& dims = graph_.input(0).type().tensor_type().shape();
    Activation input{.n = batch,
                     .c = dims.dim(1).dim_value(),
                     .h = dims.dim(2).dim_value(),
                     .w = dims.dim(3).dim_value()};
    check(static_cast<std::int64_t>(images.size()) == input.elements(),
          "run_onnx: images do not have the graph's size");
    input.values = transposed(images, input.c, input.h * input.w);
    if (observe_) observe_(graph_.input(0).name(), input.values);
    activations_[graph_.input(0).name()] = std::move(input);
    for (const onnx::NodeProto& node : graph_.node()) {
      for (const std::string& x : node.input()) ++readers_[x];
    }
    for (const onnx::NodeProto& node : graph_.node()) evaluate(node);
    const auto output =
        graph_.output_size() == 1 ? activations_.find(graph_.output(0).name()) : activations_.end();
    expect(output != activations_.end(), "expected one output, computed by a node");
    return std::move(output->second.values);
  }

 private:
  void evaluate(const onnx::NodeProto& node) {
    node_ = &node;
    static const std::map<std::string, void (Interpreter::*)()> kOperators = {
        {"Add", &Interpreter::add},
        {"BatchNormalization", &Interpreter::batch_norm},
        {"Cast", &Interpreter::cast},
        {"Clip", &Interpreter::clip},
        {"Concat", &Interpreter::concat},
        {"Conv", &Interpreter::conv},
        {"DequantizeLinear", &Interpreter::dequantize},
        {"Div", &Interpreter::div},
        {"Flatten", &Interpreter::flatten},
        {"Gemm", &Interpreter::gemm},
        {"GlobalAveragePool", &Interpreter::average_pool},
        {"MatMul", &Interpreter::matmul},
        {"MaxPool", &Interpreter::max_pool},
        {"Mul", &Interpreter::mul},
        {"PRelu", &Interpreter::prelu},
        {"QuantizeLinear", &Interpreter::quantize},
        {"ReduceMean", &Interpreter::reduce_mean},
        {"Relu", &Interpreter::relu},
        {"Reshape", &Interpreter::reshape},
        {"Sigmoid", &Interpreter::logistic},
        {"Slice", &Interpreter::mirror},
        {"Softmax", &Interpreter::softmax},
        {"Split", &Interpreter::split},
        {"Sqrt", &Interpreter::sqrt},
        {"Sub", &Interpreter::sub},
        {"Transpose", &Interpreter::transpose}};
    const auto found = kOperators.find(node.op_type());
    expect(found != kOperators.end(), "operator " + node.op_type() + " is not supported here");
    (this->*found->second)();
    for (const std::string& name : node.output()) {
      const auto y = activations_.find(name);
      if (y == activations_.end()) continue;  // a weight
      round(y->second);
      if (observe_) observe_(name, y->second.values);
    }
    for (const std::string& x : node.input()) {
      if (--readers_.at(x) == 0) activations_.erase(x);
    }
  }

  void expect(bool ok, const std::string& what) const {
    if (ok) return;
    throw InputError("node " + (node_ == nullptr ? "" : one_line(node_->name())) + ": " + what);
  }

  [[nodiscard]] const Activation& x(int i = 0) const {
    const auto found =
        i < node_->input_size() ? activations_.find(node_->input(i)) : activations_.end();
    expect(found != activations_.end(), fmt::format("input {} is not an activation", i));
    return found->second;
  }

  [[nodiscard]] const onnx::TensorProto& parameter(int i) const {
    const auto found =
        i < node_->input_size() ? initializers_.find(node_->input(i)) : initializers_.end();
    expect(found != initializers_.end(), fmt::format("input {} is not a tensor of the file", i));
    return *found->second;
  }

  /// Returns the values of a parameter that has one for each of `channels`.
  [[nodiscard]] std::vector<float> for_channels(int i, std::int64_t channels) const {
    std::vector<float> values = float_values(parameter(i));
    expect(std::ssize(values) == channels,
           fmt::format("input {} has {} values, expected one for each of {} channels", i,
                       values.size(), channels));
    return values;
  }

  void expect_room(double numbers) const {
    for (const auto& [name, each] : activations_) numbers += static_cast<double>(each.elements());
    expect(numbers <= kMostNumbers, "activations would take more than 1 GB");
  }

  /// Creates output i. It has the values of `like`, or if `like` has only a shape, that shape and
  /// zeros.
  Activation& make_y(Activation like, int i = 0) {
    expect(i < node_->output_size(), "too few outputs");
    expect_room(double(like.n) * double(like.c) * double(like.h) * double(like.w));
    like.values.resize(static_cast<std::size_t>(like.elements()));
    return activations_[node_->output(i)] = std::move(like);
  }

  static void round(Activation& y) {
    if (!y.half) return;
    for (float& value : y.values) value = static_cast<float>(static_cast<_Float16>(value));
  }

  /// Computes y = f(x, c) for each number, where c is its channel.
  void each(const std::function<float(float, std::size_t)>& f) {
    Activation& y = make_y(x());
    const auto channels = static_cast<std::size_t>(y.c);
    for (std::size_t i = 0; i < y.values.size(); ++i) y.values[i] = f(y.values[i], i % channels);
  }

  void batch_norm() {
    const std::vector<float> gamma = for_channels(1, x().c), beta = for_channels(2, x().c);
    const std::vector<float> mean = for_channels(3, x().c), var = for_channels(4, x().c);
    const float epsilon = float_attribute(*node_, "epsilon", 1e-5f);
    each([&](float value, std::size_t c) {
      return (value - mean[c]) / std::sqrt(var[c] + epsilon) * gamma[c] + beta[c];
    });
  }

  void prelu() {
    expect(parameter(1).dims_size() == 3, "the slope is not [C, 1, 1]");
    const std::vector<float> slope = for_channels(1, x().c);
    each([&](float value, std::size_t c) { return value < 0 ? value * slope[c] : value; });
  }

  /// Computes y = f(x, b). b may be an activation of the same shape; an activation with a number
  /// for each row of the last axis, or for each channel of an image; or a parameter for the last
  /// axes.
  void binary(const std::function<float(float, float)>& f) {
    Activation y = x();
    const auto other = activations_.find(node_->input(1));
    const bool computed = other != activations_.end();
    const std::vector<float> b = computed ? other->second.values : float_values(parameter(1));
    const std::size_t count = y.values.size();
    // The second argument of f is b[i / outer * inner + i % inner].
    std::size_t outer = 1, inner = 1;
    if (!computed) {
      expect(b.size() == 1 || is_suffix(dims_of(parameter(1)), y.dims),
             "found a parameter that does not fit the last axes");
      outer = count, inner = b.size();
    } else if (b.size() != count) {
      const bool image = y.dims.empty();
      inner = image ? static_cast<std::size_t>(y.c) : 1;
      outer =
          image ? count / static_cast<std::size_t>(y.n) : static_cast<std::size_t>(y.dims.back());
      expect(b.size() * outer == count * inner && other->second.dims.size() == y.dims.size() &&
                 (!image || (other->second.n == y.n && other->second.c == y.c)),
             "found tensors of different shapes");
    }
    for (std::size_t i = 0; i < count; ++i) {
      y.values[i] = f(y.values[i], b[i / outer * inner + i % inner]);
    }
    make_y(std::move(y));
  }

  void sub() { binary(std::minus<>()); }
  void mul() { binary(std::multiplies<>()); }
  void add() { binary(std::plus<>()); }
  void div() { binary(std::divides<>()); }

  void sqrt() {
    each([](float value, std::size_t) { return std::sqrt(value); });
  }

  void clip() {
    const float low = for_channels(1, 1)[0], high = for_channels(2, 1)[0];
    expect(low <= high, "found an empty range");
    each([=](float value, std::size_t) { return std::clamp(value, low, high); });
  }

  void reduce_mean() {
    const Dims& dims = x().dims;
    expect(!dims.empty() && int_attributes(*node_, "axes", {}) == Dims{std::ssize(dims) - 1} &&
               int_attribute(*node_, "keepdims", 1) == 1,
           "expected the mean over the last axis of tokens");
    Dims reduced = dims;
    reduced.back() = 1;
    make_y(tokens_of(x(), reduced, row_means(x().values, dims.back())));
  }

  void softmax() {
    const Dims& dims = x().dims;
    expect(!dims.empty() && int_attribute(*node_, "axis", -1) == std::ssize(dims) - 1,
           "expected a softmax over the last axis of tokens");
    Activation y = x();
    softmax_rows(y.values, dims.back());
    make_y(std::move(y));
  }

  void reshape() {
    const Activation& from = x();
    Dims dims = int64_values(parameter(1));
    const Dims old = from.dims.empty() ? Dims{from.n, from.c, from.h, from.w} : from.dims;
    expect(resolve_shape(dims, old), "found a shape that does not fit the tensor");
    make_y(tokens_of(
        from, std::move(dims),
        from.dims.empty() ? transposed(from.values, from.h * from.w, from.c) : from.values));
  }

  void transpose() {
    const Dims order = int_attributes(*node_, "perm", {});
    expect(is_permutation_of(order, x().dims.size()), "expected a permutation of token axes");
    Dims dims;
    for (const std::int64_t axis : order) dims.push_back(x().dims[static_cast<std::size_t>(axis)]);
    make_y(tokens_of(x(), std::move(dims), permuted(x().values, x().dims, order)));
  }

  /// Multiplies tokens by a parameter [k, n], or the matrices of two activations.
  void matmul() {
    Activation a = x();
    const auto other = activations_.find(node_->input(1));
    const bool computed = other != activations_.end();
    std::vector<float> b = computed ? other->second.values : float_values(parameter(1));
    const Dims right = computed ? other->second.dims : dims_of(parameter(1));
    const bool batched = right.size() == a.dims.size();
    expect(a.dims.size() >= 2 && (right.size() == 2 || batched) && !right.empty() &&
               right[right.size() - 2] == a.dims.back() &&
               (!batched || std::equal(right.begin(), right.end() - 2, a.dims.begin())),
           "found matrices whose sizes do not match");
    const std::int64_t k = a.dims.back(), n = right.back();
    const std::int64_t m = batched ? a.dims[a.dims.size() - 2] : a.elements() / k;
    Dims dims = a.dims;
    dims.back() = n;
    expect_room(static_cast<double>(a.elements()) / double(k) * double(n));
    std::vector<float> c(static_cast<std::size_t>(product_of(dims)));
    for (std::int64_t i = 0; i < a.elements() / (m * k); ++i) {
      const Tensor left(a.values.data() + i * m * k, {m, k}), y(c.data() + i * m * n, {m, n}),
          factor(b.data() + (batched ? i * k * n : 0), {k, n});
      ops_.gemm({.m = m, .n = n, .k = k, .a = left, .b = factor, .c = y});
    }
    make_y(tokens_of(a, std::move(dims), std::move(c)));
  }

  void quantize() {
    const float scale = scale_of_tensor();
    each([scale](float value, std::size_t) {
      return std::clamp(std::nearbyint(value / scale), -128.f, 127.f);
    });
  }

  void dequantize() {
    if (initializers_.contains(node_->input(0))) return dequantize_weight();
    const float scale = scale_of_tensor();
    each([scale](float value, std::size_t) { return value * scale; });
  }

  /// Converts int8 [C, ...] and scales [C] to a float32 initializer.
  void dequantize_weight() {
    const onnx::TensorProto& steps = parameter(0);
    const std::vector<float> scales = float_values(parameter(1));
    std::vector<float> values = int8_values(steps);
    expect(values.size() % scales.size() == 0 && only_zeros(parameter(2)),
           "expected a scale for each output channel, and zero points of 0");
    const std::size_t each = values.size() / scales.size();
    for (std::size_t i = 0; i < values.size(); ++i) values[i] *= scales[i / each];
    onnx::TensorProto& weight = dequantized_[node_->output(0)];
    weight.set_data_type(onnx::TensorProto::FLOAT);
    *weight.mutable_dims() = steps.dims();
    weight.set_raw_data(values.data(), values.size() * sizeof(float));
    initializers_[node_->output(0)] = &weight;
  }

  [[nodiscard]] float scale_of_tensor() const {
    expect(only_zeros(parameter(2)), "found a zero point other than 0");
    return for_channels(1, 1)[0];
  }

  static bool only_zeros(const onnx::TensorProto& zero_point) {
    return std::ranges::all_of(int8_values(zero_point), [](float each) { return each == 0; });
  }

  void cast() { make_y(x()).half = int_attribute(*node_, "to", 0) == onnx::TensorProto::FLOAT16; }

  void conv() {
    const Conv2dShape shape = conv_shape();
    const std::int64_t taps = std::int64_t{shape.kernel} * shape.kernel;
    std::vector<float> w = transposed(float_values(parameter(1)), shape.in_c / shape.groups, taps);
    std::vector<float> images = x().values;
    Activation& y = make_y(shape);
    const Tensor result(y.values.data(), shape.y_shape());
    ops_.conv2d(shape)->forward({images.data(), shape.x_shape()}, {w.data(), shape.w_shape()},
                                result);
    if (node_->input_size() < 3) return;
    std::vector<float> bias = for_channels(2, y.c);
    ops_.add_bias({y.values.data(), {y.n * y.h * y.w, y.c}}, {bias.data(), {y.c}});
  }

  [[nodiscard]] Conv2dShape conv_shape() const {
    const Dims dims = dims_of(parameter(1));
    expect(dims.size() == 4, "expected a weight with four axes");
    Conv2dShape shape = windows({dims[2], dims[3]}, 64);
    const std::int64_t groups = int_attribute(*node_, "group", 1);
    expect(groups > 0 && dims[0] > 0 && dims[0] % groups == 0 && shape.in_c % groups == 0 &&
               shape.in_c / groups == dims[1],
           "found a weight that does not fit the channels");
    shape.out_c = dims[0];
    shape.groups = groups;
    return shape;
  }

  /// Returns the node's windows over the images of x, channel by channel. `most`: limit of their
  /// sides, strides and pads.
  [[nodiscard]] Conv2dShape windows(const Dims& kernel, std::int64_t most) const {
    const Dims pads = int_attributes(*node_, "pads", {0, 0, 0, 0});
    const Dims strides = int_attributes(*node_, "strides", {1, 1});
    const auto equal = [&](const Dims& sides, std::size_t count, std::int64_t least) {
      return sides.size() == count && std::ranges::count(sides, sides[0]) == std::ssize(sides) &&
             sides[0] >= least && sides[0] <= most;
    };
    expect(
        x().dims.empty() && equal(kernel, 2, 1) && equal(pads, 4, 0) && equal(strides, 2, 1) &&
            int_attributes(*node_, "dilations", {1, 1}) == Dims{1, 1},
        fmt::format("expected square windows, equal strides and equal pads, of at most {} pixels",
                    most));
    expect(std::min(x().h, x().w) + 2 * pads[0] >= kernel[0],
           "found an image that is smaller than a window");
    return {.batch = x().n,
            .in_h = x().h,
            .in_w = x().w,
            .in_c = x().c,
            .out_c = x().c,
            .kernel = static_cast<int>(kernel[0]),
            .stride = static_cast<int>(strides[0]),
            .pad = static_cast<int>(pads[0]),
            .groups = x().c};
  }

  Activation& make_y(const Conv2dShape& shape) {
    return make_y({.n = shape.batch,
                   .c = shape.out_c,
                   .h = shape.out_h(),
                   .w = shape.out_w(),
                   .half = x().half});
  }

  void max_pool() {
    const Conv2dShape shape = windows(int_attributes(*node_, "kernel_shape", {}), 16);
    expect(shape.pad < shape.kernel && int_attribute(*node_, "ceil_mode", 0) == 0,
           "expected windows that contain pixels, and no ceil_mode");
    std::vector<float> images = x().values;
    Activation& y = make_y(shape);
    ops_.max_pool(shape, {images.data(), shape.x_shape()}, {y.values.data(), shape.y_shape()}, {});
  }

  void average_pool() {
    expect(x().dims.empty(), "expected the pixels of images");
    Activation from = x();
    Activation& y = make_y({.n = from.n, .c = from.c, .half = from.half});
    ops_.average_pool({from.values.data(), {from.n, from.h, from.w, from.c}},
                      {y.values.data(), {y.n, y.c}});
  }

  void logistic() {
    each([](float value, std::size_t) { return sigmoid(value); });
  }

  void relu() {
    each([](float value, std::size_t) { return std::max(value, 0.f); });
  }

  /// Reshapes [N, C, H, W] to [N, C * H * W], or tokens [N, T, C] to [N, T * C].
  void flatten() {
    expect(int_attribute(*node_, "axis", 1) == 1, "expected to flatten from axis 1");
    Activation y{.n = x().n, .c = x().c * x().h * x().w, .half = x().half};
    y.values = x().dims.empty() ? transposed(x().values, x().h * x().w, x().c) : x().values;
    make_y(std::move(y));
  }

  void gemm() {
    expect(int_attribute(*node_, "transB", 0) == 1 && float_attribute(*node_, "alpha", 1) == 1,
           "found a product other than x * transposed weight");
    const auto& dims = parameter(1).dims();
    expect(dims.size() == 2 && dims[1] == x().c && x().h * x().w == 1,
           "found a weight that does not fit the features");
    std::vector<float> weight = float_values(parameter(1)), rows = x().values;
    const std::int64_t out = dims[0], in = x().c;
    Activation& y = make_y({.n = x().n, .c = out, .half = x().half});
    const Tensor a(rows.data(), {y.n, in}), b(weight.data(), {out, in});
    const Tensor result(y.values.data(), {y.n, out});
    ops_.gemm({.m = y.n, .n = out, .k = in, .transpose_b = true, .a = a, .b = b, .c = result});
    if (node_->input_size() < 3) return;
    std::vector<float> bias = for_channels(2, out);
    ops_.add_bias(result, {bias.data(), {out}});
  }

  /// Evaluates a slice that reverses the last axis.
  void mirror() {
    const Activation from = x();
    Activation& y = make_y(from);
    const auto row = static_cast<std::size_t>(from.w * from.c),
               c = static_cast<std::size_t>(from.c);
    for (std::size_t i = 0; i < y.values.size(); ++i) {
      y.values[i] = from.values[i / row * row + (row - c - i % row / c * c) + i % c];
    }
  }

  void concat() {
    expect(int_attribute(*node_, "axis", 1) == 0 && node_->input_size() == 2 && x().c == x(1).c &&
               x().h == x(1).h && x().w == x(1).w,
           "expected two batches of the same shape, concatenated by image");
    Activation y = x();
    expect_room(2 * static_cast<double>(y.elements() + x(1).elements()));
    y.n += x(1).n;
    y.values.insert(y.values.end(), x(1).values.begin(), x(1).values.end());
    make_y(std::move(y));
  }

  /// Splits the input into two halves, or tokens into equal parts of their last axis.
  void split() {
    if (!x().dims.empty()) return split_tokens();
    expect(int_attribute(*node_, "axis", 0) == 0 && node_->output_size() == 2 && x().n % 2 == 0,
           "expected a split into two halves of the images");
    const auto middle = x().values.begin() + x().elements() / 2;
    Activation first{.n = x().n / 2, .c = x().c, .h = x().h, .w = x().w, .half = x().half};
    Activation second = first;
    first.values.assign(x().values.begin(), middle);
    second.values.assign(middle, x().values.end());
    make_y(std::move(first));
    make_y(std::move(second), 1);
  }

  void split_tokens() {
    const Activation from = x();
    Dims dims = from.dims;
    const std::int64_t parts = node_->output_size(), row = dims.back();
    expect(int_attribute(*node_, "axis", 0) == std::ssize(dims) - 1 && parts > 0 &&
               row % parts == 0 && node_->input_size() == 1,
           "expected a split into equal parts of the last axis of tokens");
    dims.back() = row / parts;
    for (std::int64_t part = 0; part < parts; ++part) {
      std::vector<float> values;
      for (std::int64_t begin = part * dims.back(); begin < from.elements(); begin += row) {
        const auto first = from.values.begin() + begin;
        values.insert(values.end(), first, first + dims.back());
      }
      make_y(tokens_of(from, dims, std::move(values)), static_cast<int>(part));
    }
  }

  Ops& ops_;
  const onnx::GraphProto& graph_;
  const ObserveActivation& observe_;
  const onnx::NodeProto* node_ = nullptr;
  std::map<std::string, const onnx::TensorProto*> initializers_;
  std::map<std::string, onnx::TensorProto> dequantized_;  // weights
  std::map<std::string, Activation> activations_;
  std::map<std::string, int> readers_;  // number of nodes that have yet to read an activation
};

}  // namespace

std::vector<float> run_onnx(Ops& ops, const onnx::ModelProto& model, std::int64_t batch,
                            std::span<const float> images, const ObserveActivation& observe) {
  return Interpreter(ops, model.graph(), observe).run(batch, images);
}

}  // namespace pfc
