#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "comm/shard.h"
#include "kernels/cpu/margin/margin_softmax.h"
#include "kernels/cpu/margin/tile_products.h"
#include "kernels/make_ops.h"
#include "tests/support/counting_new.h"
#include "tests/support/counting_ops.h"
#include "tests/support/thread_comm.h"
#include "tests/worker/head/head_job.h"
#include "worker/head/accumulated_gradients.h"
#include "worker/head/class_centres.h"
#include "worker/head/head.h"

namespace pfc {
namespace {

using testing::CountingOps;

HeadMemoryOptions million() {
  return {.head = {.classes = 1'000'000, .embedding_size = 512},
          .samples = 128,
          .threads = 2,
          .active_sets = 3};
}

TEST(ClassCentres, StateTheBytesThatTheyAllocate) {
  for (const OptimizerKind optimizer : {OptimizerKind::kSgd, OptimizerKind::kAdamW}) {
    for (const CentrePrecision precision :
         {CentrePrecision::kFp32, CentrePrecision::kBf16Momentum, CentrePrecision::kBf16,
          CentrePrecision::kInt8, CentrePrecision::kFp8}) {
      const bool adamw = optimizer == OptimizerKind::kAdamW;
      if (adamw && is_one_byte(precision)) continue;
      const CentreOptions options{.dimension = 24,
                                  .sub_centres = 3,
                                  .optimizer = optimizer,
                                  .momentum = adamw || precision != CentrePrecision::kFp8,
                                  .precision = precision};
      CountingOps ops(1);
      ClassCentres centres(ops, {10, 345}, options);
      const CentreBytes bytes = ClassCentres::bytes(335, options);
      EXPECT_EQ(bytes.rows() + bytes.inverse_norm, ops.allocated);
      EXPECT_EQ(bytes.weight, centres.table().weight.bytes());
      EXPECT_EQ(bytes.updated, centres.table().updated.size_bytes());
    }
  }
}

TEST(AccumulatedGradients, StateTheBytesThatTheyAllocate) {
  CountingOps ops(1);
  AccumulatedGradients sums(ops, 16);
  std::vector<std::int64_t> classes(100);
  std::iota(classes.begin(), classes.end(), 7);
  sums.slots_of(classes);
  EXPECT_EQ(AccumulatedGradients::bytes(100, 16), ops.allocated);
}

constexpr std::int64_t kMemorySamples = 40, kMemoryDimension = 64, kMemoryClasses = 1000;
const MarginSoftmaxOptions kSoftmax{.logits_bytes = 400'000};

/// Returns the bytes that the first step of a new softmax allocates with operator new.
std::size_t bytes_of_first_step(const MarginSoftmaxOptions& options, int threads) {
  CountingOps ops(threads);
  ClassCentres centres(
      ops, {0, kMemoryClasses},
      {.dimension = options.sub_centres * kMemoryDimension, .sub_centres = options.sub_centres});
  centres.draw(ops);
  const auto softmax = make_margin_softmax(ops, options, centres.table());
  const std::size_t before_norms = testing::bytes_of_new();
  softmax->compute_inverse_norms(0, centres.shard().size());
  const std::size_t of_norms = testing::bytes_of_new() - before_norms;
  std::vector<float> x = testing::random_matrix(kMemorySamples, kMemoryDimension, 1, 1);
  std::vector<RowStatistics> statistics(kMemorySamples);
  std::vector<std::int64_t> classes(kMemoryClasses);
  std::iota(classes.begin(), classes.end(), 0);
  std::vector<Positive> positives;
  for (std::int64_t i = 0; i < kMemorySamples * options.targets; ++i) {
    positives.push_back({i, i % kMemorySamples});
  }
  std::vector<float> logits(static_cast<std::size_t>(summed_numbers(options)) * kMemorySamples);
  const std::vector<double> shares(options.targets > 1 ? kMemorySamples : 0, 1.0);
  const std::vector<ActiveRange> ranges(options.ranges ? kMemorySamples : 0, {0, kMemoryClasses});
  const std::int64_t e = std::max<std::int64_t>(1, options.distillation.embedding_size);
  std::vector<float> teacher = testing::random_matrix(kMemorySamples, e, 1, 2);
  std::vector<float> teacher_centres = testing::random_matrix(kMemoryClasses, e, 1, 3);
  if (options.distillation.on())
    softmax->use_teacher(Tensor(teacher_centres.data(), {kMemoryClasses, e}));

  const std::size_t before = testing::bytes_of_new();
  softmax->forward(
      {.embeddings = Tensor(x.data(), {kMemorySamples, kMemoryDimension}),
       .classes = classes,
       .positives = positives,
       .target_shares = shares,
       .ranges = ranges,
       .teacher = Tensor(teacher.data(), {kMemorySamples, e})},
      Tensor(statistics.data(), DType::kUInt8,
             {kMemorySamples, static_cast<std::int64_t>(sizeof(RowStatistics))}),
      logits.empty() ? Tensor() : Tensor(logits.data(), {summed_numbers(options), kMemorySamples}));
  return of_norms + testing::bytes_of_new() - before;
}

/// slack: allowed difference, for objects other than arrays, in bytes.
void expect_stated_bytes(const MarginSoftmaxOptions& options, double slack = 500) {
  for (const int threads : {1, 3}) {
    bytes_of_first_step(options, threads);  // makes one-time allocations
    const std::size_t allocated =
        bytes_of_first_step(options, threads) - CatchUpPlan::bytes(kMemoryClasses);
    const CpuMarginBytes stated = cpu_margin_bytes(options, {.samples = kMemorySamples,
                                                             .dimension = kMemoryDimension,
                                                             .active = kMemoryClasses,
                                                             .threads = threads});
    EXPECT_NEAR(static_cast<double>(stated.working), static_cast<double>(allocated), slack);
    EXPECT_LE(stated.kept, options.logits_bytes);
    EXPECT_GT(stated.kept, 0);
  }
}

TEST(CpuMarginSoftmax, StatesTheBytesThatAStepAllocates) { expect_stated_bytes(kSoftmax); }

TEST(CpuMarginSoftmax, StatesTheBytesThatAStepOfSeparateHeadsAllocates) {
  MarginSoftmaxOptions options = kSoftmax;
  options.ranges = true;
  expect_stated_bytes(options);
}

TEST(CpuMarginSoftmax, StatesTheBytesThatAStepWithLabelSmoothingAllocates) {
  MarginSoftmaxOptions options = kSoftmax;
  options.label_smoothing = 0.1;
  expect_stated_bytes(options);
}

TEST(CpuMarginSoftmax, StatesTheBytesThatAStepWithSeveralTargetsAllocates) {
  MarginSoftmaxOptions options = kSoftmax;
  options.targets = 3;
  expect_stated_bytes(options);
}

TEST(CpuMarginSoftmax, StatesTheBytesThatAStepWithSubCentresAllocates) {
  MarginSoftmaxOptions options = kSoftmax;
  options.sub_centres = 5;
  expect_stated_bytes(options);
}

TEST(CpuMarginSoftmax, StatesTheBytesThatAStepWithDistillationAllocates) {
  MarginSoftmaxOptions options = kSoftmax;
  options.distillation = {.weight = 1, .embedding_size = 40};
  expect_stated_bytes(options, 1500);
}

TEST(CpuMarginSoftmax, StatesTheBytesThatAStepWithBf16ProductsAllocates) {
  if (!cpu_has_bfloat16()) GTEST_SKIP() << "this CPU has no bf16 instructions (avx512_bf16)";
  if (__builtin_cpu_supports("amx-bf16")) {
    GTEST_SKIP() << "oneDNN multiplies on this CPU, and chooses the layouts itself (AMX)";
  }
  MarginSoftmaxOptions options = kSoftmax;
  options.bf16_products = true;
  expect_stated_bytes(options);
}

TEST(HeadMemory, TablesEqualWhatTheHeadAllocates) {
  for (const OptimizerKind optimizer : {OptimizerKind::kSgd, OptimizerKind::kAdamW}) {
    const HeadOptions head{
        .classes = 1003, .embedding_size = 8, .sub_centres = 3, .optimizer = optimizer};
    testing::run_ranks(3, [&](Comm& comm) {
      CountingOps ops(1);
      const auto made = make_head(ops, comm, head);
      if (comm.rank() != 0) return;  // rank 0 has 335 rows, the others 334
      const HeadMemory m = head_memory({.head = head, .world_size = 3, .samples = 6});
      EXPECT_EQ(m.centres + m.momentum + m.second + m.inverse_norms, ops.allocated);
      EXPECT_EQ(m.centres, 335u * 24 * 4);
      EXPECT_EQ(m.updated, made->state().updated.size_bytes());
    });
  }
}

TEST(HeadMemory, SummedGradientsEqualWhatAStepAllocates) {
  const HeadOptions head{.classes = 500, .embedding_size = 16, .gradient_acc = 2};
  testing::run_ranks(1, [&](Comm& comm) {
    CountingOps ops(1);
    const auto made = make_head(ops, comm, head);
    const std::size_t before = ops.allocated;
    auto batch = testing::random_batch(8, 500, 16, 1);
    const ActiveCentres active = made->sample(batch.labels, 1);
    made->run({.all_embeddings = Tensor(batch.embeddings.data(), {8, 16}),
               .all_labels = batch.labels,
               .active = active});
    const HeadMemory m = head_memory({.head = head, .samples = 8});
    const std::size_t exchanged = 8 * 16 * 4 + 8 * sizeof(RowStatistics);  // with d_embeddings
    EXPECT_EQ(m.gradients, ops.allocated - before - exchanged);
  });
}

TEST(HeadMemory, StatisticsOfSeveralWorkersAreKeptTwice) {
  HeadMemoryOptions o = million();
  const std::uint64_t buffers = head_memory(o).buffers;
  for (const int workers : {2, 64}) {
    o.world_size = workers;
    EXPECT_EQ(head_memory(o).buffers, buffers + 128 * sizeof(RowStatistics));
  }
  o.world_size = 3;  // parts of 43 samples
  EXPECT_EQ(head_memory(o).buffers, buffers + (3 * 43 + 1) * sizeof(RowStatistics));
}

TEST(HeadMemory, TablesHalveWithCentrePrecision) {
  HeadMemoryOptions o = million();
  const HeadMemory full = head_memory(o);
  EXPECT_EQ(full.centres, 1'000'000u * 512 * 4);
  EXPECT_EQ(full.momentum, full.centres);
  o.head.centre_precision = CentrePrecision::kBf16Momentum;
  EXPECT_EQ(head_memory(o).centres, full.centres);
  EXPECT_EQ(head_memory(o).momentum, full.momentum / 2);
  o.head.centre_precision = CentrePrecision::kBf16;
  EXPECT_EQ(head_memory(o).centres, full.centres / 2);
  EXPECT_EQ(head_memory(o).momentum, full.momentum / 2);
}

TEST(HeadMemory, OneByteRowsTake524BytesAnd1040WithMomentum) {
  HeadMemoryOptions o = million();
  o.head.logits_memory = 0;
  for (const CentrePrecision precision : {CentrePrecision::kInt8, CentrePrecision::kFp8}) {
    o.head.centre_precision = precision;
    const auto of_a_class = [&](double momentum) {
      o.head.momentum = momentum;
      const HeadMemory m = head_memory(o);
      return static_cast<double>(m.rows() + m.inverse_norms) / 1e6;
    };
    EXPECT_EQ(of_a_class(0), 512 + 4 + 4 + 4);  // numbers, scale, inverse norm, updates seen
    EXPECT_EQ(of_a_class(0.9), 2 * (512 + 4) + 4 + 4);
  }
}

TEST(HeadMemory, KeptLogitsTakeTheSmallerOfTheirLimitAndTheSizeOfAllLogits) {
  HeadMemoryOptions o = million();
  o.head.logits_memory = 0;
  EXPECT_EQ(head_memory(o).logits, 0u);
  o.head.logits_memory = 0.1;  // this memory is less than 128 x 1,000,000 x 4 bytes
  const std::uint64_t tile = 2u * 96 * 128 * 4;
  EXPECT_EQ(head_memory(o).logits, 1'000'000u * 512 * 8 / 10 / tile * tile);
  o.samples = 64;
  EXPECT_EQ(head_memory(o).logits, 64u * 5209 * 2 * 96 * 4);  // tiles of 192 classes
  o.head.sample_rate = 0.01;
  EXPECT_EQ(head_memory(o).logits, 64u * 53 * 2 * 96 * 4);
}

TEST(HeadMemory, ActiveRowsGrowWithSampleRateAndSamplesUpToTheShard) {
  HeadMemoryOptions o = million();
  o.head.sample_rate = 0;
  EXPECT_EQ(head_memory(o).active, (3u * 8 + 4) * 128);
  o.head.sample_rate = 0.25;
  EXPECT_EQ(head_memory(o).active, (3u * 8 + 4) * (250'000 + 128));
  o.head.sample_rate = 1;
  EXPECT_EQ(head_memory(o).active, (3u * 8 + 4) * 1'000'000);
}

TEST(HeadMemory, HasRoomForTheLargestSampleRateOfTheJob) {
  HeadMemoryOptions o = million();
  o.head.sample_rate = SampleRate({{0, 0.1}, {3, 0.25}, {5, 0.05}});
  EXPECT_EQ(head_memory(o).active, (3u * 8 + 4) * (250'000 + 128));
  o.head.sample_rate = 1;
  o.gpu = true;
  const std::uint64_t all = head_memory(o).buffers;
  o.head.sample_rate = SampleRate({{0, 0.1}, {3, 1.0}});
  EXPECT_GT(head_memory(o).buffers, all) << "the list of rows with missed updates";
}

TEST(HeadMemory, CorrectionsNeedANumberForEachActiveRow) {
  HeadMemoryOptions o = million();
  o.head.sample_rate = 0.25;
  const std::uint64_t before = head_memory(o).active;
  o.gpu = true;
  const std::uint64_t buffers = head_memory(o).buffers;
  o.head.sample_correction = true;
  EXPECT_GE(head_memory(o).buffers, buffers + 250'000 * 4);
  o.gpu = false;
  EXPECT_EQ(head_memory(o).active, before + (250'000 + 128) * 4);
}

TEST(HeadMemory, SummedGradientsExistOnlyWithSeveralMicroBatches) {
  HeadMemoryOptions o = million();
  EXPECT_EQ(head_memory(o).gradients, 0u);
  o.head.gradient_acc = 4;
  o.head.sample_rate = 0.1;
  const std::uint64_t rows = 100'000 + 4 * 128;
  EXPECT_EQ(head_memory(o).gradients, (rows + rows / 16) * 512 * 4);
}

TEST(HeadMemory, CountsTheMarginsOfSamples) {
  HeadMemoryOptions o = million();
  const std::uint64_t buffers = head_memory(o).buffers;
  o.head.loss = AdaFace{};
  EXPECT_EQ(head_memory(o).buffers, buffers + 128 * (sizeof(SampleMargin) + 12));
}

TEST(HeadMemory, CountsTheTeachersCentresInThePrecisionOfProducts) {
  for (const bool bf16 : {false, true}) {
    HeadOptions head{.classes = 1003, .embedding_size = 8, .bf16_products = bf16};
    if (bf16 && !cpu_has_bfloat16()) continue;
    CountingOps ops(1);
    testing::run_ranks(1, [&](Comm& comm) { static_cast<void>(make_head(ops, comm, head)); });
    const std::size_t without = ops.allocated;
    head.distillation = {.weight = 1, .embedding_size = 24};
    testing::run_ranks(1, [&](Comm& comm) { static_cast<void>(make_head(ops, comm, head)); });
    EXPECT_EQ(head_memory({.head = head, .samples = 6}).teacher, ops.allocated - 2 * without);
    EXPECT_EQ(ops.allocated - 2 * without, 1003u * 24 * (bf16 ? 2 : 4));
  }
}

TEST(HeadMemory, CountsTheBiasesOfAPlainSoftmax) {
  HeadMemoryOptions o = million();
  o.head.loss = PlainSoftmax{};
  EXPECT_EQ(head_memory(o).centres, 1'000'000u * 513 * 4);
  EXPECT_EQ(head_memory(o).momentum, head_memory(o).centres);
}

TEST(HeadMemory, CountsTheNeighboursOfAllClassesAndTheSearch) {
  HeadMemoryOptions o{.head = {.classes = 1003, .embedding_size = 8, .hard_neighbours = 4},
                      .world_size = 2,
                      .samples = 6};
  const HeadMemory m = head_memory(o);
  EXPECT_EQ(m.saved_neighbours, 1003u * 4 * 4);
  // Rank 0 has 502 rows: cosines of their neighbours, and two copies of rows, one on the device.
  const std::size_t rows = 2 * 502 * 8;
  EXPECT_EQ(m.neighbours, 2 * m.saved_neighbours + (502 * 4 + 2 * rows + 502 * 502) * 4);
  std::size_t allocated = 0;
  testing::run_ranks(2, [&](Comm& comm) {
    CountingOps ops(1);
    const auto head = make_head(ops, comm, o.head);
    const std::size_t before = ops.allocated;
    head->refresh_neighbours(comm);
    if (comm.rank() == 0) allocated = ops.allocated - before;
  });
  EXPECT_EQ(allocated, (rows + 502 * 502) * 4);
  o.head.hard_neighbours = 0;
  EXPECT_EQ(head_memory(o).neighbours, 0u);
  const std::uint64_t buffers = [&] {
    o.gpu = true;
    return head_memory(o).buffers;
  }();
  o.head.hard_neighbours = 4;
  EXPECT_GE(head_memory(o).buffers, buffers + allocated);
  EXPECT_EQ(head_memory(o).neighbours, m.neighbours);
}

// One shard may have the neighbours of all labels, at most half of what the job draws.
TEST(HeadMemory, ExpectsAllNeighboursInOneShard) {
  HeadMemoryOptions o{.head = {.classes = 10'000, .embedding_size = 8, .gradient_acc = 3},
                      .world_size = 4,
                      .samples = 6};
  o.head.sample_rate = 0.1;
  const auto rows_more = [&](std::int64_t degree, std::int64_t unit) {
    o.head.sample_unit = unit;
    o.head.hard_neighbours = 0;
    const std::uint64_t without = head_memory(o).gradients;
    o.head.hard_neighbours = degree;
    return head_memory(o).gradients - without;
  };
  const auto bytes = [](std::int64_t rows) {
    return AccumulatedGradients::bytes(rows + 1000, 8) - AccumulatedGradients::bytes(1000, 8);
  };
  EXPECT_EQ(rows_more(4, 1), bytes(3 * 6 * 4));
  EXPECT_EQ(rows_more(4, 8), bytes(3 * 6 * 4 * 8));
  EXPECT_EQ(rows_more(400, 1), bytes(3 * 500));
}

TEST(HeadMemory, CountsSubCentres) {
  HeadMemoryOptions o = million();
  o.head.logits_memory = 0.05;
  const HeadMemory one = head_memory(o);
  o.head.sub_centres = 3;
  const HeadMemory three = head_memory(o);
  EXPECT_EQ(three.centres, 3 * one.centres);
  EXPECT_EQ(three.momentum, 3 * one.momentum);
  EXPECT_EQ(three.inverse_norms, 3 * one.inverse_norms);
  EXPECT_EQ(three.updated, one.updated);
  EXPECT_EQ(three.active, one.active);
  EXPECT_EQ(three.buffers, one.buffers + 2u * 2 * 32 * 128 * 4);  // two threads' largest cosines
  o.gpu = true;
  o.head.sample_rate = 0.1;
  const std::uint64_t lists = 2u * (3 - 1) * (100'000 + 128) * 4;
  const std::uint64_t with = head_memory(o).buffers;
  o.head.gradient_acc = 2;
  EXPECT_GE(head_memory(o).buffers, with + 3'000'000 * 4) << "the list of rows with gradients";
  o.head.gradient_acc = 1;
  o.head.sub_centres = 1;
  EXPECT_GT(with, head_memory(o).buffers + lists);
}

TEST(HeadMemory, CountsTheSumsOfLabelSmoothing) {
  HeadMemoryOptions o = million();
  const std::uint64_t buffers = head_memory(o).buffers;
  o.head.label_smoothing = 0.1;
  // Sums and numbers of logits; the sums of two threads; what is subtracted from probabilities.
  EXPECT_EQ(head_memory(o).buffers, buffers + 128 * (2 * 4 + 2 * 8 + 4));
}

TEST(HeadMemory, CountsSeveralLabelsOfAnImage) {
  HeadMemoryOptions o = million();
  o.head.sample_rate = 0;
  const std::uint64_t buffers = head_memory(o).buffers;
  o.gpu = true;
  const std::uint64_t on_gpu = head_memory(o).buffers;
  o.head.labels_per_image = 3;
  // On a GPU mainly two more gradients of 512 numbers for each sample.
  EXPECT_GE(head_memory(o).buffers, on_gpu + 128 * 2 * 512 * 4);
  o.gpu = false;
  EXPECT_EQ(head_memory(o).active, (3u * 8 + 4) * 128 * 3);
  // For two more targets angle, factor, row and the places of two threads. For the sample its
  // share, the exchanged mean, and two sums.
  EXPECT_EQ(head_memory(o).buffers,
            buffers + 128 * (2 * (sizeof(Angle) + 8 + 8 + 2 * 8) + 8 + 4 + 2 * 8));
}

TEST(HeadMemory, BuffersDoNotGrowWithClasses) {
  HeadMemoryOptions o = million();
  const std::uint64_t buffers = head_memory(o).buffers;
  o.head.classes *= 10;
  EXPECT_EQ(head_memory(o).buffers, buffers);
  o.threads = 4;
  EXPECT_GT(head_memory(o).buffers, buffers);
}

}  // namespace
}  // namespace pfc
