#include "kernels/cpu/margin/margin_tile.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace pfc {
namespace {

TileLayout layout_of(DType type, std::int64_t dimension) {
  return {.type = type, .stride = tile_row_stride(dimension), .padded = kTileRows};
}

/// One each for weight, momentum and second moment of each row, and one for the kept products.
constexpr std::size_t kMostStretches = 3 * kTileRows + 1;
constexpr std::int64_t kCacheLine = 64;  // bytes

}  // namespace

/// Calls f(array, elements) for each array. Used by allocate() and bytes(), so both agree.
template <typename F>
void MarginTileWorker::each_array(std::size_t samples, std::size_t dimension, DType row_type,
                                  const MarginSoftmaxOptions& options, const F& f) {
  constexpr std::size_t kTile = kTileRows;
  CentreRows::each_array(scratch_, layout_of(row_type, static_cast<std::int64_t>(dimension)),
                         dimension, f);
  f(products_, kTile * samples);
  f(gradients_, std::size_t{kGradientRows} * dimension);
  f(inverse_norms_, kTile);
  f(along_, kTile);
  f(left_out_, samples * static_cast<std::size_t>(options.targets));
  f(stretches_, kMostStretches);
  for (auto* row : {&max_, &tile_max_, &tile_sum_}) f(*row, samples);
  f(sum_, samples);
  f(second_sum_, has_second_sum(options) ? samples : 0);
  const auto k = static_cast<std::size_t>(options.sub_centres);
  for (auto* tile : {&cosines_, &winners_}) f(*tile, k == 1 ? 0 : kTile / k * samples);
  f(d_unit_, samples * dimension);
}

void MarginTileWorker::allocate(const MarginStep& step) {
  dimension_ = static_cast<std::size_t>(step.rows.dimension());
  each_array(static_cast<std::size_t>(step.samples), dimension_, step.products.row_type(),
             step.options, [](auto& array, std::size_t elements) { array.resize(elements); });
}

std::int64_t MarginTileWorker::bytes(std::int64_t samples, std::int64_t dimension, DType row_type,
                                     const MarginSoftmaxOptions& options) {
  std::size_t sum = 0;
  MarginTileWorker(best_vector_kernels(), 0)
      .each_array(static_cast<std::size_t>(samples), static_cast<std::size_t>(dimension), row_type,
                  options, [&](const auto& array, std::size_t n) { sum += n * sizeof(array[0]); });
  return static_cast<std::int64_t>(sum);
}

void MarginTileWorker::begin_forward() {
  // Starts from a finite number: -infinity - max must be -infinity, not NaN.
  std::fill(max_.begin(), max_.end(), std::numeric_limits<float>::lowest());
  std::fill(sum_.begin(), sum_.end(), 0.0);
  std::fill(second_sum_.begin(), second_sum_.end(), 0.0);
}

void MarginTileWorker::begin_backward() { std::fill(d_unit_.begin(), d_unit_.end(), 0.f); }

MarginTile MarginTileWorker::describe(const MarginStep& step, const ClassTile& tile) {
  const std::int64_t k = step.options.sub_centres, first_class = tile.begin / k;
  left_out_.clear();
  for (const Positive& p : tile.positives) {
    left_out_.push_back((p.index - first_class) * step.samples + p.sample);
  }
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const double threshold = step.options.interclass_filtering_threshold;
  const std::span<const float> offsets = step.batch.offsets;
  return {.classes = tile.size() / k,
          .samples = step.samples,
          .inverse_norm = k == 1 ? inverse_norms_.data() : nullptr,
          .scale = static_cast<float>(step.options.scale),
          .limit = is_plain(step.options) ? kInfinity : 1.f,
          .threshold = threshold > 0 ? static_cast<float>(threshold) : kInfinity,
          .offsets = offsets.empty() ? nullptr : offsets.data() + first_class,
          .offset = step.batch.offset,
          .left_out = left_out_.data(),
          .left_out_count = static_cast<std::int64_t>(left_out_.size()),
          .range_begin = step.range_begin,
          .range_end = step.range_end,
          .hard_above = step.batch.hard_above.empty() ? nullptr : step.batch.hard_above.data(),
          .hardness = step.batch.hardness,
          .smoothing = step.smoothing,
          .binary = step.options.binary,
          .first_class = static_cast<std::int32_t>(first_class)};
}

void MarginTileWorker::gather(const MarginStep& step, const ClassTile& tile) {
  rows_ = step.rows.gather(step.active.part(tile.begin, tile.size()),
                           layout_of(step.products.row_type(), step.rows.dimension()),
                           prefetched(tile), scratch_, inverse_norms_.data());
}

void MarginTileWorker::prefetch_state_after(const MarginStep& step, std::int64_t index) {
  constexpr std::size_t kAhead = 4;  // rows
  const std::size_t next = static_cast<std::size_t>(index) + kAhead;
  if (next < step.active.size()) step.rows.prefetch_state(step.active[next]);
}

void MarginTileWorker::list_next(const MarginStep& step, const ClassTile& tile, bool state,
                                 int products) {
  soon_ = {};
  stretches_.clear();
  const std::int64_t steps = products * step.products.prefetch_steps(tile.size());
  if (steps == 0) return;
  if (tile.next_kept != nullptr) {
    const std::int64_t floats = (tile.next_end - tile.end) * step.samples;
    stretches_.push_back(
        {.begin = tile.next_kept, .bytes = floats * static_cast<std::int64_t>(sizeof(float))});
  }
  for (std::int64_t i = tile.end; i < tile.next_end; ++i) {
    step.rows.add_stretches(step.active[static_cast<std::size_t>(i)], state, stretches_);
  }
  std::int64_t bytes = 0;
  for (const Stretch& s : stretches_) bytes += s.bytes;
  soon_ = {.next = stretches_.data(),
           .end = stretches_.data() + stretches_.size(),
           .step = std::clamp<std::int64_t>((bytes + steps - 1) / steps, 1, kCacheLine)};
}

const float* MarginTileWorker::float_row(const MarginStep& step, const ClassTile& tile,
                                         std::int64_t row) {
  if (step.products.row_type() == DType::kFloat32) {
    return static_cast<const float*>(rows_) +
           (row - tile.begin) * tile_row_stride(step.rows.dimension());
  }
  return step.rows.row(step.active[static_cast<std::size_t>(row)], scratch_);
}

double MarginTileWorker::target_cosine(const MarginStep& step, const Positive& p) {
  const std::int64_t d = step.rows.dimension(), first = p.index * step.options.sub_centres;
  double largest = -std::numeric_limits<double>::infinity();
  for (std::int64_t row = first; row < first + step.options.sub_centres; ++row) {
    const float* const w = step.rows.row(step.active[static_cast<std::size_t>(row)], scratch_);
    const double cos = angle_between(step.batch.embeddings.f32() + p.sample * d, w, d).cos;
    if (replaces(cos, largest)) largest = cos;
  }
  return largest;
}

/// Sets the angle and the row of the tile's positive k.
void MarginTileWorker::find_angle(const MarginStep& step, const ClassTile& tile, std::size_t k) {
  const Positive& p = tile.positives[k];
  const std::int64_t place = tile.first_positive + static_cast<std::int64_t>(k);
  const std::int64_t d = step.rows.dimension(), first = p.index * step.options.sub_centres;
  for (std::int64_t row = first; row < first + step.options.sub_centres; ++row) {
    const Angle angle = angle_between(step.batch.embeddings.f32() + p.sample * d,
                                      float_row(step, tile, row), d, step.options.target_form);
    if (row > first && !replaces(angle.cos, step.angles[place].cos)) continue;
    step.angles[place] = angle;
    step.target_rows[place] = row;
  }
}

float* MarginTileWorker::reduce_to_classes(const MarginStep& step, const ClassTile& tile,
                                           float* products) {
  const std::int64_t k = step.options.sub_centres;
  if (k == 1) return products;
  kernels_.largest_cosines({.classes = tile.size() / k,
                            .sub_centres = k,
                            .samples = step.samples,
                            .inverse_norm = inverse_norms_.data()},
                           products, cosines_.data(), winners_.data());
  return cosines_.data();
}

void MarginTileWorker::forward(const MarginStep& step, const ClassTile& tile) {
  gather(step, tile);
  list_next(step, tile, false, 1);
  float* const products = tile.kept != nullptr ? tile.kept : products_.data();
  failed_ |= !step.products.forward(part_, rows_, tile.size(), products, soon_);
  if (step.teacher != nullptr) step.teacher->forward(part_, distilled(step, tile, products));
  for (std::size_t k = 0; k < tile.positives.size(); ++k) find_angle(step, tile, k);
  const MarginTile t = describe(step, tile);
  float* const logits = products_.data();
  kernels_.margin_logits(t, reduce_to_classes(step, tile, products), logits, tile_max_.data());
  if (step.options.binary) return add_binary(t, logits);
  if (!second_sum_.empty()) add_logits(t.classes, logits);
  for (std::size_t i = 0; i < max_.size(); ++i) {
    if (!(tile_max_[i] > max_[i])) continue;
    sum_[i] *= std::exp(static_cast<double>(max_[i]) - static_cast<double>(tile_max_[i]));
    max_[i] = tile_max_[i];
  }
  kernels_.margin_exp_sums(t, logits, max_.data(), tile_sum_.data());
  for (std::size_t i = 0; i < sum_.size(); ++i) sum_[i] += static_cast<double>(tile_sum_[i]);
}

void MarginTileWorker::add_binary(const MarginTile& tile, const float* logits) {
  float* const probabilities = tile_max_.data();
  kernels_.margin_binary_sums(tile, logits, tile_sum_.data(), probabilities);
  std::ranges::fill(max_, 0.f);
  for (std::size_t i = 0; i < sum_.size(); ++i) {
    sum_[i] += static_cast<double>(tile_sum_[i]);
    second_sum_[i] += static_cast<double>(probabilities[i]);
  }
}

/// Adds the tile's logits to second_sum_. Leaves out logits of -infinity.
void MarginTileWorker::add_logits(std::int64_t classes, const float* logits) {
  for (std::int64_t j = 0; j < classes; ++j) {
    for (double& sum : second_sum_) {
      const float logit = *logits++;
      if (logit != -std::numeric_limits<float>::infinity()) sum += static_cast<double>(logit);
    }
  }
}

RowStatistics MarginTileWorker::statistics(std::int64_t sample) const {
  const auto i = static_cast<std::size_t>(sample);
  RowStatistics s;
  if (sum_[i] != 0) {
    s.max = static_cast<double>(max_[i]);
    s.sum = sum_[i];
  }
  return s;
}

void MarginTileWorker::begin_tile(const MarginStep& step, const ClassTile& tile,
                                  TileGradients wanted) {
  gather(step, tile);
  list_next(step, tile, wanted.centres && wanted.state,
            int{tile.kept == nullptr} + int{wanted.embeddings} + int{wanted.centres});
  float* products = tile.kept;
  if (products == nullptr) {
    products = products_.data();
    failed_ |= !step.products.forward(part_, rows_, tile.size(), products, soon_);
  } else if (step.teacher != nullptr && !wanted.centres) {
    // Copies them, because margin_gradients() overwrites the targets' products, and a later pass
    // for the centres needs all kept products again.
    std::copy_n(products, tile.size() * step.samples, products_.data());
    products = products_.data();
  }
  if (step.teacher != nullptr) step.teacher->backward(part_, distilled(step, tile, products));
  // Replaces products by d loss / d cos / |centre|, the factor in both following matrix products.
  const MarginTile t = describe(step, tile);
  float* const of_classes = reduce_to_classes(step, tile, products);
  kernels_.margin_gradients(t, of_classes, step.max, step.factor,
                            of_classes == products ? products_.data() : of_classes, along_.data());
  if (of_classes != products) {
    kernels_.spread_gradients({.classes = t.classes,
                               .sub_centres = step.options.sub_centres,
                               .samples = step.samples,
                               .inverse_norm = inverse_norms_.data()},
                              products, of_classes, winners_.data(), products_.data(),
                              along_.data());
  }
  if (step.teacher != nullptr) {
    step.teacher->add_gradients(part_, tile.size(), products_.data(), along_.data());
  }
  if (is_plain(step.options)) std::ranges::fill(along_, 0.f);
  step.products.set_factors(part_, products_.data(), tile.size());
  if (!wanted.embeddings) return;
  failed_ |= !step.products.add_embedding_gradients(part_, rows_, d_unit_.data(), soon_);
  add_to_embeddings(step, tile);
}

void MarginTileWorker::compute_gradients(const MarginStep& step, const ClassTile& tile,
                                         std::int64_t first, std::int64_t end) {
  failed_ |= !step.products.centre_gradients(part_, first, end - first, gradients_.data(), soon_);
  add_to_centres(step, tile, first, end);
}

/// Returns d loss / d cos of a target.
double MarginTileWorker::target_factor(const MarginStep& step, const ClassTile& tile,
                                       std::size_t k) const {
  const std::int64_t positive = tile.first_positive + static_cast<std::int64_t>(k);
  const Margin& margin = margin_of(step.options, step.batch, tile.positives[k].sample);
  return step.target_factor[positive] * margin_slope(margin, step.options.margin_gradient,
                                                     step.angles[positive],
                                                     step.options.target_form);
}

// The targets' gradients are computed in float64 from the two vectors, as mutually orthogonal
// components (kernels/math/margin.h), because 1 / sin theta can be huge where the orthogonal
// component is tiny.
void MarginTileWorker::add_to_embeddings(const MarginStep& step, const ClassTile& tile) {
  const std::int64_t d = step.rows.dimension();
  for (std::size_t k = 0; k < tile.positives.size(); ++k) {
    const Positive& p = tile.positives[k];
    const Angle& angle = step.angles[tile.first_positive + static_cast<std::int64_t>(k)];
    const double factor = target_factor(step, tile, k);
    const float* x = step.batch.embeddings.f32() + p.sample * d;
    const float* w = float_row(step, tile, target_row(step, tile, k));
    float* dx = d_unit_.data() + p.sample * d;
    for (std::int64_t i = 0; i < d; ++i) {
      dx[i] += static_cast<float>(factor * across_a(angle, x[i], w[i]));
    }
  }
}

/// Adds the targets' gradients to the gradients of the tile's rows [first, end).
void MarginTileWorker::add_to_centres(const MarginStep& step, const ClassTile& tile,
                                      std::int64_t first, std::int64_t end) {
  const std::int64_t d = step.rows.dimension();
  for (std::size_t k = 0; k < tile.positives.size(); ++k) {
    const Positive& p = tile.positives[k];
    const std::int64_t row = target_row(step, tile, k) - tile.begin;
    if (row < first || row >= end) continue;
    const Angle& angle = step.angles[tile.first_positive + static_cast<std::int64_t>(k)];
    const double factor = target_factor(step, tile, k);
    const float* x = step.batch.embeddings.f32() + p.sample * d;
    const float* w = float_row(step, tile, tile.begin + row);
    float* dw = gradients_.data() + (row - first) * d;
    for (std::int64_t i = 0; i < d; ++i) {
      dw[i] += static_cast<float>(factor * across_b(angle, x[i], w[i]) * angle.inverse_b);
    }
  }
}

}  // namespace pfc
