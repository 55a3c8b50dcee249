#include "worker/memory/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "kernels/cuda/scratch.h"
#include "worker/memory/memory_advice.h"

namespace pfc {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint64_t kEndless = std::numeric_limits<std::uint64_t>::max();

class MemoryPlanTest : public ::testing::Test {
 protected:
  [[nodiscard]] MemoryPlan plan(std::uint64_t available = kEndless) const {
    return plan_memory(planned_, backbone_, available);
  }
  /// Returns this part of the plan after a change of the job.
  [[nodiscard]] std::uint64_t changed(const std::string& part,
                                      const std::function<void(PlannedJob&)>& change) const {
    PlannedJob other = planned_;
    change(other);
    return plan_memory(other, backbone_, kEndless).part(part).bytes;
  }
  [[nodiscard]] bool has(const MemoryPlan& plan, const std::string& name) const {
    for (const MemoryPart& part : plan.parts) {
      if (part.name == name) return true;
    }
    return false;
  }

  PlannedJob planned_{.job = {.network = "mbf", .batch_size = 32, .num_classes = 100'000}};
  PlannedBackbone backbone_{.memory = {.weights = 8 * kMiB,
                                       .state = 1 * kMiB,
                                       .gradients = 8 * kMiB,
                                       .activations = 1000 * kMiB},
                            .scratch = 2 * kMiB};
};

TEST_F(MemoryPlanTest, TotalIsTheSumOfTheParts) {
  planned_.job.optimizer = OptimizerKind::kAdamW;
  planned_.job.gradient_acc = 2;
  planned_.job.save_every_steps = 10;
  planned_.data.verification_bytes = 5 * kMiB;
  std::uint64_t sum = 0;
  for (const MemoryPart& part : plan().parts) {
    sum += part.bytes;
    EXPECT_GT(part.bytes, 0u) << part.name;
  }
  EXPECT_EQ(plan().total(), sum);
  EXPECT_TRUE(plan(sum).fits());
}

TEST_F(MemoryPlanTest, ContainsThePlannedBackbone) {
  EXPECT_EQ(plan().part("backbone weights").bytes, 9 * kMiB);
  EXPECT_EQ(plan().part("backbone gradients").bytes, 8 * kMiB);
  EXPECT_EQ(plan().part("backbone optimizer").bytes, 8 * kMiB);
  EXPECT_EQ(plan().part("activations").bytes, 1000 * kMiB);
  EXPECT_EQ(plan().part("kernels' scratch").bytes, 2 * kMiB);
  EXPECT_EQ(
      changed("backbone optimizer", [](PlannedJob& p) { p.job.optimizer = OptimizerKind::kAdamW; }),
      16 * kMiB);
}

TEST_F(MemoryPlanTest, PartsGrowWithTheKeysOnWhichTheyDepend) {
  const auto grows = [&](const std::string& part, const std::function<void(PlannedJob&)>& change) {
    EXPECT_GT(changed(part, change), plan().part(part).bytes) << part;
  };
  for (const char* part : {"class centres", "centres' momentum", "inverse norms and active rows"}) {
    grows(part, [](PlannedJob& p) { p.job.num_classes += 1000; });
    grows(part, [](PlannedJob& p) { p.job.num_classes *= 2; });
  }
  for (const char* part : {"head buffers", "input batches", "communication"}) {
    grows(part, [](PlannedJob& p) { p.job.batch_size += 1; });
    EXPECT_EQ(changed(part, [](PlannedJob& p) { p.job.num_classes *= 2; }),
              plan().part(part).bytes);
  }
  grows("communication", [](PlannedJob& p) { p.world_size = 2; });
  grows("input batches", [](PlannedJob& p) { p.data.index_bytes += 16 * 1000; });
  grows("head buffers", [](PlannedJob& p) { p.threads = 2; });
}

TEST_F(MemoryPlanTest, CountsEmbeddingsThatAreSentInBf16) {
  for (const bool gpu : {false, true}) {
    planned_.gpu = gpu;
    for (const int workers : {1, 4}) {
      planned_.world_size = workers;
      const std::uint64_t halves = changed(
          "communication", [](PlannedJob& p) { p.job.exchange_precision = Precision::kBf16; });
      const std::uint64_t sent_and_received = 2 * 4 * 32 * 512 * 2;
      EXPECT_EQ(halves, plan().part("communication").bytes + (workers > 1 ? sent_and_received : 0));
    }
  }
}

TEST_F(MemoryPlanTest, CountsABatchForEachDecodingThread) {
  const auto batches = [&](std::int64_t num_workers) {
    return changed("input batches", [&](PlannedJob& p) { p.job.num_workers = num_workers; });
  };
  const std::uint64_t batch = 32 * (112 * 112 * 3 + sizeof(std::int64_t));  // images and labels
  EXPECT_EQ(batches(8) - batches(4), 4 * batch);
  EXPECT_EQ(batches(1024), batches(62));
}

TEST_F(MemoryPlanTest, CountsTheBuffersOfMeanCentres) {
  const auto mean = [](PlannedJob& p) { p.job.init_centres = InitialCentres::kMean; };
  const std::uint64_t images = 32 * 112 * 112 * 3;
  EXPECT_EQ(changed("input batches", mean) - plan().part("input batches").bytes, images);
  const std::uint64_t gathered = 2 * 32 * (512 * sizeof(float) + sizeof(std::int64_t));
  EXPECT_EQ(changed("between steps",
                    [&](PlannedJob& p) {
                      mean(p);
                      // Batches now take more memory than writing a file of the model.
                      p.job.batch_size *= 8;
                    }),
            8 * (2 * images + 32 * 512 * sizeof(float) + gathered));
}

TEST_F(MemoryPlanTest, CountsABatchOfImagesForEveryKindOfEvaluation) {
  for (const auto images : {&PlannedData::verification_images, &PlannedData::retrieval_images,
                            &PlannedData::classification_images}) {
    EXPECT_EQ(changed("input batches", [&](PlannedJob& p) { p.data.*images = 5; }) -
                  plan().part("input batches").bytes,
              32u * 112 * 112 * 3);
  }
}

TEST_F(MemoryPlanTest, CountsThePixelsThatDecodersOfWholeImagesKeep) {
  EXPECT_FALSE(has(plan(), "whole images"));
  planned_.job.augment.random_resized_crop = RandomResizedCrop{};
  planned_.job.num_workers = 12;
  EXPECT_EQ(plan().part("whole images").bytes, 12 * 16 * kMiB);
  planned_.job.val_resize = 256;
  planned_.threads = 3;
  EXPECT_EQ(plan().part("whole images").bytes, 12 * 16 * kMiB) << "no images to evaluate";
  planned_.data.classification_images = 10;
  EXPECT_EQ(plan().part("whole images").bytes, (12 + 2 * 3) * 16 * kMiB);
}

TEST_F(MemoryPlanTest, DividesTheClassesBetweenTheWorkers) {
  EXPECT_EQ(changed("class centres", [](PlannedJob& p) { p.world_size = 4; }) * 4,
            plan().part("class centres").bytes);
}

TEST_F(MemoryPlanTest, CountsTheAverageOfTheBackboneAndItsCopies) {
  planned_.job.save_every_steps = 10;
  planned_.job.replicate = true;
  const MemoryPlan before = plan();
  EXPECT_FALSE(has(before, "average of the backbone"));
  planned_.job.ema_decay = 0.999;
  const std::uint64_t averages = backbone_.memory.weights + backbone_.memory.state;
  EXPECT_EQ(plan().part("average of the backbone").bytes, averages + 4 * kMiB);
  EXPECT_EQ(plan().checkpoint_copy, before.checkpoint_copy + averages);
  EXPECT_EQ(plan().snapshots, before.snapshots + 2 * averages);
}

TEST_F(MemoryPlanTest, CountsTheTeacherAndBothEmbeddings) {
  EXPECT_FALSE(has(plan(), "teacher"));
  planned_.teacher = BackboneOptions{.network = "r18", .training = false};
  backbone_.teacher = {.weights = 4 * kMiB, .operands = 2 * kMiB, .state = kMiB, .activations = 3};
  const std::uint64_t embeddings = 32 * 512 * 4;
  EXPECT_EQ(plan().part("teacher").bytes, 7 * kMiB + 3 + 2 * embeddings + 32 * 4 + 4);
  planned_.job.distill_embeddings = DistillEmbeddings::kMse;
  EXPECT_EQ(plan().part("teacher").bytes, 7 * kMiB + 3 + embeddings + 4);
}

TEST_F(MemoryPlanTest, CountsTheTeachersCentresAndTheEmbeddingsOfAllWorkers) {
  planned_.teacher = BackboneOptions{.network = "r18", .embedding_size = 256, .training = false};
  backbone_.teacher = {.weights = kMiB};
  planned_.world_size = 2;
  EXPECT_FALSE(has(plan(), "teacher's class centres"));
  planned_.job.distill_embeddings = DistillEmbeddings::kNone;
  planned_.job.distill_logits = 1;
  EXPECT_EQ(plan().part("teacher").bytes, kMiB + 2 * 32 * 256 * 4);
  EXPECT_EQ(plan().part("teacher's class centres").bytes,
            plan().part("class centres").bytes / 512 * 256);
}

TEST_F(MemoryPlanTest, CountsTheOrderOfBalancedClasses) {
  planned_.data.images = 500'000;
  const std::uint64_t before = plan().part("input batches").bytes;
  planned_.job.balance_classes = true;
  EXPECT_EQ(plan().part("input batches").bytes, before + (2 * 500'000 + 2 * 100'000) * 8);
}

TEST_F(MemoryPlanTest, CountsACheckpointCopyOnlyIfTheJobSavesDuringTraining) {
  EXPECT_FALSE(has(plan(), "checkpoint copy"));
  EXPECT_EQ(plan().checkpoint_copy, 0u);
  planned_.job.save_every_seconds = 60;
  const std::uint64_t tables = 100'000ull * (2 * 512 * 4 + 4);
  EXPECT_EQ(plan().part("checkpoint copy").bytes, tables + (9 + 8) * kMiB);
  EXPECT_FALSE(plan().checkpoints_in_place);
  planned_.job.num_epoch = 10;
  planned_.data.images = 32'000;
  EXPECT_EQ(plan().part("checkpoint copy").bytes, tables + (9 + 8) * kMiB + 10'000 * 12)
      << "the history of 10,000 updates";
}

TEST_F(MemoryPlanTest, WritesCheckpointsInPlaceIfACopyWouldNotFit) {
  planned_.job.save_every_steps = 100;
  const std::uint64_t with_copy = plan().total();
  EXPECT_TRUE(has(plan(with_copy), "checkpoint copy"));
  const MemoryPlan tight = plan(with_copy - 1);
  EXPECT_FALSE(has(tight, "checkpoint copy"));
  EXPECT_TRUE(tight.checkpoints_in_place);
  EXPECT_TRUE(tight.fits());
  EXPECT_EQ(tight.total() + tight.checkpoint_copy, with_copy);
}

TEST_F(MemoryPlanTest, CountsTwoSnapshotsOfTheOwnAndTheNeighboursRows) {
  EXPECT_FALSE(has(plan(), "snapshots"));
  planned_.job.replicate = true;
  const std::uint64_t tables = 100'000ull * (2 * 512 * 4 + 4);
  EXPECT_EQ(plan().part("snapshots").bytes, 2 * (tables + (9 + 8) * kMiB)) << "no neighbour's rows";
  planned_.world_size = 4;
  EXPECT_EQ(plan().part("snapshots").bytes, 2 * (2 * tables / 4 + (9 + 8) * kMiB));
  EXPECT_EQ(plan().snapshots, plan().part("snapshots").bytes);
}

TEST_F(MemoryPlanTest, PutsSnapshotsOfAGpuIntoHostMemory) {
  planned_.gpu = true;
  planned_.job.replicate = true;
  EXPECT_FALSE(has(plan(), "snapshots"));
  planned_.job.save_every_steps = 10;
  planned_.host_bytes = plan().checkpoint_copy + plan().snapshots;
  EXPECT_FALSE(plan().checkpoints_in_place);
  --planned_.host_bytes;
  EXPECT_TRUE(plan().checkpoints_in_place);
}

TEST_F(MemoryPlanTest, CountsTheLargerOfEvaluationAndTheModelsFile) {
  EXPECT_EQ(plan().part("between steps").bytes, 9 * kMiB);
  planned_.data.verification_images = 12'000;
  const std::uint64_t rows = 12'000ull * (513 + 513 + 512) * 4;
  const std::uint64_t batches = 2ull * 32 * (112 * 112 * 3 + 512 * 4);
  const std::uint64_t figures = 12'000ull * 60 + 4'001 * 8;
  EXPECT_EQ(plan().part("between steps").bytes, rows + batches + figures);
}

TEST_F(MemoryPlanTest, ContainsOnlyGpuMemoryForAGpu) {
  planned_.gpu = true;
  planned_.data.verification_bytes = 5 * kMiB;
  for (const char* on_host : {"between steps", "verification sets", "input batches"}) {
    EXPECT_FALSE(has(plan(), on_host)) << on_host;
  }
  EXPECT_EQ(reserved_bytes(plan()),
            plan().total() - plan().part("process").bytes - plan().part("kernels' scratch").bytes);
  EXPECT_TRUE(has(plan(), "images"));
}

TEST_F(MemoryPlanTest, UsesTheMeasuredSizeOfNcclsBuffers) {
  planned_.gpu = true;
  EXPECT_FALSE(has(plan(), "NCCL's buffers"));
  planned_.world_size = 2;
  MemoryPlan two = plan();
  const std::uint64_t reserved = reserved_bytes(two);
  set_nccl_bytes(two, 5 * kMiB);
  EXPECT_EQ(two.part("NCCL's buffers").bytes, 5 * kMiB);
  EXPECT_EQ(reserved_bytes(two), reserved);
  EXPECT_THAT(memory_message(two), ::testing::HasSubstr("NCCL's buffers take 5.00 MiB"));
}

TEST_F(MemoryPlanTest, CountsGpuBuffersAtTheirAllocatedSize) {
  planned_.gpu = true;
  EXPECT_EQ(reserved_bytes(plan()) % gpu_allocation(1), 0u);
  planned_.job.num_classes += 1;
  planned_.job.embedding_size = 500;
  EXPECT_EQ(reserved_bytes(plan()) % gpu_allocation(1), 0u);
}

TEST_F(MemoryPlanTest, SizesHeadBuffersForTheCacheOfAGpuWithSlowMemory) {
  planned_.gpu = true;
  planned_.gpu_sizes.memory_bandwidth /= 10;
  EXPECT_LT(changed("head buffers", [](PlannedJob& p) { p.gpu_sizes.l2_bytes /= 2; }),
            plan().part("head buffers").bytes);
}

TEST_F(MemoryPlanTest, CountsHostMemoryOfGpuWorkers) {
  EXPECT_EQ(plan().host, 0u);
  planned_.gpu = true;
  const std::uint64_t before = plan().host;
  EXPECT_GT(before, 0u);
  planned_.data.verification_bytes = 5 * kMiB;
  planned_.job.save_every_steps = 10;
  planned_.job.replicate = true;
  EXPECT_EQ(plan().host, before + 5 * kMiB + plan().checkpoint_copy + plan().snapshots);
}

TEST_F(MemoryPlanTest, CopiesCheckpointsOfAGpuToTheHostIfTheyFit) {
  planned_.gpu = true;
  planned_.job.save_every_steps = 10;
  EXPECT_FALSE(has(plan(), "checkpoint copy"));
  planned_.host_bytes = plan().checkpoint_copy;
  EXPECT_FALSE(plan().checkpoints_in_place);
  --planned_.host_bytes;
  EXPECT_TRUE(plan().checkpoints_in_place);
}

class PlannedDevice : public ::testing::TestWithParam<bool> {};  // true: a GPU

TEST_P(PlannedDevice, KeepsActivationsInTheJobsPrecision) {
  PlannedJob planned{.job = {.network = "mbf", .batch_size = 4, .num_classes = 1000},
                     .gpu = GetParam()};
  const BackboneMemory fp32 = plan_backbone(planned).memory;
  planned.job.precision = Precision::kBf16;
  const BackboneMemory bf16 = plan_backbone(planned).memory;
  EXPECT_EQ(bf16.weights, fp32.weights);
  EXPECT_EQ(fp32.operands, 0u);
  EXPECT_EQ(bf16.operands, bf16.weights / 2);
  const auto ratio = static_cast<double>(bf16.activations) / static_cast<double>(fp32.activations);
  EXPECT_GT(ratio, 0.5);  // statistics and embeddings stay float32
  EXPECT_LT(ratio, 0.55);
}

INSTANTIATE_TEST_SUITE_P(CpuAndGpu, PlannedDevice, ::testing::Bool());

TEST(PlannedGpu, Fits29MillionClassesInto80Gigabytes) {
  const PlannedJob planned{.job = {.network = "r50",
                                   .sample_rate = 0.1,
                                   .precision = Precision::kBf16,
                                   .centre_precision = CentrePrecision::kBf16,
                                   .batch_size = 128,
                                   .num_classes = 29'000'000},
                           .gpu = true};
  const MemoryPlan plan = plan_memory(planned, plan_backbone(planned), 80'000'000'000);
  EXPECT_TRUE(plan.fits()) << plan.total();
}

TEST(PlannedCentres, OnDiskNeedMemoryForTheirCacheOnly) {
  PlannedJob planned{.job = {.network = "mbf",
                             .sample_rate = 0.001,
                             .centre_precision = CentrePrecision::kInt8,
                             .centre_storage = CentreStorage::kDisk,
                             .centre_cache = 512,
                             .batch_size = 2,
                             .save_every_steps = 10,
                             .num_classes = 100'000'000},
                     .data = {.height = 32, .width = 32}};
  const MemoryPlan plan = plan_memory(planned, plan_backbone(planned), std::uint64_t{8} << 30);
  // The window of 32 MiB, and 12 bytes for each page of the file.
  const std::uint64_t file = 100'000'000ull * 2 * 512;
  EXPECT_EQ(plan.part("centres' cache").bytes, (std::uint64_t{544} << 20) + file / 4096 * 12);
  EXPECT_TRUE(plan.checkpoints_in_place);
  EXPECT_EQ(plan.checkpoint_copy, 0u);
  PlannedJob in_memory = planned;
  in_memory.job.centre_storage = CentreStorage::kDevice;
  const char* const kActive = "inverse norms and active rows";  // also lists of their pages
  EXPECT_GT(plan.part(kActive).bytes,
            plan_memory(in_memory, plan_backbone(in_memory), 0).part(kActive).bytes);
  EXPECT_TRUE(plan.fits()) << plan.total();
  planned.job.num_classes = 1000;  // the tables are smaller than the cache
  EXPECT_LT(plan_memory(planned, plan_backbone(planned), 0).part("centres' cache").bytes,
            1000u * 2 * 512 + 3 * 4096);
}

TEST(PlannedBackbone, GrowsWithBatchSizeAndSynchronisedStatistics) {
  PlannedJob planned{.job = {.network = "mbf", .batch_size = 2, .num_classes = 10},
                     .data = {.height = 32, .width = 32}};
  const PlannedBackbone alone = plan_backbone(planned);
  EXPECT_GT(alone.memory.activations, 0u);
  EXPECT_GT(alone.scratch, 0u);
  planned.job.batch_size = 4;
  EXPECT_GT(plan_backbone(planned).memory.activations, alone.memory.activations);
  EXPECT_EQ(plan_backbone(planned).memory.weights, alone.memory.weights);
  planned.job.batch_size = 2;
  planned.job.sync_bn = true;
  planned.world_size = 8;
  EXPECT_GT(plan_backbone(planned).memory.activations, alone.memory.activations);
}

}  // namespace
}  // namespace pfc
