// Times single ops, at the sizes that occur in the networks.

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <functional>

#include "common/clock.h"
#include "kernels/owned_tensor.h"
#include "worker/cost/measure_machine.h"
#include "worker/cost/recording_ops.h"

namespace pfc {
namespace {

constexpr int kFewestRepetitions = 5, kMostRepetitions = 15;
constexpr double kLongEnough = 0.04;  // total seconds of all repetitions

/// Returns the median of several calls. `before` runs before each call and is not timed.
double median_call_seconds(Ops& ops, const std::function<void()>& before,
                           const std::function<void()>& call) {
  call();
  ops.synchronize();
  std::vector<double> seconds;
  double all = 0;
  while (std::ssize(seconds) < kFewestRepetitions ||
         (std::ssize(seconds) < kMostRepetitions && all < kLongEnough)) {
    before();
    const TimePoint start = Clock::now();
    call();
    ops.synchronize();
    seconds.push_back(seconds_since(start));
    all += seconds.back();
  }
  const auto middle = seconds.begin() + std::ssize(seconds) / 2;
  std::ranges::nth_element(seconds, middle);
  return *middle;
}

struct Size {
  std::int64_t pixels, in, out;  // height and width; channels
  int kernel, stride;
};

// From layers of iresnet and MobileFaceNet, narrow and wide.
constexpr std::array<Size, 20> kDense{{
    {112, 3, 64, 3, 1},   {112, 64, 64, 3, 1},  {112, 64, 64, 3, 2},  {56, 64, 64, 3, 1},
    {56, 64, 128, 3, 1},  {56, 128, 128, 3, 2}, {28, 128, 128, 3, 1}, {28, 256, 256, 3, 2},
    {14, 256, 256, 3, 1}, {14, 512, 512, 3, 2}, {7, 512, 512, 3, 1},  {112, 64, 64, 1, 2},
    {56, 64, 128, 1, 2},  {28, 128, 256, 1, 2}, {56, 64, 128, 1, 1},  {28, 128, 128, 1, 1},
    {28, 256, 128, 1, 1}, {14, 128, 256, 1, 1}, {14, 512, 256, 1, 1}, {7, 256, 512, 1, 1},
}};
constexpr std::array<Size, 7> kDepthwise{{
    {56, 64, 64, 3, 1},
    {56, 128, 128, 3, 2},
    {28, 128, 128, 3, 1},
    {28, 256, 256, 3, 2},
    {14, 256, 256, 3, 1},
    {7, 256, 256, 3, 1},
    {7, 512, 512, 7, 1},
}};
struct Rows {
  std::int64_t pixels, channels;
};
constexpr std::array<Rows, 6> kNorms{
    {{112, 64}, {56, 64}, {56, 128}, {28, 128}, {14, 256}, {7, 512}}};
constexpr std::int64_t kElsewhere = 16
                                    << 20;  // floats: 64 MiB, larger than the caches of two cores
constexpr std::array<std::int64_t, 4> kFlat{1 << 10, 1 << 22, 3 << 22, 1 << 24};

/// Measures with `ops`, and counts the same calls with a RecordingOps.
class Bench {
 public:
  explicit Bench(Ops& ops)
      : ops_(ops),
        batch_(ops.on_host() ? 8 : 64),
        wide_(ops.on_host() ? 24 : 128),
        counted_(ops.activation_type()),
        elsewhere_(filled({ops.on_host() ? kElsewhere : 1}, DType::kFloat32)) {}

  void convolution(const Size& s, bool depthwise);
  void norm(const Rows& rows);
  void product();
  void flat(std::int64_t elements);

  std::vector<MeasuredOp> take() { return std::move(measured_); }

 private:
  /// Runs `timed` on the real Ops and `counted` on the recording one. `near`: the tensor that the
  /// previous op of a network has just written. The other tensors were written long before, and
  /// have left the caches.
  void add(const std::string& shape, const Tensor& near, const std::function<void()>& timed,
           const std::function<void()>& counted) {
    counted();
    const OpWorks works = counted_.take();
    measured_.push_back({.shape = shape,
                         .work = works.front(),
                         .seconds = median_call_seconds(
                             ops_, [&] { leave_in_caches(near); }, timed)});
  }
  /// On a CPU, leaves `near` in the caches and nothing else that an op reads. On a GPU it does
  /// nothing, because the caches are small compared with these tensors.
  void leave_in_caches(const Tensor& near);
  OwnedTensor tensor(const Shape& shape, DType type) { return {ops_, shape, type}; }
  OwnedTensor filled(const Shape& shape, DType type);

  Ops& ops_;
  const std::int64_t batch_;  // for convolutions
  const std::int64_t wide_;   // for short ops, which depend on the cache
  RecordingOps counted_;
  OwnedTensor elsewhere_;
  std::vector<MeasuredOp> measured_;
};

void Bench::leave_in_caches(const Tensor& near) {
  if (!ops_.on_host()) return;
  ops_.sum_of_squares(elsewhere_);
  // Read any type as floats, because only reading matters. Uses all threads, which wakes them.
  const auto words = static_cast<std::int64_t>(near.bytes() / sizeof(float));
  ops_.sum_of_squares(Tensor(near.data, DType::kFloat32, {words}));
}

/// Returns a tensor of ones. Zeros and denormal numbers would make a kernel faster or slower.
OwnedTensor Bench::filled(const Shape& shape, DType type) {
  OwnedTensor t = tensor(shape, type);
  if (type == DType::kFloat32) {
    ops_.fill(t, 1);
  } else {
    const OwnedTensor ones = filled(shape, DType::kFloat32);
    ops_.convert(ones, t);
  }
  return t;
}

void Bench::convolution(const Size& s, bool depthwise) {
  const Conv2dShape shape{.batch = depthwise ? wide_ : batch_,
                          .in_h = s.pixels,
                          .in_w = s.pixels,
                          .in_c = s.in,
                          .out_c = s.out,
                          .kernel = s.kernel,
                          .stride = s.stride,
                          .pad = s.kernel == 3 ? 1 : 0,
                          .groups = depthwise ? s.in : 1};
  const DType type = ops_.activation_type();
  const OwnedTensor x = filled(shape.x_shape(), type), w = filled(shape.w_shape(), type);
  const OwnedTensor y = filled(shape.y_shape(), type);
  const OwnedTensor dw = tensor(shape.w_shape(), DType::kFloat32);
  const auto timed = ops_.conv2d(shape), counted = counted_.conv2d(shape);
  const std::string name = fmt::format("{}x{} {}->{} {}x{}/{}", s.pixels, s.pixels, s.in, s.out,
                                       s.kernel, s.kernel, s.stride);
  add(
      name, x, [&] { timed->forward(x, w, y); }, [&] { counted->forward(x, w, y); });
  add(
      name, y, [&] { timed->backward_weights(x, y, dw, false); },
      [&] { counted->backward_weights(x, y, dw, false); });
  if (s.in == 3) return;  // images need no gradient
  add(
      name, y, [&] { timed->backward_data(y, w, x); }, [&] { counted->backward_data(y, w, x); });
}

void Bench::norm(const Rows& r) {
  const BatchNormShape shape{.rows = wide_ * r.pixels * r.pixels, .channels = r.channels};
  const Shape all{shape.rows, shape.channels}, row{shape.channels};
  const DType type = ops_.activation_type();
  const OwnedTensor x = filled(all, type), y = tensor(all, type), dy = filled(all, type);
  const OwnedTensor mean = tensor(row, DType::kFloat32), one = filled(row, DType::kFloat32);
  const OwnedTensor sum = tensor(row, DType::kFloat32), sums = tensor(row, DType::kFloat32);
  const OwnedTensor slope = filled(row, DType::kFloat32), dslope = tensor(row, DType::kFloat32);
  const OwnedTensor y_mean = tensor(row, DType::kFloat32);
  const OwnedTensor y_variance = tensor(row, DType::kFloat32);
  const auto timed = ops_.batch_norm(shape), counted = counted_.batch_norm(shape);
  const std::string name = fmt::format("{}x{} {}", r.pixels, r.pixels, r.channels);
  const auto both = [&](const Tensor& near, const auto& call) {
    add(
        name, near, [&] { call(*timed); }, [&] { call(*counted); });
  };
  both(x, [&](BatchNorm& norm) { norm.statistics(x, y_mean, y_variance); });
  BatchNorm::Forward f{.x = x, .mean = mean, .variance = one, .gamma = one, .beta = one, .y = y};
  f.y_mean = y_mean;
  f.y_variance = y_variance;
  f.residual = dy;
  both(x, [&](BatchNorm& norm) { norm.forward(f); });
  f.residual = {};
  f.slope = slope;
  f.y_mean = f.y_variance = {};
  both(x, [&](BatchNorm& norm) { norm.forward(f); });
  BatchNorm::Backward b{.dy = dy,
                        .x = x,
                        .mean = mean,
                        .variance = one,
                        .gamma = one,
                        .beta = one,
                        .slope = slope,
                        .sum_dz = sum,
                        .sum_dz_xhat = sums,
                        .dslope = dslope,
                        .total_rows = shape.rows,
                        .dx = y};
  both(dy, [&](BatchNorm& norm) { norm.backward_reduce(b); });
  both(dy, [&](BatchNorm& norm) { norm.backward_apply(b); });
  b.slope = {};
  b.dslope = {};
  both(dy, [&](BatchNorm& norm) { norm.backward_reduce(b); });
  b.add = dy;
  both(dy, [&](BatchNorm& norm) { norm.backward_apply(b); });
}

/// Measures the linear layer after an iresnet: forward and both gradients.
void Bench::product() {
  constexpr std::int64_t kOut = 512;
  const DType type = ops_.activation_type();
  for (const std::int64_t features : {std::int64_t{512}, std::int64_t{25088}}) {
    for (const std::int64_t rows : {batch_, 4 * batch_}) {
      const OwnedTensor x = filled({rows, features}, type), w = filled({kOut, features}, type);
      const OwnedTensor y = filled({rows, kOut}, type);
      const OwnedTensor dw = tensor({kOut, features}, DType::kFloat32);
      const auto both = [&](const Gemm& gemm) {
        add(
            fmt::format("{} x {} x {}", gemm.m, gemm.n, gemm.k), gemm.a, [&] { ops_.gemm(gemm); },
            [&] { counted_.gemm(gemm); });
      };
      both({.m = rows, .n = kOut, .k = features, .transpose_b = true, .a = x, .b = w, .c = y});
      both({.m = kOut, .n = features, .k = rows, .transpose_a = true, .a = y, .b = x, .c = dw});
      both({.m = rows, .n = features, .k = kOut, .a = y, .b = w, .c = x});
    }
  }
}

void Bench::flat(std::int64_t elements) {
  const OwnedTensor a = filled({elements}, DType::kFloat32),
                    b = filled({elements}, DType::kFloat32);
  const OwnedTensor c = tensor({elements}, DType::kFloat32);
  const std::string name = std::to_string(elements);
  add(
      name, a, [&] { ops_.add(a, b, c); }, [&] { counted_.add(a, b, c); });
  const SgdOptions sgd{};
  add(
      name, a, [&] { ops_.sgd(sgd, 1, a, b, c); }, [&] { counted_.sgd(sgd, 1, a, b, c); });
}

}  // namespace

std::vector<MeasuredOp> measure_ops(Ops& ops, const Measuring& doing) {
  Bench bench(ops);
  doing("convolutions");
  for (const Size& size : kDense) bench.convolution(size, false);
  for (const Size& size : kDepthwise) bench.convolution(size, true);
  doing("batch norms");
  for (const Rows& rows : kNorms) bench.norm(rows);
  doing("products and updates");
  bench.product();
  for (const std::int64_t elements : kFlat) bench.flat(elements);
  return bench.take();
}

}  // namespace pfc
