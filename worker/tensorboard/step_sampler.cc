#include "worker/tensorboard/step_sampler.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "worker/head/row_copy.h"

namespace pfc {
namespace {

/// Returns the L2 norm of each row of a device tensor [N, D].
std::vector<float> lengths_of(Ops& ops, const Tensor& rows) {
  constexpr std::int64_t kRowsAtOnce = 256;
  const std::int64_t n = rows.shape[0], d = rows.shape[1];
  std::vector<float> piece(static_cast<std::size_t>(std::min(n, kRowsAtOnce) * d));
  std::vector<float> lengths;
  lengths.reserve(static_cast<std::size_t>(n));
  for (std::int64_t begin = 0; begin < n; begin += kRowsAtOnce) {
    const std::int64_t count = std::min(n - begin, kRowsAtOnce);
    copy_rows_to_host(ops, piece.data(), row_range(rows, begin, count));
    for (std::int64_t i = 0; i < count; ++i) {
      double squares = 0;
      for (std::int64_t k = 0; k < d; ++k) {
        const double x = static_cast<double>(piece[static_cast<std::size_t>(i * d + k)]);
        squares += x * x;
      }
      lengths.push_back(static_cast<float>(std::sqrt(squares)));
    }
  }
  return lengths;
}

}  // namespace

void StepSampler::keep_images(const StepInput& in) {
  if (!keeps_ || !wants(in.step)) return;
  const Shape& shape = in.images.shape;  // [B, H, W, 3]
  if (shape.rank() != 4) return;         // embeddings
  next_.images_shape = {std::min(shape[0], kMostImages), shape[1], shape[2], shape[3]};
  const auto bytes = next_.images_shape.elements();
  next_.images.assign(in.batch->images.begin(), in.batch->images.begin() + bytes);
}

StepSample StepSampler::take(const Step& step) {
  const std::int64_t n = step.embeddings.shape[0];
  // The worker that owns the class computes the cosine. The others add 0, which is exact.
  std::vector<float> cosines(static_cast<std::size_t>(n));
  step.head.target_cosines(cosines);
  step.comm.all_reduce_sum(Tensor(cosines.data(), {n}));
  if (!keeps_) return {};
  StepSample sample = std::exchange(next_, {});
  sample.target_cosines = std::move(cosines);
  sample.lengths = lengths_of(step.ops, step.embeddings);
  return sample;
}

}  // namespace pfc
