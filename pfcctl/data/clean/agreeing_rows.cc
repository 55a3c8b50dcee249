#include "pfcctl/data/clean/agreeing_rows.h"

#include <algorithm>

#include "pfcctl/data/clean/labelled_embeddings.h"

namespace pfc {

namespace {

constexpr auto every_row = [](std::size_t) { return true; };

class Trimming {
 public:
  Trimming(std::span<const float> rows, std::size_t dimension)
      : rows_(rows), d_(dimension), n_(rows.size() / dimension) {}

  [[nodiscard]] std::size_t size() const { return n_; }
  [[nodiscard]] std::span<const float> row(std::size_t i) const {
    return rows_.subspan(i * d_, d_);
  }

  /// Returns the sum of the rows for which `chosen(i)`.
  template <class F>
  [[nodiscard]] std::vector<float> sum(const F& chosen) const {
    std::vector<double> sum(d_);
    for (std::size_t i = 0; i < n_; ++i) {
      if (!chosen(i)) continue;
      for (std::size_t k = 0; k < d_; ++k) sum[k] += row(i)[k];
    }
    return {sum.begin(), sum.end()};
  }
  /// Returns the chosen row with the largest mean cosine to the chosen ones; of several, the first.
  template <class F>
  [[nodiscard]] std::size_t medoid(const F& chosen) const {
    const std::vector<float> total = sum(chosen);
    std::size_t best = 0;
    double most = -2.0 * static_cast<double>(n_);
    for (std::size_t i = 0; i < n_; ++i) {
      const double products = chosen(i) ? inner_product(row(i), total) : most;
      if (products <= most + 1e-6) continue;  // rounding must not decide between equal rows
      best = i;
      most = products;
    }
    return best;
  }

  /// Returns the rows that agree with this one, and with each other.
  [[nodiscard]] AgreeingRows around(std::size_t medoid, double same) const {
    AgreeingRows of;
    for (std::size_t i = 0; i < n_; ++i) {
      of.kept.push_back(i == medoid || inner_product(row(i), row(medoid)) >= same);
    }
    measure(of);
    for (int round = 0; round < 4 && of.count > 1; ++round) {
      std::vector<bool> kept(n_);
      std::transform(of.similarity.begin(), of.similarity.end(), kept.begin(),
                     [&](float s) { return s >= same; });
      if (kept == of.kept || std::ranges::count(kept, true) == 0) break;
      of.kept = std::move(kept);
      measure(of);
    }
    return of;
  }

 private:
  /// Sets count, mean and similarity from `kept`.
  void measure(AgreeingRows& of) const {
    of.count = static_cast<std::size_t>(std::ranges::count(of.kept, true));
    const std::vector<float> total = sum([&](std::size_t i) { return of.kept[i]; });
    of.similarity.assign(n_, 1);
    for (std::size_t i = 0; i < n_ && n_ > 1; ++i) {
      const double products = inner_product(row(i), total);
      if (!of.kept[i]) {
        of.similarity[i] = static_cast<float>(products / static_cast<double>(of.count));
      } else if (of.count > 1) {  // without its product with itself
        of.similarity[i] = static_cast<float>((products - 1) / static_cast<double>(of.count - 1));
      } else {
        const double all = inner_product(row(i), sum(every_row));
        of.similarity[i] = static_cast<float>((all - 1) / static_cast<double>(n_ - 1));
      }
    }
    of.mean = total;
    for (float& x : of.mean) x /= static_cast<float>(of.count);
  }

  const std::span<const float> rows_;
  const std::size_t d_, n_;
};

}  // namespace

std::size_t medoid_of(std::span<const float> rows, std::size_t dimension) {
  return Trimming(rows, dimension).medoid(every_row);
}

AgreeingRows agreeing_rows(std::span<const float> rows, std::size_t dimension, double same) {
  const Trimming all(rows, dimension);
  AgreeingRows first = all.around(all.medoid(every_row), same);
  if (2 * first.count >= all.size()) return first;
  AgreeingRows second = all.around(all.medoid([&](std::size_t i) { return !first.kept[i]; }), same);
  return second.count > first.count ? second : first;
}

}  // namespace pfc
