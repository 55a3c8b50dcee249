// Compares the neighbours of classes with a search over all pairs in float64.
#include "worker/head/sampling/class_neighbours.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "common/error.h"
#include "kernels/cpu/margin/tile_products.h"
#include "kernels/make_ops.h"
#include "tests/support/relative_error.h"
#include "tests/support/staged_comm.h"
#include "tests/support/thread_comm.h"
#include "tests/worker/head/head_devices.h"
#include "tests/worker/head/head_job.h"

namespace pfc::testing {
namespace {

/// Returns random rows of all classes by position. The row of class 7 is zero.
std::vector<float> random_class_rows(const NeighbourOptions& o) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  std::vector<float> rows(static_cast<std::size_t>(o.positions.classes * o.row_size));
  std::ranges::generate(rows, [&] { return normal(random); });
  const auto first = rows.begin() + 7 * o.row_size;
  std::fill(first, first + o.row_size, 0.f);
  return rows;
}

double cosine_of(const float* a, const float* b, std::int64_t d) {
  double product = 0, aa = 0, bb = 0;
  for (std::int64_t i = 0; i < d; ++i) {
    product += double{a[i]} * b[i];
    aa += double{a[i]} * a[i];
    bb += double{b[i]} * b[i];
  }
  return aa == 0 || bb == 0 ? 0 : product / std::sqrt(aa * bb);
}

/// Returns the largest cosine of all pairs of sub-centres of two classes.
double cosine_of_classes(const NeighbourOptions& o, const std::vector<float>& rows, std::int64_t a,
                         std::int64_t b) {
  const std::int64_t size = o.row_size / o.sub_centres;
  double largest = -2;
  for (std::int64_t i = 0; i < o.sub_centres; ++i) {
    for (std::int64_t j = 0; j < o.sub_centres; ++j) {
      largest = std::max(
          largest, cosine_of(rows.data() + a * o.row_size + i * size,
                             rows.data() + b * o.row_size + j * size, size - (o.bias ? 1 : 0)));
    }
  }
  return largest;
}

std::vector<std::int32_t> expected_neighbours(const NeighbourOptions& o,
                                              const std::vector<float>& rows) {
  std::vector<std::int32_t> table;
  for (std::int64_t c = 0; c < o.positions.classes; ++c) {
    std::vector<std::pair<double, std::int32_t>> others;  // cosine, times -1, and class
    for (std::int32_t other = 0; other < o.positions.classes; ++other) {
      if (other != c) others.emplace_back(-cosine_of_classes(o, rows, c, other), other);
    }
    std::ranges::sort(others);
    for (std::int64_t i = 0; i < o.degree; ++i) {
      table.push_back(i < std::ssize(others) ? others[static_cast<std::size_t>(i)].second : -1);
    }
  }
  return table;
}

/// Returns rank 0's result, and expects the same on every rank.
ClassNeighbours neighbours_on(const TestDevice& device, int workers, const NeighbourOptions& o,
                              const std::vector<float>& rows) {
  std::vector<ClassNeighbours> found(static_cast<std::size_t>(workers));
  run_ranks(workers, [&](Comm& comm) {
    const auto ops = device.make(1);
    const RowRange shard = o.positions.shard(comm.rank(), comm.size());
    const auto read = [&](RowRange classes, std::span<float> to) {
      ASSERT_GE(classes.begin, shard.begin);
      ASSERT_LE(classes.end, shard.end);
      std::copy_n(rows.begin() + classes.begin * o.row_size, std::ssize(to), to.begin());
    };
    found[static_cast<std::size_t>(comm.rank())] = find_neighbours(*ops, comm, o, read);
  });
  for (const ClassNeighbours& each : found) EXPECT_EQ(each.table, found.front().table);
  EXPECT_EQ(found.front().degree, o.degree);
  return found.front();
}

class Neighbours : public OnHeadDevice<TestDevice> {
 protected:
  void expect_nearest(const NeighbourOptions& o) const {
    const std::vector<float> rows = random_class_rows(o);
    const std::vector<std::int32_t> expected = expected_neighbours(o, rows);
    for (const int workers : {1, 2, 3}) {
      EXPECT_EQ(neighbours_on(GetParam(), workers, o, rows).table, expected)
          << workers << " workers";
    }
  }
};

TEST_P(Neighbours, AreThoseWithTheLargestCosinesForAnyNumberOfWorkers) {
  expect_nearest({.positions = {.classes = 203}, .row_size = 24, .degree = 6});
}

TEST_P(Neighbours, AreComparedByTheirNearestSubCentres) {
  expect_nearest(
      {.positions = {.classes = 101}, .row_size = 3 * 16, .sub_centres = 3, .degree = 5});
}

TEST_P(Neighbours, AreComparedWithoutTheirBiases) {
  expect_nearest({.positions = {.classes = 101}, .row_size = 16 + 1, .bias = true, .degree = 5});
}

TEST_P(Neighbours, AreFoundIfWorkersHaveBlocksOfClasses) {
  expect_nearest(
      {.positions = {.classes = 101, .sample_unit = 8, .seed = 3}, .row_size = 16, .degree = 5});
}

TEST_P(Neighbours, OfFewClassesArePadded) {
  expect_nearest({.positions = {.classes = 9}, .row_size = 16, .degree = 12});
}

TEST_P(Neighbours, OfQueriesAreFoundByEachWorker) {
  const NeighbourOptions o{.positions = {.classes = 203}, .row_size = 24, .degree = 6};
  const std::vector<float> rows = random_class_rows(o);
  const std::vector<std::int32_t> expected = expected_neighbours(o, rows);
  for (const int workers : {1, 3}) {
    run_ranks(workers, [&](Comm& comm) {
      const auto ops = GetParam().make(1);
      const auto read = [&](RowRange classes, std::span<float> to) {
        std::copy_n(rows.begin() + classes.begin * o.row_size, std::ssize(to), to.begin());
      };
      const std::int64_t first = 20 + 50 * comm.rank();  // the queries are rows of classes
      const QueryRows queries{.count = 40, .read = [&](RowRange some, std::span<float> to) {
                                read({first + some.begin, first + some.end}, to);
                              }};
      const ClassNeighbours found = find_nearest(*ops, comm, o, read, queries);
      for (std::int64_t i = 0; i < queries.count; ++i) {
        EXPECT_EQ(found.of(i)[0], first + i);  // the class itself, and then its neighbours
        for (std::int64_t k = 1; k < o.degree; ++k) {
          EXPECT_EQ(found.of(i)[static_cast<std::size_t>(k)],
                    expected[static_cast<std::size_t>((first + i) * o.degree + k - 1)]);
        }
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Neighbours, ::testing::ValuesIn(head_devices()),
                         [](const auto& test) { return test.param.name; });

// More classes than a product has on either side.
TEST(NeighboursOnTheCpu, AreFoundAcrossTiles) {
  const NeighbourOptions o{.positions = {.classes = 4200}, .row_size = 8, .degree = 4};
  const std::vector<float> rows = random_class_rows(o);
  const std::vector<std::int32_t> expected = expected_neighbours(o, rows);
  EXPECT_EQ(neighbours_on(cpu_head_device(), 1, o, rows).table, expected);
  EXPECT_EQ(neighbours_on(cpu_head_device(), 2, o, rows).table, expected);
}

// A part has 4096 classes. Only 8 numbers of a row are not 0, so that the reference is fast.
TEST(NeighboursOnTheCpu, AreFoundAcrossParts) {
  const NeighbourOptions few{.positions = {.classes = 4200}, .row_size = 8, .degree = 4};
  NeighbourOptions o = few;
  o.row_size = 2048;
  const std::vector<float> numbers = random_class_rows(few);
  std::vector<float> rows(static_cast<std::size_t>(o.positions.classes * o.row_size));
  for (std::int64_t c = 0; c < few.positions.classes; ++c) {
    for (std::int64_t i = 0; i < few.row_size; ++i) {
      rows[static_cast<std::size_t>(c * o.row_size + 256 * i)] =
          numbers[static_cast<std::size_t>(c * few.row_size + i)];
    }
  }
  EXPECT_EQ(neighbours_on(cpu_head_device(), 1, o, rows).table, expected_neighbours(few, numbers));
}

// Rounding the operands to 8 bits changes a cosine by less than 0.01.
TEST(NeighboursOnTheCpu, AreNearlyTheNearestIfProductsAreBf16) {
  const TestDevice bf16{"Bf16", [](int threads) {
                          auto ops =
                              make_ops({.choice = DeviceChoice::kCpu, .cpu_threads = threads});
                          ops->use_activations(DType::kBFloat16);
                          return ops;
                        }};
  if (!cpu_has_bfloat16()) GTEST_SKIP() << "this CPU has no bf16 instructions (avx512_bf16)";
  const NeighbourOptions o{.positions = {.classes = 203}, .row_size = 24, .degree = 6};
  const std::vector<float> rows = random_class_rows(o);
  const std::vector<std::int32_t> best = expected_neighbours(o, rows);
  const ClassNeighbours found = neighbours_on(bf16, 2, o, rows);
  for (std::int64_t c = 0; c < o.positions.classes; ++c) {
    const auto near = found.of(c);
    EXPECT_EQ(std::set(near.begin(), near.end()).size(), 6u);
    for (std::size_t i = 0; i < near.size(); ++i) {
      const std::int32_t expected = best[static_cast<std::size_t>(c) * 6 + i];
      EXPECT_NEAR(cosine_of_classes(o, rows, c, near[i]), cosine_of_classes(o, rows, c, expected),
                  0.01);
    }
  }
}

TEST(NeighboursOnTheCpu, OfRankZeroAreCopiedToAllWorkers) {
  run_ranks(3, [](Comm& comm) {
    ClassNeighbours neighbours{.degree = 1, .table = {9, 9, 9}};
    if (comm.rank() == 0) neighbours = {.degree = 2, .table = {1, 2, 0, 2, 0, -1}};
    share_neighbours(neighbours, comm);
    EXPECT_EQ(neighbours.degree, 2);
    EXPECT_EQ(neighbours.table, (std::vector<std::int32_t>{1, 2, 0, 2, 0, -1}));
  });
}

// The stored rows lack the updates of the steps in which they were not active.
TEST(NeighboursOnTheCpu, OfAHeadCountTheUpdatesThatItsRowsHaveMissed) {
  run_ranks(1, [](Comm& comm) {
    const auto ops = cpu_head_device().make(2);
    const HeadOptions o{.classes = 300,
                        .embedding_size = 16,
                        .sample_rate = 0.1,
                        .hard_neighbours = 3,
                        .momentum = 0.9};
    const auto head = make_head(*ops, comm, o);
    train_a_little(*ops, *head, o, 6);
    const auto expected = [&] {
      std::vector<float> rows(static_cast<std::size_t>(o.classes * o.embedding_size));
      ops->copy_to_host(rows.data(), head->state().centres);
      return expected_neighbours(
          {.positions = o.positions(), .row_size = o.embedding_size, .degree = 3}, rows);
    };
    head->refresh_neighbours(comm);
    const std::vector<std::int32_t> stored = expected();
    head->settle_all();
    const std::vector<std::int32_t> settled = expected();
    ASSERT_NE(stored, settled);
    EXPECT_EQ(head->state().neighbours->table, settled);
  });
}

TEST(NeighboursOnTheCpu, OfEachMicroBatchAreActive) {
  HeadJob job;
  job.options = {.classes = 300,
                 .embedding_size = 16,
                 .sample_rate = 0.2,
                 .hard_neighbours = 2,
                 .seed = 3,
                 .gradient_acc = 2};
  job.centres = random_matrix(300, 16, 0.2, 8);
  for (std::uint64_t i = 0; i < 4; ++i) job.micro_batches.push_back(random_batch(9, 300, 16, i));
  const HeadOutcome<double> random = reference_head(job);
  job.neighbours = {.degree = 2,
                    .table = expected_neighbours(
                        {.positions = {.classes = 300}, .row_size = 16, .degree = 2}, job.centres)};
  const HeadOutcome<double> want = reference_head(job);
  for (const int workers : {1, 3}) {
    const HeadOutcome<float> got = run_head(job, workers);
    for (std::size_t i = 0; i < want.losses.size(); ++i) {
      EXPECT_GT(std::abs(random.losses[i] - want.losses[i]), 1e-3);
      EXPECT_NEAR(got.losses[i], want.losses[i], 1e-6 * want.losses[i]);
      EXPECT_LT(relative_error(got.d_embeddings[i], want.d_embeddings[i]), 1e-5);
    }
    EXPECT_LT(relative_error(got.centres, want.centres), 1e-5);
  }
}

class FailingBroadcast : public StagedComm {
 public:
  using StagedComm::StagedComm;
  void broadcast(const Tensor&, int) override { throw CommError("broadcast: connection lost"); }
};

// A refresh that fails keeps the neighbours of the one before.
TEST(NeighboursOnTheCpu, OfAHeadStayIfASearchFails) {
  run_ranks(1, [](Comm& comm) {
    const auto ops = cpu_head_device().make(1);
    const auto head =
        make_head(*ops, comm,
                  {.classes = 50, .embedding_size = 16, .sample_rate = 0.1, .hard_neighbours = 3});
    head->refresh_neighbours(comm);
    const std::vector<std::int32_t> before = head->state().neighbours->table;
    FailingBroadcast failing(*ops, comm);
    EXPECT_THROW(head->refresh_neighbours(failing), CommError);
    EXPECT_EQ(head->state().neighbours->table, before);
  });
}

// The head keeps neighbours of its centres as they are after all updates.
TEST(NeighboursOnTheCpu, OfAHeadBecomeActiveWithTheirLabels) {
  for (const int workers : {1, 3}) {
    run_ranks(workers, [](Comm& comm) {
      const auto ops = cpu_head_device().make(1);
      const HeadOptions o{.classes = 400,
                          .embedding_size = 16,
                          .sample_rate = 0.1,
                          .hard_neighbours = 3,
                          .seed = 11};
      const auto head = make_head(*ops, comm, o);
      HeadOptions random = o;
      random.hard_neighbours = 0;
      const auto other = make_head(*ops, comm, random);
      const std::vector<std::int64_t> labels{30, 350, 211, 30};
      EXPECT_EQ(head->sample(labels, 5).classes, other->sample(labels, 5).classes)
          << "there are no neighbours yet";
      head->refresh_neighbours(comm);
      const ClassNeighbours& found = *head->state().neighbours;
      const std::vector<std::int64_t> active = head->sample(labels, 5).classes;
      for (const std::int64_t label : labels) {
        for (const std::int64_t near : found.of(label)) {
          EXPECT_EQ(std::ranges::binary_search(active, near), head->shard().contains(near));
        }
      }
      EXPECT_EQ(other->state().neighbours, nullptr);
    });
  }
}

}  // namespace
}  // namespace pfc::testing
