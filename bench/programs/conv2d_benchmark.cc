// Measures every convolution of r18, r50 and mbf at batch size 32, in fp32 and, if the CPU
// supports it, in bf16. Reports GFLOP/s and the time in a training step.

#include <benchmark/benchmark.h>

#include <array>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "kernels/cpu/margin/tile_products.h"
#include "kernels/make_ops.h"
#include "kernels/owned_tensor.h"

namespace pfc {
namespace {

constexpr std::int64_t kBatch = 32;

// A convolution, and how many times a network contains it.
struct Layer {
  const char* network;
  Conv2dShape shape;
  int count;
};

Conv2dShape conv(std::int64_t size, std::int64_t in_c, std::int64_t out_c, int kernel, int stride,
                 std::int64_t groups = 1) {
  return {.batch = kBatch,
          .in_h = size,
          .in_w = size,
          .in_c = in_c,
          .out_c = out_c,
          .kernel = kernel,
          .stride = stride,
          .pad = kernel == 7 ? 0 : kernel / 2,
          .groups = groups};
}

// Returns the convolutions of an iresnet (model/networks/architectures/iresnet.cc): a stem, then
// four stages, each of which halves the image in its first block.
std::vector<Layer> iresnet(const char* name, const std::array<int, 4>& blocks) {
  std::vector<Layer> layers{{name, conv(112, 3, 64, 3, 1), 1}};
  std::int64_t size = 112, in = 64, out = 64;
  for (const int count : blocks) {
    layers.push_back({name, conv(size, in, out, 3, 1), 1});
    layers.push_back({name, conv(size, out, out, 3, 2), 1});
    layers.push_back({name, conv(size, in, out, 1, 2), 1});
    size /= 2;
    layers.push_back({name, conv(size, out, out, 3, 1), 2 * (count - 1)});
    in = out;
    out *= 2;
  }
  return layers;
}

std::vector<Layer> mobilefacenet() {
  return {{"mbf", conv(112, 3, 128, 3, 2), 1},      {"mbf", conv(56, 128, 128, 3, 1, 64), 1},
          {"mbf", conv(56, 128, 128, 1, 1), 1},     {"mbf", conv(56, 128, 128, 3, 2, 128), 1},
          {"mbf", conv(28, 128, 128, 1, 1), 9},     {"mbf", conv(28, 128, 128, 3, 1, 128), 4},
          {"mbf", conv(28, 128, 256, 1, 1), 1},     {"mbf", conv(28, 256, 256, 3, 2, 256), 1},
          {"mbf", conv(14, 256, 256, 1, 1), 13},    {"mbf", conv(14, 256, 256, 3, 1, 256), 6},
          {"mbf", conv(14, 256, 512, 1, 1), 1},     {"mbf", conv(14, 512, 512, 3, 2, 512), 1},
          {"mbf", conv(7, 512, 256, 1, 1), 1},      {"mbf", conv(7, 256, 256, 1, 1), 4},
          {"mbf", conv(7, 256, 256, 3, 1, 256), 2}, {"mbf", conv(7, 256, 512, 1, 1), 1},
          {"mbf", conv(7, 512, 512, 7, 1, 512), 1}};
}

enum class Pass { kForward, kBackwardData, kBackwardWeights };
constexpr const char* kPassNames[] = {"forward", "backward_data", "backward_weights"};

struct Operands {
  Operands(Ops& ops, const Conv2dShape& s)
      : x(ops, s.x_shape(), ops.activation_type()),
        w(ops, s.w_shape(), ops.activation_type()),
        y(ops, s.y_shape(), ops.activation_type()),
        dw(ops, s.w_shape()) {
    for (const OwnedTensor* t : {&x, &w, &y}) {
      const OwnedTensor ones(ops, t->operator*().shape);
      ops.fill(ones, 0.125f);
      ops.convert(ones, *t);
    }
  }
  const OwnedTensor x, w, y, dw;
};

void run(benchmark::State& state, const Layer& layer, Pass pass, Precision precision) {
  const std::unique_ptr<Ops> ops = make_ops({.choice = DeviceChoice::kCpu, .precision = precision});
  const std::unique_ptr<Conv2d> plan = ops->conv2d(layer.shape);
  const Operands t(*ops, layer.shape);
  for (auto _ : state) {
    switch (pass) {
      case Pass::kForward:
        plan->forward(t.x, t.w, t.y);
        break;
      case Pass::kBackwardData:
        plan->backward_data(t.y, t.w, t.x);
        break;
      case Pass::kBackwardWeights:
        plan->backward_weights(t.x, t.y, t.dw, false);
        break;
    }
  }
  const Conv2dShape& s = layer.shape;
  const double flops =
      2.0 * static_cast<double>(s.y_shape().elements() * s.kernel * s.kernel * (s.in_c / s.groups));
  const auto moved = static_cast<double>(t.x->bytes() + t.y->bytes());
  using benchmark::Counter;
  state.counters["GFLOPs"] = Counter(flops * 1e-9, Counter::kIsIterationInvariantRate);
  state.counters["GB/s"] = Counter(moved * 1e-9, Counter::kIsIterationInvariantRate);
  state.counters["count"] = layer.count;
}

std::string name_of(const Layer& layer, Pass pass) {
  const Conv2dShape& s = layer.shape;
  return std::string(layer.network) + "/" + std::to_string(s.in_h) + "x" + std::to_string(s.in_c) +
         "->" + std::to_string(s.out_c) + "/k" + std::to_string(s.kernel) + "s" +
         std::to_string(s.stride) + "g" + std::to_string(s.groups) + "/" +
         kPassNames[static_cast<int>(pass)];
}

const bool kRegistered = [] {
  std::vector<Layer> layers = iresnet("r18", {2, 2, 2, 2});
  for (const Layer& layer : iresnet("r50", {3, 4, 14, 3})) layers.push_back(layer);
  for (const Layer& layer : mobilefacenet()) layers.push_back(layer);
  std::vector<Precision> precisions{Precision::kFp32};
  if (cpu_has_bfloat16()) precisions.push_back(Precision::kBf16);
  for (const Layer& layer : layers) {
    for (const Pass pass : {Pass::kForward, Pass::kBackwardData, Pass::kBackwardWeights}) {
      // Training does not compute the gradient of the images.
      if (layer.shape.in_c == 3 && pass == Pass::kBackwardData) continue;
      for (const Precision precision : precisions) {
        benchmark::RegisterBenchmark(
            (name_of(layer, pass) + "/" + name_of(activation_type(precision))).c_str(),
            [=](benchmark::State& state) { run(state, layer, pass, precision); })
            ->Unit(benchmark::kMillisecond)
            ->UseRealTime();
      }
    }
  }
  return true;
}();

}  // namespace
}  // namespace pfc
