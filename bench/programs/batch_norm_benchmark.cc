// Measures batch norm on the activations of r18 at batch size 32. Reports bytes read and written
// per second, for comparison with the memory bandwidth.

#include <benchmark/benchmark.h>

#include <vector>

#include "kernels/make_ops.h"
#include "kernels/owned_tensor.h"

namespace pfc {
namespace {

// The tensors [rows, channels] and the parameters [channels] of one batch norm.
class Fixture {
 public:
  Fixture(std::int64_t rows, std::int64_t channels)
      : ops_(make_ops({.choice = DeviceChoice::kCpu})),
        bn(ops_->batch_norm({.rows = rows, .channels = channels})),
        x(tensor({rows, channels})),
        y(tensor({rows, channels})),
        dy(tensor({rows, channels})),
        dx(tensor({rows, channels})),
        bytes(static_cast<double>(x.bytes())) {
    for (Tensor* t : {&mean, &variance, &gamma, &beta, &slope, &sum1, &sum2, &sum3}) {
      *t = tensor({channels});
    }
  }

 private:
  Tensor tensor(const Shape& shape) {
    tensors_.emplace_back(*ops_, shape);
    ops_->fill(tensors_.back(), 0.5f);
    return *tensors_.back();
  }
  std::unique_ptr<Ops> ops_;
  std::vector<OwnedTensor> tensors_;

 public:
  std::unique_ptr<BatchNorm> bn;
  Tensor x, y, dy, dx;
  Tensor mean, variance, gamma, beta, slope, sum1, sum2, sum3;
  double bytes;
};

// tensors: number of [rows, channels] tensors that a pass reads or writes.
void report(benchmark::State& state, const Fixture& f, int tensors) {
  using benchmark::Counter;
  state.counters["GB/s"] = Counter(tensors * f.bytes * 1e-9, Counter::kIsIterationInvariantRate);
}

void shapes(benchmark::internal::Benchmark* b) {
  for (const std::int64_t size : {112, 56, 28, 14, 7}) {
    const std::int64_t channels = size == 112 ? 64 : 64 * 56 / size;
    b->Args({32 * size * size, channels});
  }
  b->Unit(benchmark::kMillisecond)->UseRealTime();
}

void statistics(benchmark::State& state) {
  const Fixture f(state.range(0), state.range(1));
  for (auto _ : state) f.bn->statistics(f.x, f.mean, f.variance);
  report(state, f, 1);
}
BENCHMARK(statistics)->Apply(shapes);

BatchNorm::Forward forward_of(const Fixture& f) {
  return {.x = f.x,
          .mean = f.mean,
          .variance = f.variance,
          .gamma = f.gamma,
          .beta = f.beta,
          .slope = {},
          .residual = {},
          .y = f.y,
          .y_mean = {},
          .y_variance = {}};
}

void forward_prelu(benchmark::State& state) {
  const Fixture f(state.range(0), state.range(1));
  BatchNorm::Forward pass = forward_of(f);
  pass.slope = f.slope;
  for (auto _ : state) f.bn->forward(pass);
  report(state, f, 2);
}
BENCHMARK(forward_prelu)->Apply(shapes);

void forward_residual_and_statistics(benchmark::State& state) {
  const Fixture f(state.range(0), state.range(1));
  BatchNorm::Forward pass = forward_of(f);
  pass.residual = f.dy;
  pass.y_mean = f.sum1;
  pass.y_variance = f.sum2;
  for (auto _ : state) f.bn->forward(pass);
  report(state, f, 3);
}
BENCHMARK(forward_residual_and_statistics)->Apply(shapes);

BatchNorm::Backward backward_of(const Fixture& f) {
  return {.dy = f.dy,
          .x = f.x,
          .mean = f.mean,
          .variance = f.variance,
          .gamma = f.gamma,
          .beta = f.beta,
          .slope = f.slope,
          .sum_dz = f.sum1,
          .sum_dz_xhat = f.sum2,
          .dslope = f.sum3,
          .total_rows = f.x.shape[0],
          .add = {},
          .dx = f.dx};
}

void backward_reduce(benchmark::State& state) {
  const Fixture f(state.range(0), state.range(1));
  for (auto _ : state) f.bn->backward_reduce(backward_of(f));
  report(state, f, 2);
}
BENCHMARK(backward_reduce)->Apply(shapes);

void backward_apply(benchmark::State& state) {
  const Fixture f(state.range(0), state.range(1));
  for (auto _ : state) f.bn->backward_apply(backward_of(f));
  report(state, f, 3);
}
BENCHMARK(backward_apply)->Apply(shapes);

// Measures the memory bandwidth: reads two tensors and writes one.
void add(benchmark::State& state) {
  const Fixture f(state.range(0), state.range(1));
  const std::unique_ptr<Ops> ops = make_ops({.choice = DeviceChoice::kCpu});
  for (auto _ : state) ops->add(f.x, f.dy, f.y);
  report(state, f, 3);
}
BENCHMARK(add)->Apply(shapes);

}  // namespace
}  // namespace pfc
