// The streaming margin softmax on CPUs. Each thread streams its own contiguous part of the active
// classes, tile by tile, with products on its own core: a tile stays in that core's cache from its
// GEMM to its update. Parts are fixed and their sums are added in order: the same bits every time.
#include "kernels/cpu/margin_softmax.h"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cpu/margin_tile.h"
#include "kernels/cpu/threads.h"
#include "kernels/math/margin.h"
#include "kernels/math/optimizer.h"

namespace pfc {
namespace {

/// An Update in the terms of kernels/math/optimizer.h.
struct UpdateRule {
  UpdateRule(const MarginSoftmaxOptions& o, const MarginSoftmax::Update& update)
      : sgd{.lr = static_cast<float>(update.lr),
            .momentum = static_cast<float>(o.momentum),
            .weight_decay = static_cast<float>(o.weight_decay)},
        adamw(adamw_options(update.lr, o.weight_decay, update.number)) {}
  SgdOptions sgd;
  AdamWOptions adamw;
};

class CpuMarginSoftmax : public MarginSoftmax {
 public:
  CpuMarginSoftmax(Ops& ops, const MarginSoftmaxOptions& options, const CentreTable& table)
      : ops_(ops),
        options_(options),
        table_(table),
        kernels_(best_vector_kernels()),
        threads_(omp_get_max_threads()),
        step_{.options = options_, .table = table_, .batch = {}},
        workers_(static_cast<std::size_t>(threads_.count()), MarginTileWorker(kernels_)) {
    check(ops.on_host(), "margin softmax: a CPU's Ops expected");
    step_.dimension = table.weight.shape[1];
  }

  void compute_inverse_norms() override {
    const std::int64_t rows = table_.weight.shape[0];
    threads_.each_range(rows, 1, table_.weight.elements(), [&](Range range) {
      for (std::int64_t row = range.begin; row < range.end; ++row) compute_inverse_norm(row);
    });
  }

  void forward(const Batch& batch, const Tensor& statistics) override;
  double combine(const Tensor& statistics, int workers) override;
  void backward(double gradient_scale, const Tensor& d_embeddings, const Update& update) override;
  void backward_accumulate(double gradient_scale, const Tensor& d_embeddings,
                           const Tensor& gradients, std::span<const std::int64_t> slots) override;
  void update(std::span<const std::int64_t> classes, std::span<const std::int64_t> slots,
              const Tensor& gradients, const Update& update) override;

 private:
  void prepare(const Batch& batch);
  void check_products() const;
  void set_factors(double gradient_scale);
  template <typename Sink>  // void(std::int64_t active_index, const float* gradient)
  void backward_tiles(const Tensor& d_embeddings, const Sink& sink);
  template <typename F>  // void(MarginTileWorker&, const ClassTile&)
  void each_tile_of(int part, const F& f);
  void move_centre(std::int64_t row, const float* gradient, const UpdateRule& rule) const;
  void compute_inverse_norm(std::int64_t row) const;

  Ops& ops_;
  const MarginSoftmaxOptions options_;
  const CentreTable table_;
  const VectorKernels& kernels_;
  const Threads threads_;
  MarginStep step_;
  std::vector<MarginTileWorker> workers_;  // one a thread
  std::vector<float> unit_, unit_transposed_, inverse_norm_, d_unit_;
  std::vector<Angle> angles_;
  std::vector<RowSoftmax> softmax_;  // [N]
  std::vector<float> max_, factor_;  // [N]
  std::vector<double> target_factor_;
};

void CpuMarginSoftmax::prepare(const Batch& batch) {
  const Tensor& x = batch.embeddings;
  const std::int64_t n = x.shape[0];
  const std::int64_t d = step_.dimension;
  check(x.shape == Shape({n, d}) && n > 0, "margin softmax: embeddings must be [N, D]");
  const auto size = static_cast<std::size_t>(n * d);
  unit_.resize(size);
  unit_transposed_.resize(size);
  d_unit_.resize(size);
  inverse_norm_.resize(static_cast<std::size_t>(n));
  max_.resize(static_cast<std::size_t>(n));
  factor_.resize(static_cast<std::size_t>(n));
  target_factor_.resize(static_cast<std::size_t>(n));
  angles_.resize(batch.positives.size());
  ops_.normalise_rows(x, Tensor(unit_.data(), {n, d}), Tensor(inverse_norm_.data(), {n}));
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t k = 0; k < d; ++k) {
      unit_transposed_[static_cast<std::size_t>(k * n + i)] =
          unit_[static_cast<std::size_t>(i * d + k)];
    }
  }
  step_.batch = batch;
  step_.samples = n;
  step_.unit = unit_.data();
  step_.unit_transposed = unit_transposed_.data();
  step_.angles = angles_.data();
  for (MarginTileWorker& worker : workers_) worker.allocate(step_);
}

template <typename F>
void CpuMarginSoftmax::each_tile_of(int part, const F& f) {
  const auto active = static_cast<std::int64_t>(step_.batch.classes.size());
  const std::span<const Positive> positives = step_.batch.positives;
  const Range range = part_of(active, part, threads_.count(), kTileClasses);
  const auto before = [](const Positive& p, std::int64_t index) { return p.index < index; };
  auto positive = std::lower_bound(positives.begin(), positives.end(), range.begin, before);
  for (std::int64_t begin = range.begin; begin < range.end; begin += kTileClasses) {
    const std::int64_t end = std::min(begin + kTileClasses, range.end);
    const auto last = std::lower_bound(positive, positives.end(), end, before);
    f(workers_[static_cast<std::size_t>(part)],
      ClassTile{begin, end, {positive, last}, positive - positives.begin()});
    positive = last;
  }
}

void CpuMarginSoftmax::forward(const Batch& batch, const Tensor& statistics) {
  prepare(batch);
  const auto n = static_cast<std::size_t>(step_.samples);
  check(statistics.bytes() == n * sizeof(RowStatistics),
        "margin softmax: statistics have [N] rows");
  threads_.each_part([&](int part) {
    workers_[static_cast<std::size_t>(part)].begin_forward();
    each_tile_of(part, [&](MarginTileWorker& worker, const ClassTile& tile) {
      worker.forward(step_, tile);
    });
  });
  check_products();
  const std::span rows(static_cast<RowStatistics*>(statistics.data), n);
  for (std::size_t i = 0; i < n; ++i) {
    rows[i] = {};
    for (const MarginTileWorker& worker : workers_) {
      merge(rows[i], worker.statistics(static_cast<std::int64_t>(i)));
    }
  }
  for (std::size_t k = 0; k < angles_.size(); ++k) {
    rows[static_cast<std::size_t>(batch.positives[k].sample)].target =
        options_.scale * margin_target(options_.margin, angles_[k]);
  }
}

// A thread of a team cannot throw: it says so, and this throws.
void CpuMarginSoftmax::check_products() const {
  for (const MarginTileWorker& worker : workers_) {
    if (worker.failed()) throw DeviceError("CPU: oneDNN's GEMM failed in the margin softmax");
  }
}

double CpuMarginSoftmax::combine(const Tensor& statistics, int workers) {
  const auto n = static_cast<std::size_t>(step_.samples);
  check(statistics.bytes() == static_cast<std::size_t>(workers) * n * sizeof(RowStatistics),
        "margin softmax: gathered statistics have [workers, N] rows");
  const auto* rows = static_cast<const RowStatistics*>(statistics.data);
  softmax_.resize(n);
  double loss = 0;
  for (std::size_t i = 0; i < n; ++i) {
    RowStatistics all;
    for (int w = 0; w < workers; ++w) merge(all, rows[static_cast<std::size_t>(w) * n + i]);
    softmax_[i] = row_softmax(all);
    max_[i] = all.sum == 0 ? 0.f : static_cast<float>(all.max);
    loss += softmax_[i].loss;
  }
  return loss / static_cast<double>(n);
}

void CpuMarginSoftmax::set_factors(double gradient_scale) {
  const double factor = gradient_scale * options_.scale / static_cast<double>(step_.samples);
  for (std::size_t i = 0; i < softmax_.size(); ++i) {
    factor_[i] = static_cast<float>(factor * softmax_[i].probability);
    target_factor_[i] = -factor * softmax_[i].others;
  }
  step_.max = max_.data();
  step_.factor = factor_.data();
  step_.target_factor = target_factor_.data();
}

template <typename Sink>
void CpuMarginSoftmax::backward_tiles(const Tensor& d_embeddings, const Sink& sink) {
  const std::int64_t n = step_.samples;
  const std::int64_t d = step_.dimension;
  threads_.each_part([&](int part) {
    workers_[static_cast<std::size_t>(part)].begin_backward();
    each_tile_of(part, [&](MarginTileWorker& worker, const ClassTile& tile) {
      const float* gradients = worker.backward(step_, tile);
      for (std::int64_t i = 0; i < tile.size(); ++i) sink(tile.begin + i, gradients + i * d);
    });
  });
  check_products();
  threads_.each_range(n * d, 64, n * d, [&](Range range) {
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      float sum = 0;
      for (const MarginTileWorker& worker : workers_) sum += worker.d_unit()[i];
      d_unit_[static_cast<std::size_t>(i)] = sum;
    }
  });
  ops_.normalise_rows_backward(Tensor(d_unit_.data(), {n, d}), Tensor(unit_.data(), {n, d}),
                               Tensor(inverse_norm_.data(), {n}), d_embeddings);
}

void CpuMarginSoftmax::backward(double gradient_scale, const Tensor& d_embeddings,
                                const Update& update) {
  set_factors(gradient_scale);
  const UpdateRule rule(options_, update);
  backward_tiles(d_embeddings, [&](std::int64_t i, const float* gradient) {
    const std::int64_t c = step_.batch.classes[static_cast<std::size_t>(i)];
    move_centre(c - table_.first_class, gradient, rule);
  });
}

void CpuMarginSoftmax::backward_accumulate(double gradient_scale, const Tensor& d_embeddings,
                                           const Tensor& gradients,
                                           std::span<const std::int64_t> slots) {
  check(slots.size() == step_.batch.classes.size(), "margin softmax: one slot an active class");
  set_factors(gradient_scale);
  const std::int64_t d = step_.dimension;
  backward_tiles(d_embeddings, [&](std::int64_t i, const float* gradient) {
    float* sum = gradients.f32() + slots[static_cast<std::size_t>(i)] * d;
    kernels_.add(sum, gradient, sum, d);
  });
}

void CpuMarginSoftmax::update(std::span<const std::int64_t> classes,
                              std::span<const std::int64_t> slots, const Tensor& gradients,
                              const Update& update) {
  const auto count = static_cast<std::int64_t>(classes.size());
  const std::int64_t d = step_.dimension;
  const UpdateRule rule(options_, update);
  threads_.each_range(count, 1, count * d, [&](Range range) {
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      const auto k = static_cast<std::size_t>(i);
      move_centre(classes[k] - table_.first_class, gradients.f32() + slots[k] * d, rule);
    }
  });
}

void CpuMarginSoftmax::move_centre(std::int64_t row, const float* gradient,
                                   const UpdateRule& rule) const {
  const std::int64_t d = step_.dimension;
  float* weight = table_.weight.f32() + row * d;
  float* momentum = table_.momentum.f32() + row * d;
  if (options_.optimizer == OptimizerKind::kSgd) {
    kernels_.sgd(rule.sgd, 1.f, gradient, weight, momentum, d);
  } else {
    kernels_.adamw(rule.adamw, 1.f, gradient, weight, momentum, table_.second.f32() + row * d, d);
  }
  compute_inverse_norm(row);
}

void CpuMarginSoftmax::compute_inverse_norm(std::int64_t row) const {
  const float* weight = table_.weight.f32() + row * step_.dimension;
  const double squares = kernels_.sum_of_squares(weight, step_.dimension);
  constexpr double kLargest = std::numeric_limits<float>::max();
  table_.inverse_norm.f32()[row] =
      squares == 0 ? 0.f : static_cast<float>(std::min(1 / std::sqrt(squares), kLargest));
}

}  // namespace

std::unique_ptr<MarginSoftmax> make_cpu_margin_softmax(Ops& ops,
                                                       const MarginSoftmaxOptions& options,
                                                       const CentreTable& table) {
  return std::make_unique<CpuMarginSoftmax>(ops, options, table);
}

}  // namespace pfc
