// The arithmetic contract, the same for every device.
//
// Every call enqueues on the Ops' one compute stream, in order, and returns; on a CPU it has
// completed when it returns. Tensors are views of memory of this device. A plan is made once per
// shape and executed many times; nothing is allocated after the plans are made. Plans and Ops
// belong to one thread. All plans share one scratch area, which is right because the stream orders
// them. Errors: wrong shapes throw std::logic_error; a failing device throws DeviceError.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "kernels/math/optimizer.h"
#include "kernels/tensor.h"

namespace pfc {

/// Memory of a device, zeroed when made. Owns.
class Buffer {
 public:
  virtual ~Buffer() = default;
  [[nodiscard]] virtual std::byte* data() = 0;
  [[nodiscard]] virtual std::size_t bytes() const = 0;
};

/// A point in the compute stream. wait() blocks the calling host thread until the work enqueued
/// before it is done; a Comm may make its own stream wait instead. On a CPU: always done.
class Event {
 public:
  virtual ~Event() = default;
  virtual void wait() = 0;
};

/// Copies to the device beside the compute stream. One thread, any.
class CopyQueue {
 public:
  virtual ~CopyQueue() = default;
  /// Host memory that copies may read while the host goes on.
  virtual std::unique_ptr<Buffer> allocate_pinned(std::size_t bytes) = 0;
  /// Enqueues and returns; `pinned` is of allocate_pinned().
  virtual void copy_to_device(const Tensor& device, const void* pinned) = 0;
  virtual void wait_for(const Event& event) = 0;  ///< later copies wait, not the host
  virtual std::unique_ptr<Event> record() = 0;
};

/// Calls that are the same every time, on the same memory.
class RepeatedWork {
 public:
  virtual ~RepeatedWork() = default;
  virtual void run() = 0;  ///< enqueues
};

/// RepeatedWork of a device that records nothing: calls the function each time.
class CalledWork : public RepeatedWork {
 public:
  explicit CalledWork(std::function<void()> call) : call_(std::move(call)) {}
  void run() override { call_(); }

 private:
  const std::function<void()> call_;
};

/// Activations NHWC; weights OHWI: [out_c, kernel, kernel, in_c / groups].
struct Conv2dShape {
  std::int64_t batch = 1;
  std::int64_t in_h = 1;
  std::int64_t in_w = 1;
  std::int64_t in_c = 1;
  std::int64_t out_c = 1;
  int kernel = 1;
  int stride = 1;
  int pad = 0;
  std::int64_t groups = 1;  ///< in_c: depthwise

  [[nodiscard]] std::int64_t out_h() const { return (in_h + 2L * pad - kernel) / stride + 1; }
  [[nodiscard]] std::int64_t out_w() const { return (in_w + 2L * pad - kernel) / stride + 1; }
  [[nodiscard]] Shape x_shape() const { return {batch, in_h, in_w, in_c}; }
  [[nodiscard]] Shape w_shape() const { return {out_c, kernel, kernel, in_c / groups}; }
  [[nodiscard]] Shape y_shape() const { return {batch, out_h(), out_w(), out_c}; }

  /// Throws std::logic_error for a shape without output, or groups that do not divide.
  void check_valid() const {
    check(batch > 0 && in_c > 0 && out_c > 0 && kernel > 0 && stride > 0 && pad >= 0 && groups > 0,
          "conv2d: sizes must be positive");
    check(in_c % groups == 0 && out_c % groups == 0, "conv2d: groups must divide the channels");
    check(in_h + 2L * pad >= kernel && in_w + 2L * pad >= kernel,
          "conv2d: the kernel is larger than the padded image");
  }
};

/// A convolution without bias. The weights may have changed since the last call. All of
/// activation_type(), but dw: float32.
class Conv2d {
 public:
  virtual ~Conv2d() = default;
  virtual void forward(const Tensor& x, const Tensor& w, const Tensor& y) = 0;
  virtual void backward_data(const Tensor& dy, const Tensor& w, const Tensor& dx) = 0;
  /// dw is overwritten, or added to when `accumulate`.
  virtual void backward_weights(const Tensor& x, const Tensor& dy, const Tensor& dw,
                                bool accumulate) = 0;
};

/// x is [rows, channels] in memory (NHWC with N*H*W rows, or [B, D]).
struct BatchNormShape {
  std::int64_t rows = 1;
  std::int64_t channels = 1;
  float eps = 1e-5f;
};

/// Batch norm, then optionally PReLU or a residual sum, in one pass:
///   z = gamma * (x - mean) / sqrt(variance + eps) + beta;  y = prelu(z, slope) + residual.
/// Statistics are an own step, so that sync_bn can combine them over workers in between, and so
/// that evaluation can pass running ones. x, y, residual, dy, dx and add are of one type, float32
/// or activation_type(); all else is float32 [channels].
class BatchNorm {
 public:
  virtual ~BatchNorm() = default;

  /// mean and biased variance of x over its rows. Numerically safe where |mean| >> deviation.
  virtual void statistics(const Tensor& x, const Tensor& mean, const Tensor& variance) = 0;

  struct Forward {
    Tensor x, mean, variance;
    Tensor gamma, beta;
    Tensor slope;               ///< null: no PReLU
    Tensor residual;            ///< null: none; [rows, channels], may alias y
    Tensor y;                   ///< may alias x
    Tensor y_mean, y_variance;  ///< null, or receive the statistics of y (for the next batch norm)
  };
  virtual void forward(const Forward& f) = 0;

  struct Backward {
    Tensor dy, x, mean, variance;
    Tensor gamma, beta;
    Tensor slope;                 ///< null: no PReLU
    Tensor sum_dz;                ///< [channels]: sum of dL/dz over rows; dbeta
    Tensor sum_dz_xhat;           ///< [channels]: sum of dL/dz * xhat; dgamma
    Tensor dslope;                ///< [channels], overwritten; null when slope is
    std::int64_t total_rows = 0;  ///< rows behind the sums: over all workers for sync_bn
    Tensor add;                   ///< null, or added to dx (the gradient along a residual branch)
    Tensor dx;                    ///< may alias dy or add
  };
  /// First pass: fills sum_dz, sum_dz_xhat and dslope of this worker's rows.
  virtual void backward_reduce(const Backward& b) = 0;
  /// Second pass, with the sums of all rows behind the statistics: fills dx.
  virtual void backward_apply(const Backward& b) = 0;
};

/// c [m, n] = alpha * op(a) op(b) + beta * c; row-major; op(a) is [m, k], op(b) is [k, n]. a and b
/// are of one type, float32 or activation_type(); c is of the same or float32.
struct Gemm {
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false;  ///< a is stored [k, m]
  bool transpose_b = false;  ///< b is stored [n, k]
  float alpha = 1.f;
  const Tensor& a;
  const Tensor& b;
  float beta = 0.f;
  const Tensor& c;
};

/// A mask that is a pure function of (seed, step, element), made again in the backward pass.
struct DropoutOptions {
  float probability = 0.f;
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
  std::uint64_t first_element = 0;  ///< global index of element 0: rank * elements
};

class Ops {
 public:
  virtual ~Ops() = default;

  /// For a person: "CPU (oneDNN 2.6.3, 2 threads, AVX-512)".
  [[nodiscard]] virtual std::string description() const = 0;
  [[nodiscard]] virtual bool on_host() const = 0;  ///< may host code touch the memory?
  /// Of activations, and of the copies of weights that convolutions and linear layers read:
  /// float32, or on a GPU bfloat16 or float16. Everything else is float32.
  [[nodiscard]] virtual DType activation_type() const = 0;

  virtual std::unique_ptr<Buffer> allocate(std::size_t bytes) = 0;
  /// Before anything large is allocated: takes that much of a GPU's memory at once, and allocate()
  /// cuts from it. DeviceError where there is less. Nothing on a CPU.
  virtual void reserve(std::size_t bytes) = 0;
  /// Of a GPU of its own; all zero on a CPU, whose memory other programs and workers share.
  struct DeviceMemory {
    std::size_t free = 0, total = 0;
  };
  [[nodiscard]] virtual DeviceMemory memory() const = 0;
  virtual void copy_to_device(const Tensor& device, const void* host) = 0;  ///< waits
  virtual void copy_to_host(void* host, const Tensor& device) = 0;          ///< waits
  virtual void copy(const Tensor& from, const Tensor& to) = 0;
  virtual void fill(const Tensor& t, float value) = 0;  ///< float32
  /// Between float32 and activation_type(), rounding to the nearest; a copy where both are the
  /// same.
  virtual void convert(const Tensor& from, const Tensor& to) = 0;
  virtual std::unique_ptr<Event> record() = 0;
  virtual void wait_for(const Event& event) = 0;  ///< the compute stream waits, not the host
  /// Null on a CPU: there is nowhere to copy to.
  virtual std::unique_ptr<CopyQueue> copy_queue() = 0;
  /// `enqueue` calls ops of this device only, waits for nothing, and may be called or not in each
  /// run: a GPU records it once as a graph (DeviceOptions::graphs) and launches that.
  virtual std::unique_ptr<RepeatedWork> repeat(std::function<void()> enqueue) = 0;
  virtual void synchronize() = 0;

  virtual std::unique_ptr<Conv2d> conv2d(const Conv2dShape& shape) = 0;
  virtual std::unique_ptr<BatchNorm> batch_norm(const BatchNormShape& shape) = 0;
  /// Of the area that all plans made so far share.
  [[nodiscard]] virtual std::size_t scratch_bytes() const = 0;

  /// images uint8 [B, H, W, 3] -> y = x / 127.5 - 1, of activation_type().
  virtual void normalise_images(const Tensor& images, const Tensor& y) = 0;
  /// running = (1 - momentum) * running + momentum * value, for mean and unbiased variance.
  struct RunningStatistics {
    Tensor mean, variance;  ///< biased, over total_rows
    std::int64_t total_rows = 0;
    float momentum = 0.1f;
    Tensor running_mean, running_variance;
  };
  virtual void update_running_statistics(const RunningStatistics& r) = 0;

  virtual void gemm(const Gemm& g) = 0;
  /// y may alias. All of one type, float32 or activation_type(); so in dropout().
  virtual void add(const Tensor& a, const Tensor& b, const Tensor& y) = 0;
  /// y = factor * x; float32.
  virtual void scale(const Tensor& x, float factor, const Tensor& y) = 0;
  virtual void add_bias(const Tensor& y, const Tensor& bias) = 0;  ///< y [rows, n] += bias [n]
  /// sums [n] = (accumulate ? sums : 0) + column sums of x [rows, n]: a bias gradient.
  virtual void column_sums(const Tensor& x, const Tensor& sums, bool accumulate) = 0;
  /// y = x * mask / (1 - p); backward is the same call on gradients. y may alias x.
  virtual void dropout(const Tensor& x, const Tensor& y, const DropoutOptions& o) = 0;

  /// y[i] = x[i] / |x[i]| by rows of x [rows, d], inverse_norm [rows]; right for |x| from 1e-20 to
  /// 1e+20; a zero row gives zeros. y may alias x.
  virtual void normalise_rows(const Tensor& x, const Tensor& y, const Tensor& inverse_norm) = 0;
  /// dx = (dy - y (y . dy)) * inverse_norm by rows: the gradient through normalise_rows.
  virtual void normalise_rows_backward(const Tensor& dy, const Tensor& y,
                                       const Tensor& inverse_norm, const Tensor& dx) = 0;

  /// Sum of squares of a flat tensor, accumulated in float64, waited for.
  virtual double sum_of_squares(const Tensor& x) = 0;
  /// True when every element is finite; waits.
  virtual bool all_finite(const Tensor& x) = 0;
  /// One pass over flat tensors; the gradient is multiplied by gradient_scale first (clipping).
  virtual void sgd(const SgdOptions& o, float gradient_scale, const Tensor& gradient,
                   const Tensor& weight, const Tensor& velocity) = 0;
  virtual void adamw(const AdamWOptions& o, float gradient_scale, const Tensor& gradient,
                     const Tensor& weight, const Tensor& m, const Tensor& v) = 0;
};

}  // namespace pfc
