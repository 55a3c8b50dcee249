#include "kernels/cpu/margin_tile.h"

#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace pfc {

void MarginTileWorker::allocate(const MarginStep& step) {
  const auto n = static_cast<std::size_t>(step.samples);
  const auto d = static_cast<std::size_t>(step.dimension);
  products_.resize(n * kTileClasses);
  gathered_.resize(d * kTileClasses);
  gradients_.resize(d * kTileClasses);
  inverse_norms_.resize(kTileClasses);
  targets_.reserve(n);
  for (auto* row : {&max_, &tile_max_, &tile_sum_}) row->resize(n);
  sum_.resize(n);
  d_unit_.resize(n * d);
}

void MarginTileWorker::begin_forward() {
  // Finite, so that -infinity - max is -infinity and not a NaN.
  std::fill(max_.begin(), max_.end(), std::numeric_limits<float>::lowest());
  std::fill(sum_.begin(), sum_.end(), 0.0);
}

void MarginTileWorker::begin_backward() { std::fill(d_unit_.begin(), d_unit_.end(), 0.f); }

// c [m, n] = op(a) [m, k] b [k, n] + beta c. Within a team oneDNN uses the calling thread alone.
void MarginTileWorker::multiply(char transpose_a, std::int64_t m, std::int64_t n, std::int64_t k,
                                const float* a, const float* b, float beta, float* c) {
  const std::int64_t lda = transpose_a == 'T' ? m : k;
  const auto status = dnnl_sgemm(transpose_a, 'N', m, n, k, 1.f, a, lda, b, n, beta, c, n);
  failed_ = failed_ || status != dnnl_success;
}

MarginTile MarginTileWorker::describe(const MarginStep& step, const ClassTile& tile) {
  targets_.clear();
  for (const Positive& p : tile.positives) {
    targets_.push_back((p.index - tile.begin) * step.samples + p.sample);
  }
  const double threshold = step.options.interclass_filtering_threshold;
  return {.classes = tile.size(),
          .samples = step.samples,
          .inverse_norm = inverse_norms_.data(),
          .scale = static_cast<float>(step.options.scale),
          .threshold = threshold > 0 ? static_cast<float>(threshold)
                                     : std::numeric_limits<float>::infinity(),
          .target = targets_.data(),
          .targets = static_cast<std::int64_t>(targets_.size())};
}

// rows_ and inverse_norms_ of the tile; products_ = rows * embeddings'.
void MarginTileWorker::make_products(const MarginStep& step, const ClassTile& tile) {
  const std::int64_t d = step.dimension;
  const float* weight = step.table.weight.f32();
  const float* inverse = step.table.inverse_norm.f32();
  const auto classes = step.batch.classes.subspan(static_cast<std::size_t>(tile.begin),
                                                  static_cast<std::size_t>(tile.size()));
  const std::int64_t first = classes.front() - step.table.first_class;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    inverse_norms_[i] = inverse[classes[i] - step.table.first_class];
  }
  if (classes.back() - classes.front() == tile.size() - 1) {
    rows_ = weight + first * d;
  } else {
    for (std::size_t i = 0; i < classes.size(); ++i) {
      std::memcpy(gathered_.data() + static_cast<std::int64_t>(i) * d,
                  weight + (classes[i] - step.table.first_class) * d,
                  static_cast<std::size_t>(d) * sizeof(float));
    }
    rows_ = gathered_.data();
  }
  multiply('N', tile.size(), step.samples, d, rows_, step.unit_transposed, 0.f, products_.data());
}

void MarginTileWorker::forward(const MarginStep& step, const ClassTile& tile) {
  make_products(step, tile);
  const float* embeddings = step.batch.embeddings.f32();
  for (std::size_t k = 0; k < tile.positives.size(); ++k) {
    const Positive& p = tile.positives[k];
    step.angles[tile.first_positive + static_cast<std::int64_t>(k)] =
        angle_between(embeddings + p.sample * step.dimension,
                      rows_ + (p.index - tile.begin) * step.dimension, step.dimension);
  }
  const MarginTile t = describe(step, tile);
  kernels_.margin_logits(t, products_.data(), tile_max_.data());
  for (std::size_t i = 0; i < max_.size(); ++i) {
    if (!(tile_max_[i] > max_[i])) continue;
    sum_[i] *= std::exp(static_cast<double>(max_[i]) - static_cast<double>(tile_max_[i]));
    max_[i] = tile_max_[i];
  }
  kernels_.margin_exp_sums(t, products_.data(), max_.data(), tile_sum_.data());
  for (std::size_t i = 0; i < sum_.size(); ++i) sum_[i] += static_cast<double>(tile_sum_[i]);
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

float* MarginTileWorker::backward(const MarginStep& step, const ClassTile& tile) {
  const std::int64_t n = step.samples;
  const std::int64_t d = step.dimension;
  make_products(step, tile);
  kernels_.margin_gradients(describe(step, tile), products_.data(), step.max, step.factor);
  // products_ = d loss / d cos, divided by the centre's length: both products need just that.
  multiply('T', n, d, tile.size(), products_.data(), rows_, 1.f, d_unit_.data());
  multiply('N', tile.size(), d, n, products_.data(), step.unit, 0.f, gradients_.data());
  for (std::int64_t j = 0; j < tile.size(); ++j) {
    kernels_.project_off(rows_ + j * d, inverse_norms_[static_cast<std::size_t>(j)],
                         gradients_.data() + j * d, d);
  }
  add_target_gradients(step, tile);
  return gradients_.data();
}

// In float64 from the vectors themselves, already across them (margin.h): 1 / sin theta may be huge
// where the part across is tiny.
void MarginTileWorker::add_target_gradients(const MarginStep& step, const ClassTile& tile) {
  const std::int64_t d = step.dimension;
  for (std::size_t k = 0; k < tile.positives.size(); ++k) {
    const Positive& p = tile.positives[k];
    const Angle& angle = step.angles[tile.first_positive + static_cast<std::int64_t>(k)];
    const double factor = step.target_factor[p.sample] *
                          margin_slope(step.options.margin, step.options.margin_gradient, angle);
    const std::int64_t j = p.index - tile.begin;
    const float* x = step.batch.embeddings.f32() + p.sample * d;
    const float* w = rows_ + j * d;
    float* dx = d_unit_.data() + p.sample * d;
    float* dw = gradients_.data() + j * d;
    for (std::int64_t i = 0; i < d; ++i) {
      const double unit_x = x[i] * angle.inverse_a;
      const double unit_w = w[i] * angle.inverse_b;
      dx[i] += static_cast<float>(factor * (unit_w - angle.cos * unit_x));
      dw[i] += static_cast<float>(factor * (unit_x - angle.cos * unit_w) * angle.inverse_b);
    }
  }
}

}  // namespace pfc
