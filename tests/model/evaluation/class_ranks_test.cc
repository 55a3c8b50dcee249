// Compares ranks over sharded classes with a plain search in float64.
#include "model/evaluation/class_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "tests/support/counting_new.h"
#include "tests/support/thread_comm.h"

namespace pfc {
namespace {

using ::testing::ElementsAre;

struct Layer {
  bool cosines = true;
  std::int64_t classes = 0, dimension = 0, sub_centres = 1;
  std::vector<float> weights, biases;  // [C, sub_centres, D], [C]
  // [N, D + 1]: the last number of a row is not part of the embedding.
  std::vector<float> embeddings;
  std::vector<std::int64_t> labels;  // [N]
  std::vector<std::int64_t> others;  // [N, others of each], or empty
  ClassPositions positions = {};

  [[nodiscard]] double score(std::size_t sample, std::size_t c) const {
    const auto k = static_cast<std::size_t>(sub_centres);
    double score = row_score(sample, c * k);
    for (std::size_t i = 1; i < k; ++i) score = std::max(score, row_score(sample, c * k + i));
    return score;
  }
  [[nodiscard]] double row_score(std::size_t sample, std::size_t c) const {
    const auto d = static_cast<std::size_t>(dimension);
    double product = 0, squares = 0;
    for (std::size_t k = 0; k < d; ++k) {
      const double w = weights[c * d + k];
      product += double{embeddings[sample * (d + 1) + k]} * w;
      squares += w * w;
    }
    return cosines ? product / std::sqrt(squares) : product + double{biases[c]};
  }
  [[nodiscard]] std::vector<std::int64_t> expected_ranks() const {
    std::vector<std::int64_t> ranks;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      const auto own = static_cast<std::size_t>(labels[i]);
      std::int64_t rank = 1;
      for (std::size_t c = 0; c < static_cast<std::size_t>(classes); ++c) {
        rank += c != own && !(score(i, c) < score(i, own)) ? 1 : 0;
      }
      ranks.push_back(rank);
    }
    return ranks;
  }
};

Layer random_layer(bool cosines, std::int64_t classes, std::int64_t dimension, std::int64_t samples,
                   std::int64_t sub_centres = 1) {
  std::mt19937 random(static_cast<unsigned>(7 + classes));
  std::normal_distribution<float> normal;
  std::uniform_int_distribution<std::int64_t> label(0, classes - 1);
  Layer layer{
      .cosines = cosines, .classes = classes, .dimension = dimension, .sub_centres = sub_centres};
  const auto fill = [&](std::vector<float>& to, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) to.push_back(normal(random));
  };
  fill(layer.weights, classes * sub_centres * dimension);
  fill(layer.biases, classes);
  fill(layer.embeddings, samples * (dimension + 1));
  for (std::int64_t i = 0; i < samples; ++i) layer.labels.push_back(label(random));
  // Rows of different lengths, so that cosines differ from products.
  for (std::size_t i = 0; i < layer.weights.size(); ++i) {
    layer.weights[i] *= 1.f + static_cast<float>(i / static_cast<std::size_t>(dimension) % 5);
  }
  return layer;
}

std::vector<std::int64_t> ranks_on(int workers, const Layer& layer, int threads = 2) {
  std::vector<std::vector<std::int64_t>> all(static_cast<std::size_t>(workers));
  testing::run_ranks(workers, [&](Comm& comm) {
    const auto d = layer.dimension, size = layer.sub_centres * d;
    const ClassLayer own{.classes = shard_of(layer.classes, comm.rank(), workers),
                         .cosines = layer.cosines,
                         .sub_centres = layer.sub_centres,
                         .positions = layer.positions,
                         .read = [&](RowRange classes, std::span<float> rows) {
                           for (std::int64_t p = classes.begin; p < classes.end; ++p) {
                             const std::int64_t c = layer.positions.label_at(p);
                             std::copy_n(layer.weights.begin() + c * size, size, rows.begin());
                             rows = rows.subspan(static_cast<std::size_t>(size));
                             if (layer.cosines) continue;
                             rows.front() = layer.biases[static_cast<std::size_t>(c)];
                             rows = rows.subspan(1);
                           }
                           EXPECT_TRUE(rows.empty());
                         }};
    all[static_cast<std::size_t>(comm.rank())] =
        ranks_of_labels(own, comm, {.numbers = layer.embeddings, .dimension = d, .stride = d + 1},
                        {.first = layer.labels, .others = layer.others}, threads);
  });
  for (const auto& ranks : all) EXPECT_EQ(ranks, all[0]);
  return all[0];
}

TEST(ClassRanks, AreThoseOfAPlainSearchForAnyNumberOfWorkersAndThreads) {
  for (const bool cosines : {true, false}) {
    const Layer layer = random_layer(cosines, 61, 19, 100);
    for (const int workers : {1, 2, 3, 7}) {
      EXPECT_EQ(ranks_on(workers, layer, workers), layer.expected_ranks());
    }
  }
}

TEST(ClassRanks, AreTheSameAtAnyPositions) {
  Layer layer = random_layer(true, 61, 19, 100);
  layer.positions = {.classes = 61, .sample_unit = 8, .seed = 2};
  EXPECT_EQ(ranks_on(2, layer), layer.expected_ranks());
}

TEST(ClassRanks, CompareMoreClassesThanAreInMemoryTogether) {
  const Layer layer = random_layer(true, 2500, 8, 40);
  EXPECT_EQ(ranks_on(2, layer), layer.expected_ranks());
}

TEST(ClassRanks, TakeTheHighestCosineOfAClass) {
  const Layer layer = random_layer(true, 700, 8, 40, 3);  // 341 classes are in memory together
  EXPECT_EQ(ranks_on(2, layer), layer.expected_ranks());
}

/// If a network maps all images to one point, its results must not count as right.
TEST(ClassRanks, CountEqualScoresAgainstTheLabel) {
  Layer layer{.classes = 4, .dimension = 2};
  layer.weights = {1, 0, 0, 1, 1, 0, 2, 0};  // equal cosines: 0, 2 and 3
  layer.embeddings = {3, 1, 9, 0, 0, 9};
  layer.labels = {2, 1};
  EXPECT_THAT(ranks_on(3, layer), ElementsAre(3, 4));
}

TEST(ClassRanks, CountScoresThatAreNotNumbersAgainstTheLabel) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  Layer layer{.cosines = false, .classes = 4, .dimension = 1, .weights = {1, 2, 3, 4}};
  layer.biases = {0, kNan, 0, 0};
  layer.embeddings = {1, 0, kNan, 0, 1, 0};
  layer.labels = {3, 3, 1};
  EXPECT_THAT(ranks_on(2, layer), ElementsAre(2, 4, 4));
}

TEST(ClassRanks, UseTheBestOfSeveralLabels) {
  Layer layer{.cosines = false, .classes = 5, .dimension = 1, .weights = {1, 5, 4, 3, 4}};
  layer.biases = {0, 0, 0, 0, 0};
  layer.embeddings = {1, 0, 1, 0, 1, 0};
  layer.labels = {3, 0, 3};
  layer.others = {2, -1, 1, 3, -1, -1};
  for (const int workers : {1, 3}) {
    EXPECT_THAT(ranks_on(workers, layer), ElementsAre(3, 1, 4)) << "class 4 is as good as class 2";
  }
}

TEST(ClassRanks, UseTheStatedMemory) {
  const Layer layer = random_layer(true, 1024, 3000, 50);
  const std::size_t before = testing::bytes_of_new();
  ranks_on(1, layer, 1);
  const auto taken = static_cast<double>(testing::bytes_of_new() - before);
  // The rest of the limit is for ClassLayer::read().
  const double reading = 1024.0 * 3001 * 10;
  EXPECT_NEAR(static_cast<double>(class_ranks_bytes(50, 3000, 1)) - reading, taken, 0.02 * taken);
}

}  // namespace
}  // namespace pfc
