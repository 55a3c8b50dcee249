// Tests which calls of a GPU's margin softmax wait for the GPU, and how much memory the softmax
// uses. Only the emulated GPU shows this exactly.
#include "kernels/cuda/margin/margin_plan.h"
#include "kernels/cuda/scratch.h"
#include "tests/kernels/cuda/margin/sparse_table.h"
#include "tests/support/simt/memory.h"

namespace pfc {
namespace {

TEST_F(CudaMarginSoftmax, HostWaitsOnlyForTheLoss) {
  const SparseTable table(300);
  const std::vector<std::int64_t> classes = range(0, 300);
  for (const std::int64_t c : classes) table.fill_row(c, static_cast<unsigned>(c));
  const std::vector<Positive> positives{{.index = 7, .sample = 1}};
  const auto softmax = make_margin_softmax(*ops_, options_, table.view());
  const OwnedTensor x = embeddings();
  const SparseMemory d_x(kBatchSize * kEmbeddingSize * sizeof(float));
  const SparseMemory rows(kBatchSize * sizeof(RowStatistics));
  const Tensor statistics(rows.data(), DType::kUInt8, {kBatchSize, sizeof(RowStatistics)});
  const auto* const sum = &static_cast<const RowStatistics*>(rows.data())->sum;
  const auto* const gradient = static_cast<const float*>(d_x.data());
  ops_->synchronize();
  for (int i = 0; i < 3; ++i) {  // the first step allocates memory, and therefore waits
    const double sum_before = *sum;
    const float gradient_before = gradient[0], row_before = table.row(5)[0];
    softmax->forward({.embeddings = x, .classes = classes, .positives = positives}, statistics);
    if (i > 0) {
      EXPECT_EQ(*sum, sum_before);
    }
    softmax->combine(statistics);
    EXPECT_NE(*sum, sum_before);
    softmax->backward(1.0, Tensor(d_x.data(), DType::kFloat32, {kBatchSize, kEmbeddingSize}), {});
    EXPECT_EQ(gradient[0], gradient_before);
    EXPECT_EQ(table.row(5)[0], row_before);
    ops_->synchronize();
    EXPECT_NE(gradient[0], gradient_before);
    EXPECT_NE(table.row(5)[0], row_before);
  }
}

TEST_F(CudaMarginSoftmax, AllocatesAsMuchMemoryAsPlanned) {
  for (const bool halves : {false, true}) {
    options_.bf16_products = halves;
    options_.label_smoothing = halves ? 0.1 : 0;
    options_.sub_centres = halves ? 3 : 1;
    options_.targets = halves ? 2 : 1;
    options_.logits_bytes = 200'000;
    const SparseTable table(1000, options_.sub_centres);
    const std::vector<std::int64_t> classes = range(100, 700);
    const std::size_t before = simt::device_memory().free;
    std::size_t step_memory = 0, update_memory = 0;
    {
      const auto softmax = make_margin_softmax(*ops_, options_, table.view());
      const OwnedTensor x = embeddings();
      const OwnedTensor statistics(*ops_, {kBatchSize, sizeof(RowStatistics)}, DType::kUInt8);
      const OwnedTensor sums(*ops_, {3, kBatchSize});
      const Tensor logits = halves ? Tensor(sums) : Tensor();
      const std::vector<double> shares(halves ? kBatchSize : 0, 0.5);
      const std::size_t begun = simt::device_memory().free;
      softmax->forward(
          {.embeddings = x, .classes = classes, .positives = {}, .target_shares = shares},
          statistics, logits);
      step_memory = begun - simt::device_memory().free;
      softmax->combine(statistics, logits);
      const OwnedTensor gradients(*ops_, {700, options_.sub_centres * kEmbeddingSize});
      ops_->fill(gradients, 0.f);
      const std::size_t stepped = simt::device_memory().free;
      softmax->update(classes, range(0, 700), gradients, {});
      update_memory = stepped - simt::device_memory().free;
    }
    EXPECT_EQ(simt::device_memory().free, before);
    const MarginPlanOptions plan{
        .samples = kBatchSize,
        .dimension = kEmbeddingSize,
        .bf16_products = halves,
        .smoothed = halves,
        .targets = options_.targets,
        .sub_centres = options_.sub_centres,
        .classes = 1000,
        .gpu = {.l2_bytes = 1 << 16, .multiprocessors = 2, .memory_bandwidth = 0}};
    const auto planned =
        static_cast<std::size_t>(margin_device_bytes(plan, 700, options_.logits_bytes));
    EXPECT_LE(step_memory, planned);
    EXPECT_GT(step_memory, planned * 9 / 10);
    const std::size_t lists = gpu_allocation(
        static_cast<std::size_t>(margin_list_bytes(plan, 700) + margin_slot_bytes(plan, 700)));
    EXPECT_LE(update_memory, lists);
    EXPECT_GT(update_memory, lists * 9 / 10);
  }
}

TEST_F(CudaMarginSoftmax, AllocatesItsListsOfSamplesAsPlanned) {
  options_.ranges = options_.sample_margins = options_.hard_negatives = options_.binary = true;
  constexpr std::int64_t kRanged = 4096, kClasses = 64;
  const SparseTable table(kRanged);
  const std::vector<std::int64_t> classes = range(0, kClasses);
  const std::vector<ActiveRange> ranges(kRanged, {0, 32});
  const std::vector<SampleMargin> margins(kRanged);
  const std::vector<float> hard_above(kRanged);
  std::vector<Positive> positives;
  for (std::int64_t i = 0; i < kRanged; ++i)
    positives.push_back({.index = i / kClasses, .sample = i});
  const auto softmax = make_margin_softmax(*ops_, options_, table.view());
  const OwnedTensor x(*ops_, {kRanged, kEmbeddingSize});
  const OwnedTensor statistics(*ops_, {kRanged, sizeof(RowStatistics)}, DType::kUInt8);
  const OwnedTensor second_sums(*ops_, {1, kRanged});
  const std::size_t begun = simt::device_memory().free;
  softmax->forward({.embeddings = x,
                    .classes = classes,
                    .positives = positives,
                    .ranges = ranges,
                    .margins = margins,
                    .hard_above = hard_above},
                   statistics, second_sums);
  const std::size_t lists_and_tiles = begun - simt::device_memory().free;
  const MarginPlanOptions plan{
      .samples = kRanged,
      .dimension = kEmbeddingSize,
      .ranges = true,
      .sample_margins = true,
      .hard_negatives = true,
      .binary = true,
      .classes = kRanged,
      .gpu = {.l2_bytes = 1 << 16, .multiprocessors = 2, .memory_bandwidth = 0}};
  // Upper bound on the list of missed updates: all rows have missed the same number.
  constexpr std::size_t kMissed = 64;
  EXPECT_LE(lists_and_tiles,
            static_cast<std::size_t>(margin_device_bytes(plan, kClasses, 0)) + kMissed);
}

TEST(MarginPlan, FitsATileIntoTheCacheOfAGpuWithSlowMemory) {
  const MarginPlanOptions rtx4090{
      .samples = 1024,
      .dimension = 512,
      .bf16_products = true,
      .classes = 1'000'000,
      .gpu = {.l2_bytes = 72 << 20, .multiprocessors = 128, .memory_bandwidth = 1'008'000'000'000}};
  const MarginPlan plan(rtx4090);
  EXPECT_EQ(plan.tile, 6144);
  EXPECT_EQ(plan.slots, 64);
  EXPECT_LE(plan.tile * (1024 * 6 + 512 * 6), rtx4090.gpu.l2_bytes * 3 / 4);
  MarginPlanOptions other = rtx4090;
  other.samples = 131072;  // no tile fits the cache
  EXPECT_EQ(MarginPlan(other).tile, (512 << 20) / (131072 * 6 + 512 * 6) / 128 * 128);
  other.gpu.memory_bandwidth = 0;  // unknown
  EXPECT_EQ(MarginPlan(other).tile, 128);
  other.samples = 9;
  other.dimension = 3;
  EXPECT_EQ(MarginPlan(other).padded_samples, 16);
  EXPECT_EQ(MarginPlan(other).padded_dimension, 8);
}

TEST(MarginPlan, UsesLargeTilesIfMemoryIsFastOrTheCacheIsSmall) {
  MarginPlanOptions gpu{
      .samples = 1024, .dimension = 512, .bf16_products = true, .classes = 1'000'000};  // an H100
  const std::int64_t large = MarginPlan(gpu).tile;
  EXPECT_EQ(large, (512 << 20) / (1024 * 6 + 512 * 6) / 128 * 128);
  gpu.gpu = {.l2_bytes = 6 << 20, .multiprocessors = 82, .memory_bandwidth = 936'000'000'000};
  EXPECT_EQ(MarginPlan(gpu).tile, large);
  gpu.classes = 1000;  // a tile is no larger than the shard, rounded up
  EXPECT_EQ(MarginPlan(gpu).tile, 1024);
}

}  // namespace
}  // namespace pfc
