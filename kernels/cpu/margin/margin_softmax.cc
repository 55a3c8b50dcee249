// The margin softmax on CPUs. Each thread computes a contiguous part of the active classes, tile
// by tile, including the matrix products, so a tile stays in that core's cache from its products
// to its update. The parts are fixed and their sums are added in order, so the result is
// bit-identical every time.

#include "kernels/cpu/margin/margin_softmax.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "kernels/cpu/margin/centre_rows.h"
#include "kernels/cpu/margin/margin_tile.h"
#include "kernels/cpu/margin/teacher_logits.h"
#include "kernels/cpu/margin/tile_products.h"
#include "kernels/cpu/ops/cpu_ops.h"
#include "kernels/cpu/runtime/aligned_memory.h"
#include "kernels/cpu/runtime/threads.h"
#include "kernels/math/margin.h"
#include "kernels/math/optimizer.h"

namespace pfc {
namespace {

/// Data of one step for each of the N samples.
struct SampleArrays {
  std::vector<float> unit, d_unit;               // [N, D]
  std::vector<float> inverse_norm, max, factor;  // [N]
  std::vector<float> smoothing;                  // [N], with label_smoothing
  std::vector<double> target_factor;             // [positives]
  std::vector<RowSoftmax> softmax;               // [N]
  std::vector<Angle> angles;                     // [positives]
  std::vector<std::int64_t> target_rows;         // [positives]
  // [N], only if a sample may have several targets: this worker's part of the mean of their logits,
  // and the log sum exp of the logits of a sample's targets on all workers.
  std::vector<double> target_mean, all_targets;
  std::vector<std::int32_t> range_begin, range_end;  // [N], if the batch has ranges

  /// Calls f(array, elements) for each array. Used to allocate and to count, so both agree.
  template <typename F>
  void each(std::size_t samples, std::size_t dimension, std::size_t positives,
            const MarginSoftmaxOptions& options, const F& f) {
    for (auto* array : {&unit, &d_unit}) f(*array, samples * dimension);
    for (auto* array : {&inverse_norm, &max, &factor}) f(*array, samples);
    f(target_factor, positives);
    f(softmax, samples);
    f(angles, positives);
    f(target_rows, positives);
    for (auto* array : {&target_mean, &all_targets}) f(*array, options.targets > 1 ? samples : 0);
    for (auto* array : {&range_begin, &range_end}) f(*array, options.ranges ? samples : 0);
    f(smoothing, options.label_smoothing > 0 ? samples : 0);
  }
};

/// How many tiles per thread keep their products, so that these fit into the budget in bytes.
struct KeptTiles {
  KeptTiles(std::int64_t active, std::int64_t samples, std::int64_t threads,
            const MarginSoftmaxOptions& options)
      : bytes_each(threads * kTileRows * samples * static_cast<std::int64_t>(sizeof(float))),
        most(options.logits_bytes / bytes_each) {
    const std::int64_t rows = active * options.sub_centres;
    const std::int64_t at_once = rows_of_tile(options.sub_centres) * threads;
    all = (rows + at_once - 1) / at_once;
  }
  std::int64_t bytes_each;  // one tile of every thread
  std::int64_t all = 0;     // tiles per thread
  std::int64_t most;        // maximum within the budget
  [[nodiscard]] std::int64_t kept() const { return std::min(all, most); }
  /// Includes a few spare tiles, because the number of sampled classes varies between steps.
  [[nodiscard]] std::int64_t room() const { return std::min(all + all / 16, most); }
};

/// Copies x [N, D] to y [N, D + 1], where each row ends with a 1.
void append_ones(const Tensor& x, const Tensor& y) {
  const std::int64_t n = x.shape[0], d = x.shape[1];
  for (std::int64_t i = 0; i < n; ++i) {
    std::copy_n(x.f32() + i * d, d, y.f32() + i * (d + 1));
    y.f32()[i * (d + 1) + d] = 1.f;
  }
}

/// Copies x [N, D + 1] to y [N, D], without the last element of each row.
void remove_ones(const Tensor& x, const Tensor& y) {
  const std::int64_t n = y.shape[0], d = y.shape[1];
  for (std::int64_t i = 0; i < n; ++i) std::copy_n(x.f32() + i * (d + 1), d, y.f32() + i * d);
}

class CpuMarginSoftmax : public MarginSoftmax {
 public:
  CpuMarginSoftmax(CpuOps& ops, const MarginSoftmaxOptions& options, const CentreTable& table)
      : MarginSoftmax(options, table),
        ops_(ops),
        kernels_(best_vector_kernels()),
        threads_(ops.threads()),
        rows_(table_, options, kernels_),
        products_(options.bf16_products ? make_bfloat16_tile_products()
                                        : make_float_tile_products(kernels_)),
        step_{.options = options_, .rows = rows_, .products = *products_, .batch = {}} {
    for (int part = 0; part < threads_.count(); ++part) workers_.emplace_back(kernels_, part);
    if (options_.distillation.on()) step_.teacher = &distillation_.emplace(options_, kernels_);
  }

  void move(const Update& update) override;

 private:
  void run_compute_inverse_norms(std::int64_t begin, std::int64_t end) override {
    const std::int64_t first = table_.first_class * options_.sub_centres + begin;
    each_row(end - begin, 1, [&](std::int64_t row, CentreRows::Scratch& /*scratch*/) {
      rows_.compute_inverse_norm(first + row);
    });
  }
  void run_find_targets(const Batch& batch, const Tensor& cosines) override;
  void run_forward(const Batch& batch, const Tensor& statistics, const Tensor& logits) override;
  void run_merge_parts(const Tensor& parts) override;
  double run_combine(const Tensor& statistics, const Tensor& logits) override;
  void run_backward(double gradient_scale, const Tensor& d_embeddings,
                    const Update& update) override;
  void run_backward_embeddings(double gradient_scale, const Tensor& d_embeddings) override;
  void run_backward_accumulate(double gradient_scale, const Tensor& d_embeddings,
                               const Tensor& gradients,
                               std::span<const std::int64_t> slots) override;
  void run_update(std::span<const std::int64_t> classes, std::span<const std::int64_t> slots,
                  const Tensor& gradients, const Update& update) override;
  void run_settle(std::span<const std::int64_t> classes) override;
  void run_target_cosines(std::span<float> cosines) override;

  void prepare(const Batch& batch);
  void take_ranges(std::span<const ActiveRange> ranges);
  [[nodiscard]] double target_logit(std::size_t positive) const;
  void add_targets(std::span<RowStatistics> rows);
  void sum_logits(std::span<const RowStatistics> rows, const Tensor& logits) const;
  void write_distilled_sums(const Tensor& logits) const;
  [[nodiscard]] ActiveRows catch_up(std::span<const std::int64_t> classes);
  /// Returns the row of the gradients [.., D] that belongs to row i; `slots` has an element for
  /// each class.
  [[nodiscard]] std::int64_t row_of_slot(std::span<const std::int64_t> slots,
                                         std::int64_t i) const {
    const std::int64_t k = options_.sub_centres;
    return slots[static_cast<std::size_t>(i / k)] * k + i % k;
  }
  void check_products() const;
  void set_factors(double gradient_scale);
  void add_length_gradients(double gradient_scale, const Tensor& d_embeddings) const;
  void plan_kept_tiles();
  template <typename F>  // void(std::int64_t row, CentreRows::Scratch&)
  void each_row(std::int64_t rows, std::int64_t align, const F& f);
  template <typename Sink>  // void(std::int64_t active_index, const CentreGradient&, Scratch&)
  void backward_tiles(TileGradients wanted, const Sink& sink);
  void finish_embeddings(double gradient_scale, const Tensor& d_embeddings);
  void move_centres(TileGradients wanted, const Update& update);
  template <typename F>  // void(MarginTileWorker&, const ClassTile&)
  void each_tile_of(int part, const F& f);

  CpuOps& ops_;
  const VectorKernels& kernels_;
  const Threads threads_;
  const CentreRows rows_;
  const std::unique_ptr<TileProducts> products_;
  MarginStep step_;
  std::optional<TeacherLogits> distillation_;
  CatchUpPlan missed_;                     // for the rows of the current call
  std::vector<MarginTileWorker> workers_;  // one per thread
  AlignedMemory kept_;                     // [threads, kept_tiles_, tile, N]
  std::int64_t kept_tiles_ = 0;            // number of first tiles per thread that are kept
  SampleArrays arrays_;
};

void CpuMarginSoftmax::prepare(const Batch& batch) {
  threads_.apply();  // without a team (one thread), oneDNN would use all cores
  const Tensor& x = batch.embeddings;
  const std::int64_t n = x.shape[0];
  const std::int64_t d = rows_.dimension();
  arrays_.each(static_cast<std::size_t>(n), static_cast<std::size_t>(d), batch.positives.size(),
               options_, [](auto& array, std::size_t elements) { array.resize(elements); });
  const Tensor unit(arrays_.unit.data(), {n, d});
  step_.batch = batch;
  if (is_plain(options_)) {
    append_ones(x, unit);
    step_.batch.embeddings = unit;
  } else {
    ops_.normalise_rows(x, unit, Tensor(arrays_.inverse_norm.data(), {n}));
  }
  products_->set_embeddings(arrays_.unit.data(), n, d, threads_.count());
  step_.active = catch_up(batch.classes);
  step_.samples = n;
  step_.angles = arrays_.angles.data();
  step_.target_rows = arrays_.target_rows.data();
  take_ranges(batch.ranges);
  if (distillation_) distillation_->begin(ops_, batch.teacher, teacher_, table_.first_class);
  for (MarginTileWorker& worker : workers_) worker.allocate(step_);
  plan_kept_tiles();
}

void CpuMarginSoftmax::take_ranges(std::span<const ActiveRange> ranges) {
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    arrays_.range_begin[i] = ranges[i].begin;
    arrays_.range_end[i] = ranges[i].end;
  }
  step_.range_begin = ranges.empty() ? nullptr : arrays_.range_begin.data();
  step_.range_end = ranges.empty() ? nullptr : arrays_.range_end.data();
}

ActiveRows CpuMarginSoftmax::catch_up(std::span<const std::int64_t> classes) {
  missed_.make(*table_.history, table_.updated, table_.first_class, classes);
  return {.classes = classes,
          .index = missed_.index(),
          .table = missed_.table(),
          .sub_centres = options_.sub_centres};
}

void CpuMarginSoftmax::plan_kept_tiles() {
  const KeptTiles tiles(static_cast<std::int64_t>(step_.batch.classes.size()), step_.samples,
                        threads_.count(), options_);
  kept_tiles_ = tiles.kept();
  if (static_cast<std::size_t>(kept_tiles_ * tiles.bytes_each) <= kept_.bytes()) return;
  kept_ = {};  // freed first, because old and new memory together might not fit
  kept_ = AlignedMemory(static_cast<std::size_t>(tiles.room() * tiles.bytes_each));
}

/// Calls f(row, scratch) for row = 0 to rows - 1, in parallel. `scratch` is memory of the calling
/// thread. The first row of each thread is a multiple of `align`.
template <typename F>
void CpuMarginSoftmax::each_row(std::int64_t rows, std::int64_t align, const F& f) {
  for (MarginTileWorker& worker : workers_) {  // threads of a team must not throw
    CentreRows::allocate_rows(worker.scratch(), static_cast<std::size_t>(rows_.dimension()));
  }
  threads_.each_part([&](int part) {
    const Range range = part_of(rows, part, threads_.count(), align);
    CentreRows::Scratch& scratch = workers_[static_cast<std::size_t>(part)].scratch();
    for (std::int64_t row = range.begin; row < range.end; ++row) f(row, scratch);
  });
}

template <typename F>
void CpuMarginSoftmax::each_tile_of(int part, const F& f) {
  const auto active = static_cast<std::int64_t>(step_.active.size());
  const std::span<const Positive> positives = step_.batch.positives;
  const std::int64_t k = options_.sub_centres, rows = rows_of_tile(k);
  const Range range = part_of(active, part, threads_.count(), rows);
  const auto before = [k](const Positive& p, std::int64_t row) { return p.index * k < row; };
  auto positive = std::lower_bound(positives.begin(), positives.end(), range.begin, before);
  const std::int64_t tile_size = kTileRows * step_.samples;
  auto* const kept = reinterpret_cast<float*>(kept_.data()) + part * kept_tiles_ * tile_size;
  std::int64_t number = 0;
  for (std::int64_t begin = range.begin; begin < range.end; begin += rows, ++number) {
    const std::int64_t end = std::min(begin + rows, range.end);
    const auto last = std::lower_bound(positive, positives.end(), end, before);
    f(workers_[static_cast<std::size_t>(part)],
      ClassTile{.begin = begin,
                .end = end,
                .positives = {positive, last},
                .first_positive = positive - positives.begin(),
                .kept = number < kept_tiles_ ? kept + number * tile_size : nullptr,
                .next_end = std::min(end + rows, range.end),
                .next_kept = end < range.end && number + 1 < kept_tiles_
                                 ? kept + (number + 1) * tile_size
                                 : nullptr,
                .first = number == 0});
    positive = last;
  }
}

void CpuMarginSoftmax::run_find_targets(const Batch& batch, const Tensor& cosines) {
  prepare(batch);
  float* const out = cosines.f32();
  std::fill_n(out, step_.samples, 0.f);
  const auto count = static_cast<std::int64_t>(batch.positives.size());
  threads_.each_part([&](int part) {
    const Range range = part_of(count, part, threads_.count());
    for (std::int64_t k = range.begin; k < range.end; ++k) {
      const Positive& p = batch.positives[static_cast<std::size_t>(k)];
      out[p.sample] =
          static_cast<float>(workers_[static_cast<std::size_t>(part)].target_cosine(step_, p));
    }
  });
}

void CpuMarginSoftmax::run_forward(const Batch& batch, const Tensor& statistics,
                                   const Tensor& logits) {
  prepare(batch);
  const auto n = static_cast<std::size_t>(step_.samples);
  threads_.each_part([&](int part) {
    workers_[static_cast<std::size_t>(part)].begin_forward();
    if (distillation_) distillation_->begin_forward(part);
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
  add_targets(rows);
  if (logits) sum_logits(rows, logits);
  if (distillation_) write_distilled_sums(logits);
}

void CpuMarginSoftmax::write_distilled_sums(const Tensor& logits) const {
  const std::int64_t n = step_.samples;
  float* const out = logits.f32() + distilled_row(options_) * n;
  for (std::int64_t i = 0; i < n; ++i) {
    const DistilledSums sums = distillation_->sums(i);
    out[i] = static_cast<float>(sums.network);
    out[n + i] = static_cast<float>(sums.teacher);
    out[2 * n + i] = static_cast<float>(sums.difference);
  }
}

double CpuMarginSoftmax::target_logit(std::size_t positive) const {
  const std::int64_t sample = step_.batch.positives[positive].sample;
  return options_.scale * margin_target(margin_of(options_, step_.batch, sample),
                                        options_.margin_gradient, arrays_.angles[positive],
                                        options_.target_form);
}

void CpuMarginSoftmax::add_targets(std::span<RowStatistics> rows) {
  std::ranges::fill(arrays_.target_mean, 0.0);
  for (std::size_t k = 0; k < arrays_.angles.size(); ++k) {
    const std::int64_t sample = step_.batch.positives[k].sample;
    const auto i = static_cast<std::size_t>(sample);
    const double logit = target_logit(k);
    add_target(rows[i], logit);
    if (options_.targets > 1) {
      arrays_.target_mean[i] += target_share(step_.batch, sample) * logit;
    }
  }
}

/// Fills logits [summed_numbers(), N].
void CpuMarginSoftmax::sum_logits(std::span<const RowStatistics> rows, const Tensor& logits) const {
  const std::int64_t n = step_.samples;
  if (options_.binary) {
    for (std::int64_t i = 0; i < n; ++i) {
      double sum = 0;
      for (const MarginTileWorker& worker : workers_) sum += worker.second_sum(i);
      logits.f32()[i] = static_cast<float>(sum);
    }
    return;
  }
  if (options_.targets > 1) {
    std::ranges::transform(arrays_.target_mean, logits.f32() + mean_row(options_) * n,
                           [](double mean) { return static_cast<float>(mean); });
  }
  if (options_.label_smoothing == 0) return;
  const auto classes = static_cast<std::int64_t>(step_.batch.classes.size());
  for (std::int64_t i = 0; i < n; ++i) {
    const auto k = static_cast<std::size_t>(i);
    double sum = std::isinf(rows[k].target) ? 0 : rows[k].target;
    if (options_.targets > 1) sum = arrays_.target_mean[k] / target_share(step_.batch, i);
    for (const MarginTileWorker& worker : workers_) sum += worker.second_sum(i);
    logits.f32()[i] = static_cast<float>(sum);
    const std::span<const ActiveRange> ranges = step_.batch.ranges;
    logits.f32()[n + i] =
        static_cast<float>(ranges.empty() ? classes : ranges[k].end - ranges[k].begin);
  }
}

void CpuMarginSoftmax::run_target_cosines(std::span<float> cosines) {
  const std::span<const Positive> positives = step_.batch.positives;
  for (const Positive& p : positives) cosines[static_cast<std::size_t>(p.sample)] = 0;
  for (std::size_t k = 0; k < positives.size(); ++k) {
    const std::int64_t sample = positives[k].sample;
    cosines[static_cast<std::size_t>(sample)] +=
        static_cast<float>(target_share(step_.batch, sample) * arrays_.angles[k].cos);
  }
}

// Throws if a thread of the team has failed; threads of a team must not throw themselves.
void CpuMarginSoftmax::check_products() const {
  const bool teacher_failed = distillation_ && distillation_->failed();
  if (teacher_failed || std::ranges::any_of(workers_, &MarginTileWorker::failed)) {
    throw DeviceError("CPU: oneDNN's GEMM failed in the margin softmax");
  }
}

void CpuMarginSoftmax::run_merge_parts(const Tensor& parts) {
  const std::int64_t n = parts.shape[1];
  auto* const rows = static_cast<RowStatistics*>(parts.data);
  for (std::int64_t i = 0; i < n; ++i) {
    RowStatistics all;
    for (std::int64_t w = 0; w < parts.shape[0]; ++w) merge(all, rows[w * n + i]);
    rows[i] = all;
  }
}

double CpuMarginSoftmax::run_combine(const Tensor& statistics, const Tensor& logits) {
  const auto n = static_cast<std::size_t>(step_.samples);
  const auto* rows = static_cast<const RowStatistics*>(statistics.data);
  double loss = 0, threshold = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const RowStatistics& all = rows[i];
    arrays_.softmax[i] = options_.binary ? row_binary(all) : row_softmax(all);
    if (options_.binary) threshold += arrays_.softmax[i].others - double{logits.f32()[i]};
    double target = all.target;
    if (options_.targets > 1) {
      arrays_.all_targets[i] = all.target;
      // The mean is rounded to float32. A single target is its own mean.
      const auto row = static_cast<std::size_t>(mean_row(options_));
      if (target_share(step_.batch, static_cast<std::int64_t>(i)) < 1) {
        target = double{logits.f32()[row * n + i]};
      }
      spread_over_targets(arrays_.softmax[i], all.target, target);
    }
    if (options_.label_smoothing > 0) {
      smooth_labels(arrays_.softmax[i], options_.label_smoothing, target, double{logits.f32()[i]},
                    double{logits.f32()[n + i]});
    }
    arrays_.max[i] = all.sum == 0 ? 0.f : static_cast<float>(all.max);
    loss += arrays_.softmax[i].loss;
  }
  threshold_gradient_ = threshold / static_cast<double>(n);
  if (distillation_) {
    const auto first = static_cast<std::size_t>(distilled_row(options_)) * n;
    logits_loss_ = distillation_->combine(logits.f32() + first);
  }
  return loss / static_cast<double>(n);
}

void CpuMarginSoftmax::set_factors(double gradient_scale) {
  const double factor = gradient_scale * options_.scale / static_cast<double>(step_.samples);
  for (std::size_t i = 0; i < arrays_.softmax.size(); ++i) {
    arrays_.factor[i] = static_cast<float>(factor * arrays_.softmax[i].probability);
  }
  for (std::size_t k = 0; k < arrays_.target_factor.size(); ++k) {
    const std::int64_t sample = step_.batch.positives[k].sample;
    const auto i = static_cast<std::size_t>(sample);
    TargetShare share;
    if (options_.targets > 1) {
      share = {.wanted = target_share(step_.batch, sample),
               .of_targets = std::exp(target_logit(k) - arrays_.all_targets[i])};
    }
    arrays_.target_factor[k] =
        -factor * target_pull(arrays_.softmax[i], options_.label_smoothing, share);
  }
  for (std::size_t i = 0; i < arrays_.smoothing.size(); ++i) {
    arrays_.smoothing[i] = static_cast<float>(factor * arrays_.softmax[i].uniform);
  }
  if (distillation_) distillation_->set_gradient_scale(gradient_scale);
  step_.smoothing = arrays_.smoothing.empty() ? nullptr : arrays_.smoothing.data();
  step_.max = arrays_.max.data();
  step_.factor = arrays_.factor.data();
  step_.target_factor = arrays_.target_factor.data();
}

template <typename Sink>
void CpuMarginSoftmax::backward_tiles(TileGradients wanted, const Sink& sink) {
  threads_.each_part([&](int part) {
    workers_[static_cast<std::size_t>(part)].begin_backward();
    each_tile_of(part, [&](MarginTileWorker& worker, const ClassTile& tile) {
      worker.backward(step_, tile, wanted, sink);
    });
  });
  check_products();
}

// Adds the gradients of the embeddings' lengths, each in the direction of its embedding. Only the
// worker that has the sample's class adds it.
void CpuMarginSoftmax::add_length_gradients(double gradient_scale,
                                            const Tensor& d_embeddings) const {
  const double weight = gradient_scale / static_cast<double>(step_.samples);
  const std::int64_t d = rows_.dimension();
  for (std::size_t k = 0; k < arrays_.angles.size(); ++k) {
    const std::int64_t sample = step_.batch.positives[k].sample;
    const auto i = static_cast<std::size_t>(sample);
    const auto along =
        static_cast<float>(length_gradient(step_.batch.margins[i], options_.target_form,
                                           arrays_.angles[k], arrays_.target_factor[k], weight));
    const float* const unit = arrays_.unit.data() + sample * d;
    float* const dx = d_embeddings.f32() + sample * d;
    for (std::int64_t j = 0; j < d; ++j) dx[j] += along * unit[j];
  }
}

void CpuMarginSoftmax::finish_embeddings(double gradient_scale, const Tensor& d_embeddings) {
  const std::int64_t n = step_.samples;
  const std::int64_t d = rows_.dimension();
  threads_.each_range(n * d, 64, n * d, [&](Range range) {
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      float sum = 0;
      for (const MarginTileWorker& worker : workers_) sum += worker.d_unit()[i];
      arrays_.d_unit[static_cast<std::size_t>(i)] = sum;
    }
  });
  const Tensor d_unit(arrays_.d_unit.data(), {n, d});
  if (is_plain(options_)) return remove_ones(d_unit, d_embeddings);
  ops_.normalise_rows_backward(d_unit, Tensor(arrays_.unit.data(), {n, d}),
                               Tensor(arrays_.inverse_norm.data(), {n}), d_embeddings);
  if (options_.sample_margins) add_length_gradients(gradient_scale, d_embeddings);
}

void CpuMarginSoftmax::run_backward(double gradient_scale, const Tensor& d_embeddings,
                                    const Update& update) {
  set_factors(gradient_scale);
  move_centres({}, update);
  finish_embeddings(gradient_scale, d_embeddings);
}

void CpuMarginSoftmax::run_backward_embeddings(double gradient_scale, const Tensor& d_embeddings) {
  set_factors(gradient_scale);
  backward_tiles({.centres = false},
                 [](std::int64_t, const CentreGradient&, CentreRows::Scratch&) {});
  finish_embeddings(gradient_scale, d_embeddings);
}

void CpuMarginSoftmax::move(const Update& update) { move_centres({.embeddings = false}, update); }

void CpuMarginSoftmax::move_centres(TileGradients wanted, const Update& update) {
  const UpdateRule rule(options_, update, *table_.history);
  backward_tiles(wanted,
                 [&](std::int64_t i, const CentreGradient& gradient, CentreRows::Scratch& scratch) {
                   rows_.move(step_.active[static_cast<std::size_t>(i)], gradient, rule, scratch);
                 });
  table_.history->add(rule.past);
}

void CpuMarginSoftmax::run_backward_accumulate(double gradient_scale, const Tensor& d_embeddings,
                                               const Tensor& gradients,
                                               std::span<const std::int64_t> slots) {
  set_factors(gradient_scale);
  backward_tiles({.state = false}, [&](std::int64_t i, const CentreGradient& gradient,
                                       CentreRows::Scratch& scratch) {
    rows_.add_gradient(step_.active[static_cast<std::size_t>(i)], gradient,
                       gradients.f32() + row_of_slot(slots, i) * rows_.dimension(), scratch);
  });
  finish_embeddings(gradient_scale, d_embeddings);
}

void CpuMarginSoftmax::run_update(std::span<const std::int64_t> classes,
                                  std::span<const std::int64_t> slots, const Tensor& gradients,
                                  const Update& update) {
  const UpdateRule rule(options_, update, *table_.history);
  const ActiveRows rows = catch_up(classes);
  each_row(static_cast<std::int64_t>(rows.size()), options_.sub_centres,
           [&](std::int64_t i, CentreRows::Scratch& scratch) {
             const float* sum = gradients.f32() + row_of_slot(slots, i) * rows_.dimension();
             rows_.move(rows[static_cast<std::size_t>(i)],
                        {.gradient = sum, .along = 0, .inverse_norm = 0}, rule, scratch);
           });
  table_.history->add(rule.past);
}

void CpuMarginSoftmax::run_settle(std::span<const std::int64_t> classes) {
  const ActiveRows rows = catch_up(classes);
  each_row(static_cast<std::int64_t>(rows.size()), options_.sub_centres,
           [&](std::int64_t i, CentreRows::Scratch& scratch) {
             rows_.settle(rows[static_cast<std::size_t>(i)], table_.history->count(), scratch);
           });
}

}  // namespace

std::unique_ptr<MarginSoftmax> make_cpu_margin_softmax(Ops& ops,
                                                       const MarginSoftmaxOptions& options,
                                                       const CentreTable& table) {
  auto* const cpu = dynamic_cast<CpuOps*>(&ops);
  check(cpu != nullptr, "margin softmax: expected the Ops of a CPU");
  return std::make_unique<CpuMarginSoftmax>(*cpu, options, table);
}

CpuMarginBytes cpu_margin_bytes(const MarginSoftmaxOptions& options, const CpuMarginSizes& s) {
  const KeptTiles tiles(s.active, s.samples, s.threads, options);
  const auto n = static_cast<std::size_t>(s.samples);
  std::size_t arrays = 0;
  SampleArrays().each(
      n, static_cast<std::size_t>(s.dimension), n * static_cast<std::size_t>(options.targets),
      options,
      [&](const auto& array, std::size_t elements) { arrays += elements * sizeof(array[0]); });
  const DType rows = options.bf16_products ? DType::kBFloat16 : DType::kFloat32;
  return {.kept = tiles.kept() * tiles.bytes_each,
          .working = static_cast<std::int64_t>(arrays) +
                     tile_products_bytes(options.bf16_products, s.samples, s.dimension, s.threads) +
                     s.threads * MarginTileWorker::bytes(s.samples, s.dimension, rows, options) +
                     TeacherLogits::bytes(options, s.samples, s.threads)};
}

}  // namespace pfc
