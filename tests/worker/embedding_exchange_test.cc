#include "worker/embedding_exchange.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <vector>

#include "kernels/cpu/margin/tile_products.h"
#include "kernels/make_ops.h"
#include "kernels/math/bfloat16.h"
#include "tests/support/relative_error.h"
#include "tests/support/thread_comm.h"
#include "worker/head/head.h"

namespace pfc {
namespace {

constexpr std::int64_t kOwn = 24, kNumbers = 64;  // samples of a worker, and size of an embedding

std::vector<float> random_numbers(std::int64_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = normal(generator);
  return values;
}

float rounded(float x) { return float_of(nearest_bfloat16(x)); }

class ExchangeOfEmbeddings : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (!cpu_has_bfloat16()) GTEST_SKIP() << "this CPU has no avx512_bf16";
  }

  struct Rank {
    Ops& ops;
    Comm& comm;
    EmbeddingExchange& exchange;
  };
  void on_ranks(Precision exchanged, const std::function<void(const Rank&)>& work) const {
    JobConfig job;
    job.batch_size = kOwn;
    job.embedding_size = kNumbers;
    job.exchange_precision = exchanged;
    testing::run_ranks(workers_, [&](Comm& comm) {
      const auto ops =
          make_ops({.choice = DeviceChoice::kCpu, .cpu_threads = 1, .precision = Precision::kBf16});
      EmbeddingExchange exchange(*ops, comm, job);
      work({*ops, comm, exchange});
    });
  }

  /// Returns the gradients of this worker's embeddings in a step of the head.
  std::vector<float> gradients(const Rank& rank) const {
    std::vector<float> x = random_numbers(kOwn * kNumbers, static_cast<unsigned>(rank.comm.rank()));
    std::vector<float> all(x.size() * static_cast<std::size_t>(workers_)), own(x.size());
    const Tensor gathered(all.data(), {workers_ * kOwn, kNumbers});
    rank.exchange.all_gather({x.data(), {kOwn, kNumbers}}, gathered);
    const auto head = make_head(rank.ops, rank.comm, {.classes = 1000, .embedding_size = kNumbers});
    std::vector<std::int64_t> labels(static_cast<std::size_t>(workers_ * kOwn));
    for (std::size_t i = 0; i < labels.size(); ++i) {
      labels[i] = static_cast<std::int64_t>(i) * 7 % 1000;
    }
    const ActiveCentres active = head->sample(labels, 1);
    const HeadResult result =
        head->run({.all_embeddings = gathered, .all_labels = labels, .active = active});
    rank.exchange.reduce_scatter(result.d_embeddings, {own.data(), {kOwn, kNumbers}});
    return own;
  }

  const int workers_ = GetParam();
};

TEST_P(ExchangeOfEmbeddings, GathersRoundedEmbeddings) {
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    const bool rounds = precision == Precision::kBf16 && workers_ > 1;
    on_ranks(precision, [&](const Rank& rank) {
      std::vector<float> own =
          random_numbers(kOwn * kNumbers, static_cast<unsigned>(rank.comm.rank()));
      std::vector<float> all(own.size() * static_cast<std::size_t>(workers_));
      rank.exchange.all_gather({own.data(), {kOwn, kNumbers}},
                               {all.data(), {workers_ * kOwn, kNumbers}});
      for (int from = 0; from < workers_; ++from) {
        const std::vector<float> sent =
            random_numbers(kOwn * kNumbers, static_cast<unsigned>(from));
        for (std::size_t i = 0; i < sent.size(); ++i) {
          ASSERT_EQ(all[static_cast<std::size_t>(from) * sent.size() + i],
                    rounds ? rounded(sent[i]) : sent[i]);
        }
      }
    });
  }
}

TEST_P(ExchangeOfEmbeddings, SumsRoundedGradientsWithoutFurtherRounding) {
  on_ranks(Precision::kBf16, [&](const Rank& rank) {
    const std::int64_t count = workers_ * kOwn * kNumbers;
    std::vector<float> all = random_numbers(count, static_cast<unsigned>(rank.comm.rank()));
    std::vector<float> own(kOwn * kNumbers);
    rank.exchange.reduce_scatter({all.data(), {workers_ * kOwn, kNumbers}},
                                 {own.data(), {kOwn, kNumbers}});
    std::vector<double> want(own.size());
    for (int from = 0; from < workers_; ++from) {
      const std::vector<float> sent = random_numbers(count, static_cast<unsigned>(from));
      for (std::size_t i = 0; i < want.size(); ++i) {
        const float x = sent[static_cast<std::size_t>(rank.comm.rank()) * want.size() + i];
        want[i] += double{workers_ > 1 ? rounded(x) : x};
      }
    }
    for (std::size_t i = 0; i < want.size(); ++i) ASSERT_EQ(own[i], static_cast<float>(want[i]));
  });
}

// Rounding to bf16 changes a number by at most 1 / 256 of it, and on average by less.
TEST_P(ExchangeOfEmbeddings, ChangesTheGradientsByLessThanOnePercent) {
  std::vector<std::vector<float>> whole(static_cast<std::size_t>(workers_));
  const auto place = [](const Rank& rank) { return static_cast<std::size_t>(rank.comm.rank()); };
  on_ranks(Precision::kFp32, [&](const Rank& rank) { whole[place(rank)] = gradients(rank); });
  on_ranks(Precision::kBf16, [&](const Rank& rank) {
    const double error = relative_error(gradients(rank), whole[place(rank)]);
    RecordProperty("relative_error", std::to_string(error));
    EXPECT_LT(error, 1e-2);
    EXPECT_EQ(error > 0, workers_ > 1);
  });
}

INSTANTIATE_TEST_SUITE_P(Workers, ExchangeOfEmbeddings, ::testing::Values(1, 2, 3, 8),
                         [](const auto& test) { return "W" + std::to_string(test.param); });

}  // namespace
}  // namespace pfc
