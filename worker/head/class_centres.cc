#include "worker/head/class_centres.h"

#include <algorithm>
#include <vector>

#include "kernels/math/normal.h"

namespace pfc {
namespace {

constexpr float kInitialDeviation = 0.01f;
constexpr std::int64_t kRowsAtOnce = 4096;  // drawn on the host, then copied: 8 MiB at D = 512

void draw_centre(std::uint64_t seed, std::int64_t c, std::int64_t dimension, float* row) {
  for (std::int64_t i = 0; i < dimension; i += 4) {
    const Philox4 words = random_words(seed, Stream::kCentreInit, static_cast<std::uint32_t>(i / 4),
                                       static_cast<std::uint64_t>(c));
    const NormalPair first = box_muller(words.x[0], words.x[1]);
    const NormalPair second = box_muller(words.x[2], words.x[3]);
    const float four[] = {first.a, first.b, second.a, second.b};
    const std::int64_t count = std::min<std::int64_t>(4, dimension - i);
    for (std::int64_t k = 0; k < count; ++k) row[i + k] = kInitialDeviation * four[k];
  }
}

}  // namespace

ClassCentres::ClassCentres(Ops& ops, RowRange shard, std::int64_t dimension,
                           OptimizerKind optimizer, std::uint64_t seed)
    : shard_(shard), dimension_(dimension) {
  const auto rows = static_cast<std::size_t>(shard.size());
  const std::size_t bytes = rows * static_cast<std::size_t>(dimension) * sizeof(float);
  weight_ = ops.allocate(bytes);
  inverse_norm_ = ops.allocate(rows * sizeof(float));
  momentum_ = ops.allocate(bytes);
  if (optimizer == OptimizerKind::kAdamW) second_ = ops.allocate(bytes);
  initialise(ops, seed);
}

CentreTable ClassCentres::table() const {
  const Shape shape{shard_.size(), dimension_};
  const auto view = [](Buffer& b, Shape s) { return Tensor(b.data(), DType::kFloat32, s); };
  return {.first_class = shard_.begin,
          .weight = view(*weight_, shape),
          .inverse_norm = view(*inverse_norm_, {shard_.size()}),
          .momentum = view(*momentum_, shape),
          .second = second_ ? view(*second_, shape) : Tensor()};
}

void ClassCentres::initialise(Ops& ops, std::uint64_t seed) {
  std::vector<float> rows(
      static_cast<std::size_t>(std::min(kRowsAtOnce, shard_.size()) * dimension_));
  float* weight = table().weight.f32();
  for (std::int64_t begin = 0; begin < shard_.size(); begin += kRowsAtOnce) {
    const std::int64_t count = std::min(kRowsAtOnce, shard_.size() - begin);
#pragma omp parallel for schedule(static)
    for (std::int64_t row = 0; row < count; ++row) {
      draw_centre(seed, shard_.begin + begin + row, dimension_, rows.data() + row * dimension_);
    }
    ops.copy_to_device(Tensor(weight + begin * dimension_, {count, dimension_}), rows.data());
    ops.synchronize();  // `rows` is used again
  }
}

}  // namespace pfc
