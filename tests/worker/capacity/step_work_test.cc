#include "worker/capacity/step_work.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "common/error.h"

namespace pfc {
namespace {

PlannedJob job_with_network(const std::string& network, std::int64_t batch) {
  return {.job = {.network = network, .batch_size = batch, .num_classes = 1000}};
}

double flops(const OpWorks& works) {
  double sum = 0;
  for (const OpWork& work : works) sum += work.flops;
  return sum;
}

/// Returns the number of multiplications and additions in iresnet's convolutions and linear layer
/// for one image of 112 x 112 pixels. It follows from the architecture: all convolutions are 3 x 3,
/// except those of the shortcuts.
double iresnet_flops(const std::array<int, 4>& blocks) {
  const auto conv = [](double pixels, double in, double out, double kernel) {
    return 2 * pixels * pixels * in * out * kernel * kernel;
  };
  double sum = conv(112, 3, 64, 3);
  double in = 64, pixels = 112, out = 64;
  for (const int count : blocks) {
    for (int block = 0; block < count; ++block) {
      const double after = block == 0 ? pixels / 2 : pixels;
      sum += conv(pixels, in, out, 3) + conv(after, out, out, 3);
      if (block == 0) sum += conv(after, in, out, 1);
      pixels = after;
      in = out;
    }
    out *= 2;
  }
  return sum + 2 * 512.0 * 7 * 7 * 512;
}

TEST(StepWork, CountsTheOperationsOfIresnetFromItsArchitecture) {
  for (const auto& [network, blocks] :
       {std::pair{"r18", std::array{2, 2, 2, 2}}, std::pair{"r50", std::array{3, 4, 14, 3}},
        std::pair{"r100", std::array{3, 13, 30, 3}}}) {
    const StepWork work = count_step(job_with_network(network, 4));
    EXPECT_DOUBLE_EQ(flops(work.forward), 4 * iresnet_flops(blocks)) << network;
  }
}

TEST(StepWork, CountsTheOperationsOfAVisionTransformerFromItsArchitecture) {
  const double width = 256, tokens = 129, patches = 144, depth = 12;  // 0.1 of them are masked
  const double block = 12 * width * width * tokens + 2 * tokens * tokens * width;
  const double image =
      243 * width * patches + depth * block + patches * width * width + width * 512;
  const StepWork work = count_step(job_with_network("vit_t", 4));
  EXPECT_DOUBLE_EQ(flops(work.forward), 4 * 2 * image);
  // The backward pass computes the weights of the attention again.
  const double again = depth * tokens * tokens * width - 243 * width * patches;
  EXPECT_DOUBLE_EQ(flops(work.backward), 2 * flops(work.forward) + 4 * 2 * again);
}

TEST(StepWork, CountsAnImageClassifierLikeItsArchitecture) {
  PlannedJob p = job_with_network("resnet50", 4);
  p.job.embedding_size = 2048;
  p.data = {.height = 224, .width = 224};
  const StepWork work = count_step(p);
  // torchvision's documentation rounds this number to 4.09e9, and includes the classifier of 1000
  // classes.
  EXPECT_DOUBLE_EQ(flops(work.forward), 4 * 2 * (4'089'184'256.0 - 2048 * 1000));
}

TEST(StepWork, BackwardHasTwiceTheFlopsOfForwardMinusTheGradientOfTheImages) {
  const StepWork work = count_step(job_with_network("r18", 4));
  const double first = 2.0 * 4 * 112 * 112 * 3 * 64 * 9;  // images need no gradient
  EXPECT_DOUBLE_EQ(flops(work.backward), 2 * flops(work.forward) - first);
}

TEST(StepWork, IsProportionalToTheBatch) {
  const StepWork one = count_step(job_with_network("mbf", 2)),
                 two = count_step(job_with_network("mbf", 4));
  EXPECT_DOUBLE_EQ(flops(two.forward), 2 * flops(one.forward));
  EXPECT_EQ(one.forward.size(), two.forward.size());
  EXPECT_EQ(flops(one.optimizer), 0);
  EXPECT_EQ(one.optimizer.back().bytes, two.optimizer.back().bytes);
  EXPECT_EQ(one.gradients, two.gradients);
}

TEST(StepWork, DepthwiseConvolutionsHaveFewFlopsForTheirBytes) {
  const auto count = [](const std::string& network) {
    return std::ranges::count_if(
        count_step(job_with_network(network, 64)).forward,
        [](const OpWork& work) { return work.flops > 0 && work.flops < 3 * work.bytes; });
  };
  EXPECT_GT(count("mbf"), 10);
  EXPECT_EQ(count("r18"), 0);
}

TEST(StepWork, HalvesBytesOfActivationsInSixteenBits) {
  PlannedJob half = job_with_network("r18", 2);  // on a CPU
  half.job.precision = Precision::kBf16;
  const auto bytes = [](const StepWork& work) {
    double sum = 0;
    for (const OpWork& each : work.forward) {
      if (each.flops == 0) sum += each.bytes;
    }
    return sum;
  };
  const double whole = bytes(count_step(job_with_network("r18", 2)));
  // The embeddings, the result of the last batch norm, stay float32.
  EXPECT_NEAR(bytes(count_step(half)), whole / 2, whole / 1000);
}

TEST(StepWork, CountsTheBytesOfTheHeadsCollectives) {
  PlannedJob job = job_with_network("mbf", 8);
  job.world_size = 3;
  const StepWork work = count_step(job);
  EXPECT_EQ(work.statistics, 3 * 8 * 24);
  EXPECT_EQ(work.embeddings, 3 * 8 * 512 * 4);
  EXPECT_EQ(work.d_embeddings, work.embeddings);
  job.job.exchange_precision = Precision::kBf16;
  EXPECT_EQ(count_step(job).embeddings, work.embeddings / 2);
  EXPECT_EQ(count_step(job).d_embeddings, work.embeddings / 2);
  job.gpu = true;
  EXPECT_EQ(count_step(job).embeddings, work.embeddings / 2);
  EXPECT_EQ(count_step(job).d_embeddings, work.embeddings);
}

TEST(StepWork, CountsTheCollectivesOfSyncedBatchNorms) {
  PlannedJob synced = job_with_network("r18", 4);
  synced.world_size = 2;
  EXPECT_EQ(count_step(synced).synced_norms, 0);
  synced.job.sync_bn = true;
  EXPECT_GT(count_step(synced).synced_norms, 20);
}

TEST(StepWork, CountsRecomputedActivationsInTheBackwardPass) {
  PlannedJob job = job_with_network("r18", 4);
  job.world_size = 2;
  job.job.sync_bn = true;
  const StepWork kept = count_step(job);
  job.job.recompute = {"*"};
  const StepWork all = count_step(job);
  job.job.recompute = {"layer3.*"};
  const StepWork stage = count_step(job);
  EXPECT_EQ(flops(all.forward), flops(kept.forward));
  // The stem and the last linear layer are not in a block, and the result of the last block is
  // kept.
  EXPECT_GT(flops(all.backward), flops(kept.backward) + 0.9 * flops(kept.forward));
  EXPECT_LT(flops(all.backward), flops(kept.backward) + flops(kept.forward));
  EXPECT_GT(flops(stage.backward), flops(kept.backward) + 0.1 * flops(kept.forward));
  EXPECT_LT(flops(stage.backward), flops(all.backward));
  EXPECT_EQ(all.synced_norms, kept.synced_norms) << "statistics are gathered once";
}

TEST(StepWork, CountsTheTeachersForwardPass) {
  PlannedJob job = job_with_network("mbf", 4);
  EXPECT_TRUE(count_step(job).teacher.empty());
  job.teacher = BackboneOptions{.network = "r18", .batch = 1, .training = false};
  const StepWork work = count_step(job);
  EXPECT_EQ(flops(work.teacher), flops(count_step(job_with_network("r18", 4)).forward));
  EXPECT_EQ(flops(work.forward), flops(count_step(job_with_network("mbf", 4)).forward));
}

TEST(StepWork, IsCountedWithoutAllocatingTheActivations) {
  const StepWork work = count_step(job_with_network("r200", 100'000));  // terabytes of activations
  EXPECT_GT(flops(work.forward), 1e15);
}

TEST(HeadWork, CountsThreeMatrixProductsIfAllLogitsAreKept) {
  HeadOptions o{.classes = 10'000, .embedding_size = 512, .sample_rate = 1, .logits_memory = 1};
  const HeadWork work = head_work(o, 64, 5'000);
  EXPECT_DOUBLE_EQ(work.logits, 64.0 * 5'000);
  EXPECT_DOUBLE_EQ(work.flops, 3 * 2.0 * 64 * 5'000 * 512);
  EXPECT_EQ(work.drawn, 0);
  o.logits_memory = 0;
  EXPECT_DOUBLE_EQ(head_work(o, 64, 5'000).flops, 4 * 2.0 * 64 * 5'000 * 512);
}

TEST(HeadWork, IsProportionalToTheActiveRows) {
  HeadOptions o{.classes = 1'000'000, .embedding_size = 512, .sample_rate = 0.1};
  const HeadWork work = head_work(o, 128, 500'000);
  const double active = 50'000 + 64 * 0.9;  // half of the samples have their class on this worker
  EXPECT_DOUBLE_EQ(work.logits, 128 * active);
  EXPECT_EQ(work.drawn, 500'000);
  o.sample_hold = 8;
  EXPECT_EQ(head_work(o, 128, 500'000).drawn, 1'000'000);
  o.labels_per_image = 3;
  EXPECT_DOUBLE_EQ(head_work(o, 128, 500'000).logits, 128 * (active + 2 * 64 * 0.9));
}

TEST(HeadWork, IsTheMeanOverTheEpochsOfTheJob) {
  PlannedJob planned = job_with_network("mbf", 8);
  planned.job.num_epoch = 10;
  const auto logits = [&](const SampleRate& rate) {
    planned.job.sample_rate = rate;
    return count_step(planned).head.logits;
  };
  EXPECT_DOUBLE_EQ(logits(SampleRate({{0, 0.1}, {8, 1.0}})), 0.8 * logits(0.1) + 0.2 * logits(1));
  EXPECT_DOUBLE_EQ(logits(SampleRate({{0, 0.1}, {12, 1.0}})), logits(0.1));
}

TEST(HeadWork, MovesFewerBytesInBf16) {
  HeadOptions o{.classes = 1000, .embedding_size = 512};
  const double whole = head_work(o, 8, 1000).bytes;
  o.centre_precision = CentrePrecision::kBf16;
  EXPECT_DOUBLE_EQ(head_work(o, 8, 1000).bytes, whole / 2);
  o.centre_precision = CentrePrecision::kInt8;
  EXPECT_DOUBLE_EQ(head_work(o, 8, 1000).bytes, whole / 4);
  o.momentum = 0;  // centres are read three times and written once; momentum was read and written
  EXPECT_DOUBLE_EQ(head_work(o, 8, 1000).bytes, whole / 4 * 4 / 6);
}

}  // namespace
}  // namespace pfc
