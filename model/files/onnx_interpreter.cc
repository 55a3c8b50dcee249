#include "model/files/onnx_interpreter.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "common/error.h"
#include "model/files/onnx_file.h"

namespace pfc {
namespace {

/// An activation. Its memory is channels-last, as Ops computes: [N, H, W, C], or [N, C].
struct Activation {
  std::int64_t n = 0, c = 0, h = 1, w = 1;
  bool half = false;
  std::vector<float> values;

  [[nodiscard]] std::int64_t elements() const { return n * c * h * w; }
};

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

class Interpreter {
 public:
  Interpreter(Ops& ops, const onnx::GraphProto& graph) : ops_(ops), graph_(graph) {
    for (const onnx::TensorProto& t : graph.initializer()) initializers_[t.name()] = &t;
  }

  std::vector<float> run(std::int64_t batch, std::span<const float> images) {
    const auto& dims = graph_.input(0).type().tensor_type().shape();
    Activation input{.n = batch,
                     .c = dims.dim(1).dim_value(),
                     .h = dims.dim(2).dim_value(),
                     .w = dims.dim(3).dim_value()};
    check(static_cast<std::int64_t>(images.size()) == input.elements(),
          "run_onnx: images of another size than the graph's");
    input.values = transposed(images, input.c, input.h * input.w);
    activations_[graph_.input(0).name()] = std::move(input);
    for (const onnx::NodeProto& node : graph_.node()) {
      for (const std::string& x : node.input()) ++readers_[x];
    }
    for (const onnx::NodeProto& node : graph_.node()) evaluate(node);
    return activations_.at(graph_.output(0).name()).values;
  }

 private:
  void evaluate(const onnx::NodeProto& node) {
    node_ = &node;
    static const std::map<std::string, void (Interpreter::*)()> kOperators = {
        {"Add", &Interpreter::add},      {"BatchNormalization", &Interpreter::batch_norm},
        {"Cast", &Interpreter::cast},    {"Concat", &Interpreter::concat},
        {"Conv", &Interpreter::conv},    {"Flatten", &Interpreter::flatten},
        {"Gemm", &Interpreter::gemm},    {"MaxPool", &Interpreter::subsample},
        {"Mul", &Interpreter::mul},      {"PRelu", &Interpreter::prelu},
        {"Slice", &Interpreter::mirror}, {"Split", &Interpreter::split},
        {"Sub", &Interpreter::sub}};
    const auto found = kOperators.find(node.op_type());
    expect(found != kOperators.end(), "operator " + node.op_type() + " is not known here");
    (this->*found->second)();
    for (const std::string& y : node.output()) round(activations_.at(y));
    for (const std::string& x : node.input()) {
      if (--readers_.at(x) == 0) activations_.erase(x);
    }
  }

  void expect(bool ok, const std::string& what) const {
    if (!ok) throw InputError("node " + node_->name() + ": " + what);
  }

  [[nodiscard]] const Activation& x(int i = 0) const { return activations_.at(node_->input(i)); }

  [[nodiscard]] const onnx::TensorProto& parameter(int i) const {
    return *initializers_.at(node_->input(i));
  }

  Activation& make_y(Activation like, int i = 0) {
    return activations_[node_->output(i)] = std::move(like);
  }

  static void round(Activation& y) {
    if (!y.half) return;
    for (float& value : y.values) value = static_cast<float>(static_cast<_Float16>(value));
  }

  /// y = f(x, c) for each number, where c is its channel.
  void each(const std::function<float(float, std::size_t)>& f) {
    Activation& y = make_y(x());
    const auto channels = static_cast<std::size_t>(y.c);
    for (std::size_t i = 0; i < y.values.size(); ++i) y.values[i] = f(y.values[i], i % channels);
  }

  void batch_norm() {
    const std::vector<float> gamma = float_values(parameter(1)), beta = float_values(parameter(2));
    const std::vector<float> mean = float_values(parameter(3)), var = float_values(parameter(4));
    const float epsilon = float_attribute(*node_, "epsilon", 1e-5f);
    each([&](float value, std::size_t c) {
      return (value - mean[c]) / std::sqrt(var[c] + epsilon) * gamma[c] + beta[c];
    });
  }

  void prelu() {
    expect(parameter(1).dims_size() == 3, "the slope is not [C, 1, 1]");
    const std::vector<float> slope = float_values(parameter(1));
    each([&](float value, std::size_t c) { return value < 0 ? value * slope[c] : value; });
  }

  void sub() {
    const float by = float_values(parameter(1)).at(0);
    each([by](float value, std::size_t) { return value - by; });
  }

  void mul() {
    const float by = float_values(parameter(1)).at(0);
    each([by](float value, std::size_t) { return value * by; });
  }

  void add() {
    const Activation& other = x(1);
    expect(other.values.size() == x().values.size(), "the sum of tensors of different shapes");
    Activation& y = make_y(x());
    std::ranges::transform(y.values, other.values, y.values.begin(), std::plus<>());
  }

  void cast() { make_y(x()).half = int_attribute(*node_, "to", 0) == onnx::TensorProto::FLOAT16; }

  void conv() {
    const onnx::TensorProto& weight = parameter(1);
    const std::int64_t out = weight.dims(0), kernel = weight.dims(2);
    const std::vector<std::int64_t> pads = int_attributes(*node_, "pads", {0, 0, 0, 0});
    const std::vector<std::int64_t> strides = int_attributes(*node_, "strides", {1, 1});
    expect(weight.dims(3) == kernel && std::ranges::count(pads, pads[0]) == 4 &&
               strides[0] == strides[1] &&
               int_attributes(*node_, "dilations", {1, 1}) == std::vector<std::int64_t>{1, 1},
           "a convolution that is not square");
    const Conv2dShape shape{.batch = x().n,
                            .in_h = x().h,
                            .in_w = x().w,
                            .in_c = x().c,
                            .out_c = out,
                            .kernel = static_cast<int>(kernel),
                            .stride = static_cast<int>(strides[0]),
                            .pad = static_cast<int>(pads[0]),
                            .groups = int_attribute(*node_, "group", 1)};
    std::vector<float> w = transposed(float_values(weight), weight.dims(1), kernel * kernel);
    std::vector<float> images = x().values;
    Activation& y =
        make_y({.n = x().n, .c = out, .h = shape.out_h(), .w = shape.out_w(), .half = x().half});
    y.values.resize(static_cast<std::size_t>(y.elements()));
    const Tensor result(y.values.data(), shape.y_shape());
    ops_.conv2d(shape)->forward({images.data(), shape.x_shape()}, {w.data(), shape.w_shape()},
                                result);
    if (node_->input_size() < 3) return;
    std::vector<float> bias = float_values(parameter(2));
    ops_.add_bias({y.values.data(), {y.n * y.h * y.w, y.c}}, {bias.data(), {out}});
  }

  /// A pooling of single pixels.
  void subsample() {
    const std::int64_t stride = int_attributes(*node_, "strides", {1, 1}).at(0);
    expect(
        int_attributes(*node_, "kernel_shape", {}) == std::vector<std::int64_t>{1, 1} && stride > 0,
        "a pooling of more than one pixel");
    const Activation& from = x();
    Activation y = from;
    y.h = (from.h - 1) / stride + 1, y.w = (from.w - 1) / stride + 1;
    y.values.resize(static_cast<std::size_t>(y.elements()));
    auto out = y.values.begin();
    for (std::int64_t row = 0; row < y.n * y.h; ++row) {
      const std::int64_t from_row = row / y.h * from.h + row % y.h * stride;
      for (std::int64_t column = 0; column < y.w; ++column) {
        const auto pixel = (from_row * from.w + column * stride) * from.c;
        out = std::copy_n(from.values.begin() + pixel, from.c, out);
      }
    }
    make_y(std::move(y));
  }

  /// [N, C, H, W] -> [N, C * H * W].
  void flatten() {
    expect(int_attribute(*node_, "axis", 1) == 1, "not flattened from axis 1 on");
    Activation y{.n = x().n, .c = x().c * x().h * x().w, .half = x().half};
    y.values = transposed(x().values, x().h * x().w, x().c);
    make_y(std::move(y));
  }

  void gemm() {
    expect(int_attribute(*node_, "transB", 0) == 1 && float_attribute(*node_, "alpha", 1) == 1,
           "a product other than x * transposed weight");
    std::vector<float> weight = float_values(parameter(1)), rows = x().values;
    const std::int64_t out = parameter(1).dims(0);
    Activation& y = make_y({.n = x().n, .c = out, .half = x().half});
    y.values.resize(static_cast<std::size_t>(y.elements()));
    const Tensor a(rows.data(), {y.n, x().c}), b(weight.data(), {out, x().c});
    const Tensor result(y.values.data(), {y.n, out});
    ops_.gemm({.m = y.n, .n = out, .k = x().c, .transpose_b = true, .a = a, .b = b, .c = result});
    if (node_->input_size() < 3) return;
    std::vector<float> bias = float_values(parameter(2));
    ops_.add_bias(result, {bias.data(), {out}});
  }

  /// A slice that turns the last axis around.
  void mirror() {
    const Activation& from = x();
    Activation& y = make_y(from);
    const auto row = static_cast<std::size_t>(from.w * from.c),
               c = static_cast<std::size_t>(from.c);
    for (std::size_t i = 0; i < y.values.size(); ++i) {
      y.values[i] = from.values[i / row * row + (row - c - i % row / c * c) + i % c];
    }
  }

  void concat() {
    expect(int_attribute(*node_, "axis", 1) == 0, "not concatenated image by image");
    Activation& y = make_y(x());
    y.n += x(1).n;
    y.values.insert(y.values.end(), x(1).values.begin(), x(1).values.end());
  }

  /// Into two halves.
  void split() {
    expect(int_attribute(*node_, "axis", 0) == 0 && node_->output_size() == 2 && x().n % 2 == 0,
           "not split into two halves of the images");
    const auto middle = x().values.begin() + x().elements() / 2;
    Activation first{.n = x().n / 2, .c = x().c, .h = x().h, .w = x().w, .half = x().half};
    Activation second = first;
    first.values.assign(x().values.begin(), middle);
    second.values.assign(middle, x().values.end());
    make_y(std::move(first));
    make_y(std::move(second), 1);
  }

  Ops& ops_;
  const onnx::GraphProto& graph_;
  const onnx::NodeProto* node_ = nullptr;
  std::map<std::string, const onnx::TensorProto*> initializers_;
  std::map<std::string, Activation> activations_;
  std::map<std::string, int> readers_;  // nodes that have still to read an activation
};

}  // namespace

std::vector<float> run_onnx(Ops& ops, const onnx::ModelProto& model, std::int64_t batch,
                            std::span<const float> images) {
  return Interpreter(ops, model.graph()).run(batch, images);
}

}  // namespace pfc
