// The interface for arithmetic, common to all devices.
//
// An Ops has one compute stream. Every call enqueues its work there, in order, and returns; on a
// CPU the work is complete when the call returns. Tensors are views of this device's memory.
//
// A plan (Conv2d, BatchNorm) is made once for a shape and executed many times; a step allocates
// nothing. All plans of an Ops share the same scratch memory, because the stream executes them one
// at a time. Plans and Ops are used by one thread. REQUIRES: plans are destroyed before their Ops.
//
// The public calls check shapes and types, with the same messages on every device (ops.cc,
// tensor_check.h), and then make the device's private call, which may rely on them. Calls on empty
// tensors do nothing.
//
// Errors: wrong shapes or types throw std::logic_error, a failing device throws DeviceError.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "kernels/math/optimizer.h"
#include "kernels/tensor.h"

namespace pfc {

/// Owns memory of a device, zeroed on creation.
class Buffer {
 public:
  virtual ~Buffer() = default;
  [[nodiscard]] virtual std::byte* data() = 0;
  [[nodiscard]] virtual std::size_t bytes() const = 0;
};

/// A point in the compute stream. wait() blocks the calling host thread until all work enqueued
/// before this point is complete. Instead of the host, the stream of a Comm can wait for the point.
/// On a CPU the work is always complete.
class Event {
 public:
  virtual ~Event() = default;
  virtual void wait() = 0;
};

/// A second stream for copies from host to device, concurrent with the compute stream. Used by one
/// thread at a time, which may differ from the thread of the Ops.
class CopyQueue {
 public:
  virtual ~CopyQueue() = default;
  /// Allocates page-locked host memory, from which the device can copy while the host continues.
  virtual std::unique_ptr<Buffer> allocate_pinned(std::size_t bytes) = 0;
  /// Enqueues a copy and returns. REQUIRES: `pinned` points into memory of allocate_pinned() that
  /// does not change until the copy is complete.
  virtual void copy_to_device(const Tensor& device, const void* pinned) = 0;
  virtual void wait_for(const Event& event) = 0;  ///< later copies wait; the host does not
  virtual std::unique_ptr<Event> record() = 0;
};

/// A sequence of calls that is repeated in every step, on the same memory.
class RepeatedWork {
 public:
  virtual ~RepeatedWork() = default;
  virtual void run() = 0;  ///< enqueues
};

/// RepeatedWork for a device that does not record: calls the function each time.
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
  std::int64_t groups = 1;  ///< equal to in_c for a depthwise convolution

  [[nodiscard]] std::int64_t out_h() const { return (in_h + 2L * pad - kernel) / stride + 1; }
  [[nodiscard]] std::int64_t out_w() const { return (in_w + 2L * pad - kernel) / stride + 1; }
  [[nodiscard]] Shape x_shape() const { return {batch, in_h, in_w, in_c}; }
  [[nodiscard]] Shape w_shape() const { return {out_c, kernel, kernel, in_c / groups}; }
  [[nodiscard]] Shape y_shape() const { return {batch, out_h(), out_w(), out_c}; }

  /// Throws std::logic_error if the output would be empty, or groups do not divide the channels.
  void check_valid() const {
    check(batch > 0 && in_c > 0 && out_c > 0 && kernel > 0 && stride > 0 && pad >= 0 && groups > 0,
          "conv2d: sizes must be positive");
    check(in_c % groups == 0 && out_c % groups == 0, "conv2d: groups must divide the channels");
    check(in_h + 2L * pad >= kernel && in_w + 2L * pad >= kernel,
          "conv2d: the kernel is larger than the padded image");
  }
};

/// A convolution without bias. The weights may change between calls. dw is float32; all other
/// tensors are of activation_type().
class Conv2d {
 public:
  Conv2d(const Conv2dShape& shape, DType activations);
  virtual ~Conv2d() = default;
  void forward(const Tensor& x, const Tensor& w, const Tensor& y);
  void backward_data(const Tensor& dy, const Tensor& w, const Tensor& dx);
  /// Prepares backward_weights(), and with `data` backward_data(), before the first step.
  virtual void plan_backward(bool /*data*/) {}
  /// Overwrites dw, or adds to it with `accumulate`.
  void backward_weights(const Tensor& x, const Tensor& dy, const Tensor& dw, bool accumulate);

 protected:
  const Conv2dShape shape_;

 private:
  virtual void run_forward(const Tensor& x, const Tensor& w, const Tensor& y) = 0;
  virtual void run_backward_data(const Tensor& dy, const Tensor& w, const Tensor& dx) = 0;
  virtual void run_backward_weights(const Tensor& x, const Tensor& dy, const Tensor& dw,
                                    bool accumulate) = 0;

  const DType activations_;
};

/// x is [rows, channels] in memory: NHWC with N * H * W rows, or [B, D].
struct BatchNormShape {
  std::int64_t rows = 1;
  std::int64_t channels = 1;
  float eps = 1e-5f;
};

/// Batch norm, then optionally PReLU or a residual sum, in one pass:
///   z = gamma * (x - mean) / sqrt(variance + eps) + beta;  y = prelu(z, slope) + residual.
/// Statistics are computed in a separate call, so that sync_bn can combine them over workers
/// before forward(), and evaluation can pass the running statistics. x, y, residual, dy, dx and
/// add have one type, float32 or activation_type(); all other tensors are float32 [channels].
class BatchNorm {
 public:
  BatchNorm(const BatchNormShape& shape, DType activations);
  virtual ~BatchNorm() = default;

  /// Computes mean and biased variance of x over its rows; accurate if |mean| >> deviation.
  void statistics(const Tensor& x, const Tensor& mean, const Tensor& variance);

  struct Forward {
    Tensor x, mean, variance;
    Tensor gamma, beta;
    Tensor slope;               ///< null: no PReLU
    Tensor residual;            ///< null: none; [rows, channels], may alias y
    Tensor y;                   ///< may alias x
    Tensor y_mean, y_variance;  ///< null, or receive the statistics of y (for the next batch norm)
  };
  void forward(const Forward& f);

  struct Backward {
    Tensor dy, x, mean, variance;
    Tensor gamma, beta;
    Tensor slope;                 ///< null: no PReLU
    Tensor sum_dz;                ///< [channels]: sum of dL/dz over rows; dbeta
    Tensor sum_dz_xhat;           ///< [channels]: sum of dL/dz * xhat; dgamma
    Tensor dslope;                ///< [channels], overwritten; null when slope is null
    std::int64_t total_rows = 0;  ///< number of rows in the sums; with sync_bn over all workers
    Tensor add;                   ///< null, or added to dx (the gradient of a residual branch)
    Tensor dx;                    ///< may alias dy or add
  };
  /// First pass: fills sum_dz, sum_dz_xhat and dslope over this worker's rows.
  void backward_reduce(const Backward& b);
  /// Second pass: fills dx. REQUIRES: sum_dz and sum_dz_xhat are the sums over total_rows rows.
  void backward_apply(const Backward& b);

 protected:
  const BatchNormShape shape_;

 private:
  virtual void run_statistics(const Tensor& x, const Tensor& mean, const Tensor& variance) = 0;
  virtual void run_forward(const Forward& f) = 0;
  virtual void run_backward_reduce(const Backward& b) = 0;
  virtual void run_backward_apply(const Backward& b) = 0;

  void check_backward(const char* op, const Backward& b) const;

  const DType activations_;
};

/// Queries, keys and values are [batch, tokens, 3, heads, head_size] in memory: the row of a token
/// has the queries of all heads, then the keys of all heads, then the values of all heads.
struct AttentionShape {
  std::int64_t batch = 1;
  std::int64_t tokens = 1;
  std::int64_t heads = 1;
  std::int64_t head_size = 16;  ///< a multiple of 16

  [[nodiscard]] Shape qkv_shape() const { return {batch, tokens, 3 * heads * head_size}; }
  [[nodiscard]] Shape y_shape() const { return {batch, tokens, heads * head_size}; }
};

/// Attention of each head: y = softmax(q k^T / sqrt(head_size)) v (Vaswani et al., "Attention is
/// all you need", arXiv 1706.03762, equation 1). All tensors are of activation_type(). The weights
/// of the values are not kept: backward() computes them again.
class Attention {
 public:
  Attention(const AttentionShape& shape, DType activations);
  virtual ~Attention() = default;
  void forward(const Tensor& qkv, const Tensor& y);
  void backward(const Tensor& qkv, const Tensor& dy, const Tensor& dqkv);

 protected:
  const AttentionShape shape_;

 private:
  virtual void run_forward(const Tensor& qkv, const Tensor& y) = 0;
  virtual void run_backward(const Tensor& qkv, const Tensor& dy, const Tensor& dqkv) = 0;

  const DType activations_;
};

/// Layer norm of each row of x (Ba et al., arXiv 1607.06450): y = gamma * (x - mean) * inverse +
/// beta, where inverse = 1 / sqrt(variance + eps), with the biased variance. x, add and dx are
/// float32 [rows, n], y and dy float32 or activation_type(), gamma and beta float32 [n].
struct LayerNorm {
  Tensor x, gamma, beta;
  float eps = 1e-5f;
  Tensor y;
  Tensor statistics;  ///< float32 [rows, 2], overwritten: mean and inverse, for the backward pass
};
struct LayerNormBackward {
  Tensor dy, x, statistics, gamma;
  Tensor add;               ///< null, or added to dx (the gradient of a residual branch)
  Tensor dx;                ///< may alias add; null: not needed
  Tensor dgamma, dbeta;     ///< float32 [n]; null: not needed
  bool accumulate = false;  ///< adds to dgamma and dbeta
};

/// Selects the tokens of each sample that a network keeps: those with the smallest random numbers.
/// The numbers are a pure function of (seed, step, sample, token).
struct TokenMask {
  std::int64_t kept = 0;  ///< number of tokens to keep of each sample
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
  std::uint64_t first_sample = 0;  ///< global index of sample 0: rank * batch
};

/// c [m, n] = alpha * op(a) op(b) + beta * c; row-major; op(a) is [m, k], op(b) is [k, n]. a and b
/// have the same type: float32 or activation_type(); on a GPU any floating-point type. c has the
/// same type or float32.
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

/// The mask is a pure function of (seed, step, element): the backward pass recomputes it.
struct DropoutOptions {
  float probability = 0.f;
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
  std::uint64_t first_element = 0;  ///< global index of element 0: rank * elements
  std::int64_t group = 1;           ///< adjacent elements dropped together; drop path: a sample
};

class Ops {
 public:
  virtual ~Ops() = default;

  /// Returns text for log messages: "CPU (oneDNN 2.6.3, 2 threads, AVX-512)".
  [[nodiscard]] virtual std::string description() const = 0;
  [[nodiscard]] virtual bool on_host() const = 0;  ///< whether host code can access the memory
  /// Returns the type of activations, and of the copies of weights that convolutions and linear
  /// layers read: float32, bfloat16, or on a GPU float16. Everything else is float32.
  [[nodiscard]] virtual DType activation_type() const = 0;
  /// Changes activation_type(). A plan must run with the type with which it was made
  /// (WithActivations).
  virtual void use_activations(DType type) = 0;

  virtual std::unique_ptr<Buffer> allocate(std::size_t bytes) = 0;
  /// Reserves `bytes` of a GPU's memory; later calls of allocate() use this memory. Throws
  /// DeviceError if less is free. Does nothing on a CPU. REQUIRES: called before anything large is
  /// allocated.
  virtual void reserve(std::size_t bytes) = 0;
  /// Sets the number of compute threads on a CPU. REQUIRES: called before an operation is planned.
  virtual void use_threads(int /*count*/) {}
  /// The GPU's memory in bytes. Zeros on a CPU, whose memory is shared with other programs.
  struct DeviceMemory {
    std::size_t free = 0, total = 0;
  };
  [[nodiscard]] virtual DeviceMemory memory() const = 0;
  /// The next two calls block until the copy is complete.
  virtual void copy_to_device(const Tensor& device, const void* host) = 0;
  virtual void copy_to_host(void* host, const Tensor& device) = 0;
  void copy(const Tensor& from, const Tensor& to);  ///< same type and size
  void fill(const Tensor& t, float value);          ///< t is float32
  /// Converts between float32 and activation_type(), rounding to nearest; or copies equal types.
  void convert(const Tensor& from, const Tensor& to);
  virtual std::unique_ptr<Event> record() = 0;
  virtual void wait_for(const Event& event) = 0;  ///< the compute stream waits; the host does not
  /// Returns nullptr on a CPU, which computes in host memory.
  virtual std::unique_ptr<CopyQueue> copy_queue() = 0;
  /// On a GPU, run() records the work as a CUDA graph and then launches the graph
  /// (DeviceOptions::cuda_graphs), so most runs do not call `enqueue`. REQUIRES: `enqueue` only
  /// calls ops of this device, makes the same calls each time, and never waits.
  virtual std::unique_ptr<RepeatedWork> repeat(std::function<void()> enqueue) = 0;
  virtual void synchronize() = 0;

  virtual std::unique_ptr<Conv2d> conv2d(const Conv2dShape& shape) = 0;
  virtual std::unique_ptr<BatchNorm> batch_norm(const BatchNormShape& shape) = 0;
  virtual std::unique_ptr<Attention> attention(const AttentionShape& shape) = 0;
  /// Returns the size of the scratch memory shared by all plans made so far.
  [[nodiscard]] virtual std::size_t scratch_bytes() const = 0;

  /// Converts images uint8 [B, H, W, 3] to y = x / 127.5 - 1, in float32 or activation_type().
  void normalise_images(const Tensor& images, const Tensor& y);
  /// running = (1 - momentum) * running + momentum * value, for mean and unbiased variance.
  struct RunningStatistics {
    Tensor mean, variance;  ///< of a step; the variance is biased, over total_rows rows
    std::int64_t total_rows = 0;
    float momentum = 0.1f;
    Tensor running_mean, running_variance;
  };
  void update_running_statistics(const RunningStatistics& r);

  void gemm(const Gemm& g);
  /// Prepares everything that gemm() needs except its tensors, for a product of this shape and
  /// these types, so that no step allocates it. Does not read the tensors' memory, which may not
  /// exist yet.
  virtual void plan_gemm(const Gemm& /*g*/) {}
  /// Computes y = a + b; y may alias a or b. All have one type, float32 or activation_type().
  void add(const Tensor& a, const Tensor& b, const Tensor& y);
  /// Computes y = factor * x; float32. y may alias x.
  void scale(const Tensor& x, float factor, const Tensor& y);
  /// Computes average += part * (value - average): a moving average; float32.
  void average(const Tensor& value, float part, const Tensor& average);
  /// Computes y [rows, n] += bias [n]. Here and below, bias and sums are float32; y, x and dy are
  /// float32 or activation_type().
  void add_bias(const Tensor& y, const Tensor& bias);
  /// Computes y = min(max(y + bias, 0), 6).
  void add_bias_relu6(const Tensor& y, const Tensor& bias);
  /// Computes y = max(y, 0).
  void relu(const Tensor& y);
  /// Sets dy to 0 where y, the result of relu() or of add_bias_relu6(), is 0 or `bound`.
  void relu_backward(const Tensor& y, const Tensor& dy,
                     float bound = std::numeric_limits<float>::infinity());
  /// Computes sums [n] = (accumulate ? sums : 0) + column sums of x [rows, n]: a bias gradient. If
  /// `places` is not null, it is the result of choose_tokens() for these rows, and only the tokens
  /// that are not kept are summed.
  void column_sums(const Tensor& x, const Tensor& sums, bool accumulate, const Tensor& places = {});
  /// Computes y = x * mask / (1 - p); the backward pass is the same call on gradients. y may alias
  /// x. Both have one type, float32 or activation_type().
  void dropout(const Tensor& x, const Tensor& y, const DropoutOptions& o);

  /// Computes the largest number of each window. `shape`: that of a depthwise convolution with the
  /// same window, of at most 16 x 16 pixels; pixels outside the image do not count. x, y and their
  /// gradients have one type, float32 or activation_type(). winners is null, or uint8 [y_shape] and
  /// receives the place of the first largest number in its window; places are counted row by row.
  void max_pool(const Conv2dShape& shape, const Tensor& x, const Tensor& y, const Tensor& winners);
  void max_pool_backward(const Conv2dShape& shape, const Tensor& dy, const Tensor& winners,
                         const Tensor& dx);
  /// Computes y [batch, n], the mean over the pixels of each sample of x [batch, H, W, n]. Here and
  /// below, each tensor is float32 or of activation_type().
  void average_pool(const Tensor& x, const Tensor& y);
  /// Computes dx = (accumulate ? dx : 0) + dy / (H * W).
  void average_pool_backward(const Tensor& dy, const Tensor& dx, bool accumulate);
  /// Squeeze and excitation (Hu et al., arXiv 1709.01507, equation 4) and a residual sum: y = x *
  /// sigmoid(logits) + residual, for x [batch, H, W, n] and logits [batch, n]. Here and below all
  /// have one type, float32 or activation_type().
  void gate(const Tensor& x, const Tensor& logits, const Tensor& residual, const Tensor& y);
  /// dx may be null (not needed) or alias dy. The gradient of the residual is dy.
  void gate_backward(const Tensor& dy, const Tensor& x, const Tensor& logits, const Tensor& dx,
                     const Tensor& dlogits);

  void layer_norm(const LayerNorm& l);
  void layer_norm_backward(const LayerNormBackward& b);

  /// Writes to places, int64 [batch, tokens], each token's index among the kept tokens of its
  /// sample, in the order of the tokens; -1: not kept.
  void choose_tokens(const Tensor& places, const TokenMask& mask);
  /// Copies the kept tokens of x [batch, tokens, n] to y [batch, kept, n]. x and y have one type,
  /// float32 or activation_type(), also below.
  void keep_tokens(const Tensor& x, const Tensor& places, const Tensor& y);
  /// Copies the tokens of x [batch, kept, n] back to their places in y [batch, tokens, n]. The
  /// other tokens of y become `token` [n], or 0 if `token` is null.
  void restore_tokens(const Tensor& x, const Tensor& places, const Tensor& token, const Tensor& y);

  /// Divides each row of x [rows, d] by its length: y[i] = x[i] * inverse_norm[i], inverse_norm
  /// [rows]. Accurate for lengths from 1e-20 to 1e+20; a row of zeros gives zeros. y may alias x.
  void normalise_rows(const Tensor& x, const Tensor& y, const Tensor& inverse_norm);
  /// The gradient of normalise_rows(), row by row: dx = (dy - y (y . dy)) * inverse_norm. dx may
  /// alias dy.
  void normalise_rows_backward(const Tensor& dy, const Tensor& y, const Tensor& inverse_norm,
                               const Tensor& dx);

  /// Returns the sum of squares of a flat tensor, accumulated in float64: finite if and only if
  /// every element is. Blocks until it is known.
  double sum_of_squares(const Tensor& x);
  /// Make one optimizer step over flat tensors. The gradient is first multiplied by
  /// gradient_scale, which clips it. operand: receives the new weights, rounded like convert();
  /// null, or of the weights' size and activation_type().
  void sgd(const SgdOptions& o, float gradient_scale, const Tensor& gradient, const Tensor& weight,
           const Tensor& velocity, const Tensor& operand = {});
  void adamw(const AdamWOptions& o, float gradient_scale, const Tensor& gradient,
             const Tensor& weight, const Tensor& m, const Tensor& v, const Tensor& operand = {});

 private:
  virtual void run_copy(const Tensor& from, const Tensor& to) = 0;
  virtual void run_fill(const Tensor& t, float value) = 0;
  virtual void run_convert(const Tensor& from, const Tensor& to) = 0;
  virtual void run_normalise_images(const Tensor& images, const Tensor& y) = 0;
  virtual void run_update_running_statistics(const RunningStatistics& r) = 0;
  virtual void run_gemm(const Gemm& g) = 0;
  virtual void run_add(const Tensor& a, const Tensor& b, const Tensor& y) = 0;
  virtual void run_scale(const Tensor& x, float factor, const Tensor& y) = 0;
  virtual void run_average(const Tensor& value, float part, const Tensor& average) = 0;
  virtual void run_add_bias(const Tensor& y, const Tensor& bias, bool relu6) = 0;
  virtual void run_relu(const Tensor& y) = 0;
  virtual void run_relu_backward(const Tensor& y, const Tensor& dy, float bound) = 0;
  virtual void run_column_sums(const Tensor& x, const Tensor& sums, bool accumulate,
                               const Tensor& places) = 0;
  virtual void run_dropout(const Tensor& x, const Tensor& y, const DropoutOptions& o) = 0;
  virtual void run_max_pool(const Conv2dShape& shape, const Tensor& x, const Tensor& y,
                            const Tensor& winners) = 0;
  virtual void run_max_pool_backward(const Conv2dShape& shape, const Tensor& dy,
                                     const Tensor& winners, const Tensor& dx) = 0;
  virtual void run_average_pool(const Tensor& x, const Tensor& y) = 0;
  virtual void run_average_pool_backward(const Tensor& dy, const Tensor& dx, bool accumulate) = 0;
  virtual void run_gate(const Tensor& x, const Tensor& logits, const Tensor& residual,
                        const Tensor& y) = 0;
  virtual void run_gate_backward(const Tensor& dy, const Tensor& x, const Tensor& logits,
                                 const Tensor& dx, const Tensor& dlogits) = 0;
  virtual void run_layer_norm(const LayerNorm& l) = 0;
  virtual void run_layer_norm_backward(const LayerNormBackward& b) = 0;
  virtual void run_choose_tokens(const Tensor& places, const TokenMask& mask) = 0;
  virtual void run_keep_tokens(const Tensor& x, const Tensor& places, const Tensor& y) = 0;
  virtual void run_restore_tokens(const Tensor& x, const Tensor& places, const Tensor& token,
                                  const Tensor& y) = 0;
  virtual void run_normalise_rows(const Tensor& x, const Tensor& y, const Tensor& inverse_norm) = 0;
  virtual void run_normalise_rows_backward(const Tensor& dy, const Tensor& y,
                                           const Tensor& inverse_norm, const Tensor& dx) = 0;
  virtual double run_sum_of_squares(const Tensor& x) = 0;
  virtual void run_sgd(const SgdOptions& o, float gradient_scale, const Tensor& gradient,
                       const Tensor& weight, const Tensor& velocity, const Tensor& operand) = 0;
  virtual void run_adamw(const AdamWOptions& o, float gradient_scale, const Tensor& gradient,
                         const Tensor& weight, const Tensor& m, const Tensor& v,
                         const Tensor& operand) = 0;
};

/// Changes the activation type of an Ops, and restores it when destroyed. Used to make and run a
/// network in a precision other than the job's.
class WithActivations {
 public:
  WithActivations(Ops& ops, DType type) : ops_(ops), before_(ops.activation_type()) {
    ops_.use_activations(type);
  }
  ~WithActivations() { ops_.use_activations(before_); }
  WithActivations(const WithActivations&) = delete;
  WithActivations& operator=(const WithActivations&) = delete;

 private:
  Ops& ops_;
  const DType before_;
};

}  // namespace pfc
