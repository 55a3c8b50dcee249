// Tests that the statistics of several workers are merged in rank order.
#include <cmath>
#include <limits>

#include "kernels/make_ops.h"
#include "kernels/margin/margin_softmax.h"
#include "tests/kernels/on_each_device.h"

namespace pfc {
namespace {

using MergeParts = OnEachDevice;

/// Returns statistics [workers, n] as those of forward(): each sample's target is on one worker,
/// and some workers have no other class.
std::vector<RowStatistics> parts_of_workers(std::int64_t workers, std::int64_t n,
                                            std::mt19937_64& generator) {
  std::normal_distribution<double> logits(0, 30);
  std::vector<RowStatistics> parts(static_cast<std::size_t>(workers * n));
  for (std::int64_t k = 0; k < workers * n; ++k) {
    RowStatistics& s = parts[static_cast<std::size_t>(k)];
    const std::int64_t worker = k / n, sample = k % n;
    if (k % 5 != 0) s = {.max = logits(generator), .sum = 1 + std::abs(logits(generator))};
    if (sample % workers == worker) s.target = logits(generator);
  }
  return parts;
}

TEST_P(MergeParts, MergesInRankOrder) {
  constexpr std::int64_t kSamples = 300, kRowBytes = sizeof(RowStatistics);
  const OwnedTensor weight = tensor({4, 8}), inverse_norm = tensor({4}), momentum = tensor({4, 8});
  std::vector<std::int32_t> updated(4);
  UpdateHistory history{OptimizerKind::kSgd};
  const auto softmax = make_margin_softmax(*ops_, {},
                                           {.weight = *weight,
                                            .inverse_norm = inverse_norm,
                                            .momentum = *momentum,
                                            .second = {},
                                            .updated = updated,
                                            .history = &history});
  for (const std::int64_t workers : {1, 2, 3, 8}) {
    const std::vector<RowStatistics> parts = parts_of_workers(workers, kSamples, generator_);
    const OwnedTensor device(*ops_, {workers, kSamples, kRowBytes}, DType::kUInt8);
    ops_->copy_to_device(device, parts.data());
    softmax->merge_parts(device);
    std::vector<RowStatistics> merged(parts.size());
    ops_->copy_to_host(merged.data(), device);
    for (std::size_t i = 0; i < kSamples; ++i) {
      RowStatistics want;
      for (std::size_t w = 0; w < static_cast<std::size_t>(workers); ++w) {
        merge(want, parts[w * kSamples + i]);
      }
      EXPECT_EQ(merged[i].max, want.max) << i;
      // On the CPU, another order would change the last bits. GPUs have another exp().
      EXPECT_NEAR(merged[i].sum, want.sum, ops_->on_host() ? 0 : 1e-14 * want.sum) << i;
      EXPECT_EQ(merged[i].target, want.target) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, MergeParts, ::testing::ValuesIn(test_devices()), device_name);

}  // namespace
}  // namespace pfc
