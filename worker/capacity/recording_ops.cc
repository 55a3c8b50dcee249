#include "worker/capacity/recording_ops.h"

#include <initializer_list>

namespace pfc {
namespace {

constexpr std::uintptr_t kAlignment = 64;

double tensor_bytes(std::initializer_list<const Tensor*> tensors) {
  double sum = 0;
  for (const Tensor* t : tensors) {
    if (*t) sum += static_cast<double>(t->bytes());
  }
  return sum;
}

OpWork moving(std::initializer_list<const Tensor*> tensors) {
  return {.bytes = tensor_bytes(tensors)};
}

class Addresses : public Buffer {
 public:
  Addresses(std::uintptr_t begin, std::size_t bytes) : begin_(begin), bytes_(bytes) {}
  std::byte* data() override { return reinterpret_cast<std::byte*>(begin_); }
  [[nodiscard]] std::size_t bytes() const override { return bytes_; }

 private:
  const std::uintptr_t begin_;
  const std::size_t bytes_;
};

class Done : public Event {
 public:
  void wait() override {}
};

class RecordingConv2d : public Conv2d {
 public:
  RecordingConv2d(const Conv2dShape& shape, DType activations, OpWorks& works)
      : Conv2d(shape, activations), works_(works) {}

 private:
  void add(double bytes) {
    const std::int64_t products =
        shape_.y_shape().elements() * shape_.kernel * shape_.kernel * shape_.in_c / shape_.groups;
    works_.push_back({.flops = 2.0 * static_cast<double>(products), .bytes = bytes});
  }
  void run_forward(const Tensor& x, const Tensor& w, const Tensor& y) override {
    add(tensor_bytes({&x, &w, &y}));
  }
  void run_backward_data(const Tensor& dy, const Tensor& w, const Tensor& dx) override {
    add(tensor_bytes({&dy, &w, &dx}));
  }
  void run_backward_weights(const Tensor& x, const Tensor& dy, const Tensor& dw,
                            bool accumulate) override {
    add(tensor_bytes({&x, &dy, &dw}) + (accumulate ? tensor_bytes({&dw}) : 0));
  }

  OpWorks& works_;
};

class RecordingBatchNorm : public BatchNorm {
 public:
  RecordingBatchNorm(const BatchNormShape& shape, DType activations, OpWorks& works)
      : BatchNorm(shape, activations), works_(works) {}

 private:
  void run_statistics(const Tensor& x, const Tensor&, const Tensor&) override {
    works_.push_back(moving({&x}));
  }
  void run_forward(const Forward& f) override {
    works_.push_back(moving({&f.x, &f.residual, &f.y}));
  }
  void run_backward_reduce(const Backward& b) override { works_.push_back(moving({&b.x, &b.dy})); }
  void run_backward_apply(const Backward& b) override {
    works_.push_back(moving({&b.x, &b.dy, &b.add, &b.dx}));
  }

  OpWorks& works_;
};

class RecordingAttention : public Attention {
 public:
  RecordingAttention(const AttentionShape& shape, DType activations, OpWorks& works)
      : Attention(shape, activations), works_(works) {}

 private:
  /// `products`: number of matrix products: of queries and keys, of weights and values, and for
  /// their gradients.
  void add(int products, double bytes) {
    const std::int64_t of_one = shape_.y_shape().elements() * shape_.tokens;
    works_.push_back({.flops = 2.0 * products * static_cast<double>(of_one), .bytes = bytes});
  }
  void run_forward(const Tensor& qkv, const Tensor& y) override {
    add(2, tensor_bytes({&qkv, &y}));
  }
  void run_backward(const Tensor& qkv, const Tensor& dy, const Tensor& dqkv) override {
    add(5, tensor_bytes({&qkv, &dy, &dqkv}));
  }

  OpWorks& works_;
};

}  // namespace

std::unique_ptr<Buffer> RecordingOps::allocate(std::size_t bytes) {
  const std::uintptr_t begin = next_address_;
  next_address_ += (bytes + kAlignment) / kAlignment * kAlignment;
  return std::make_unique<Addresses>(begin, bytes);
}

std::unique_ptr<Event> RecordingOps::record() { return std::make_unique<Done>(); }

std::unique_ptr<Attention> RecordingOps::attention(const AttentionShape& shape) {
  return std::make_unique<RecordingAttention>(shape, activations_, works_);
}

std::unique_ptr<RepeatedWork> RecordingOps::repeat(std::function<void()> enqueue) {
  return std::make_unique<CalledWork>(std::move(enqueue));
}

std::unique_ptr<Conv2d> RecordingOps::conv2d(const Conv2dShape& shape) {
  return std::make_unique<RecordingConv2d>(shape, activations_, works_);
}

std::unique_ptr<BatchNorm> RecordingOps::batch_norm(const BatchNormShape& shape) {
  return std::make_unique<RecordingBatchNorm>(shape, activations_, works_);
}

void RecordingOps::run_copy(const Tensor& from, const Tensor& to) {
  works_.push_back(moving({&from, &to}));
}
void RecordingOps::run_fill(const Tensor& t, float /*value*/) { works_.push_back(moving({&t})); }
void RecordingOps::run_convert(const Tensor& from, const Tensor& to) { run_copy(from, to); }
void RecordingOps::run_normalise_images(const Tensor& images, const Tensor& y) {
  run_copy(images, y);
}
void RecordingOps::run_update_running_statistics(const RunningStatistics& r) {
  works_.push_back({.bytes = 2 * tensor_bytes({&r.running_mean, &r.running_variance})});
}
void RecordingOps::run_gemm(const Gemm& g) {
  const double products = static_cast<double>(g.m) * static_cast<double>(g.n * g.k);
  works_.push_back({.flops = 2 * products, .bytes = tensor_bytes({&g.a, &g.b, &g.c})});
}
void RecordingOps::run_add(const Tensor& a, const Tensor& b, const Tensor& y) {
  works_.push_back(moving({&a, &b, &y}));
}
void RecordingOps::run_scale(const Tensor& x, float /*factor*/, const Tensor& y) { run_copy(x, y); }
void RecordingOps::run_average(const Tensor& value, float /*part*/, const Tensor& average) {
  run_add(value, average, average);
}
void RecordingOps::run_add_bias(const Tensor& y, const Tensor& /*bias*/, bool /*relu6*/) {
  run_copy(y, y);
}
void RecordingOps::run_relu(const Tensor& y) { run_copy(y, y); }
void RecordingOps::run_relu_backward(const Tensor& y, const Tensor& dy, float /*bound*/) {
  run_add(y, dy, dy);
}
void RecordingOps::run_column_sums(const Tensor& x, const Tensor& /*sums*/, bool /*accumulate*/,
                                   const Tensor& /*places*/) {
  run_fill(x, 0);
}
void RecordingOps::run_dropout(const Tensor& x, const Tensor& y, const DropoutOptions& /*o*/) {
  run_copy(x, y);
}
void RecordingOps::run_max_pool(const Conv2dShape& /*shape*/, const Tensor& x, const Tensor& y,
                                const Tensor& winners) {
  works_.push_back(moving({&x, &y, &winners}));
}
void RecordingOps::run_max_pool_backward(const Conv2dShape& /*shape*/, const Tensor& dy,
                                         const Tensor& winners, const Tensor& dx) {
  run_add(dy, winners, dx);
}
void RecordingOps::run_average_pool(const Tensor& x, const Tensor& y) { run_copy(x, y); }
void RecordingOps::run_average_pool_backward(const Tensor& dy, const Tensor& dx, bool accumulate) {
  works_.push_back(moving({&dy, &dx}));
  if (accumulate) works_.back().bytes += tensor_bytes({&dx});
}
void RecordingOps::run_gate(const Tensor& x, const Tensor& /*logits*/, const Tensor& residual,
                            const Tensor& y) {
  run_add(x, residual, y);
}
void RecordingOps::run_gate_backward(const Tensor& dy, const Tensor& x, const Tensor& /*logits*/,
                                     const Tensor& dx, const Tensor& /*dlogits*/) {
  run_add(dy, x, dx);
}
void RecordingOps::run_layer_norm(const LayerNorm& l) { run_copy(l.x, l.y); }
void RecordingOps::run_layer_norm_backward(const LayerNormBackward& b) {
  if (b.dgamma || b.dbeta) works_.push_back(moving({&b.dy, &b.x}));
  if (b.dx) works_.push_back(moving({&b.dy, &b.x, &b.add, &b.dx}));
}
void RecordingOps::run_choose_tokens(const Tensor& places, const TokenMask& /*mask*/) {
  works_.push_back(moving({&places}));
}
void RecordingOps::run_keep_tokens(const Tensor& /*x*/, const Tensor& /*places*/, const Tensor& y) {
  run_copy(y, y);
}
void RecordingOps::run_restore_tokens(const Tensor& x, const Tensor& /*places*/,
                                      const Tensor& /*token*/, const Tensor& y) {
  run_copy(x, y);
}
void RecordingOps::run_normalise_rows(const Tensor& x, const Tensor& y,
                                      const Tensor& /*inverse_norm*/) {
  run_copy(x, y);
}
void RecordingOps::run_normalise_rows_backward(const Tensor& dy, const Tensor& y,
                                               const Tensor& /*inverse_norm*/, const Tensor& dx) {
  run_add(dy, y, dx);
}
double RecordingOps::run_sum_of_squares(const Tensor& x) {
  run_fill(x, 0);
  return 0;
}
void RecordingOps::run_sgd(const SgdOptions& /*o*/, float /*gradient_scale*/,
                           const Tensor& gradient, const Tensor& weight, const Tensor& velocity,
                           const Tensor& operand) {
  works_.push_back(moving({&gradient, &weight, &weight, &velocity, &velocity, &operand}));
}
void RecordingOps::run_adamw(const AdamWOptions& /*o*/, float /*gradient_scale*/,
                             const Tensor& gradient, const Tensor& weight, const Tensor& m,
                             const Tensor& v, const Tensor& operand) {
  works_.push_back(moving({&gradient, &weight, &weight, &m, &m, &v, &v, &operand}));
}

}  // namespace pfc
