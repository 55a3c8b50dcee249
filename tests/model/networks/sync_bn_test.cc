// Compares ranks that share batch statistics with one worker that has the whole batch.
#include <gtest/gtest.h>

#include "tests/model/networks/backbone_testing.h"
#include "tests/support/thread_comm.h"

namespace pfc {
namespace {

struct SyncBnResult {
  std::vector<float> embeddings, gradients, state;
};

using MakeNetwork = std::unique_ptr<Backbone> (*)(Ops& ops, const BackboneOptions& options);

SyncBnResult run_synced_pass(const BackboneOptions& options, const std::vector<float>& images,
                             const std::vector<float>& d_embeddings,
                             MakeNetwork make = testing::make_small_network) {
  const auto ops = testing::cpu_ops();
  const auto net = make(*ops, options);
  const OwnedTensor x = to_device(*ops, testing::images_shape(options), images);
  const OwnedTensor d = to_device(*ops, {options.batch, options.embedding_size}, d_embeddings);
  SyncBnResult result;
  result.embeddings = to_host(*ops, net->forward(x, true, 0));
  net->backward(d, {}, [](std::int64_t) {});
  result.gradients = to_host(*ops, net->gradients());
  result.state = to_host(*ops, net->state.flat());
  return result;
}

std::vector<float> part(const std::vector<float>& whole, int rank, int parts) {
  const auto n = static_cast<std::ptrdiff_t>(whole.size()) / parts;
  return {whole.begin() + rank * n, whole.begin() + (rank + 1) * n};
}

class SyncBn : public ::testing::TestWithParam<int> {};

void expect_joint_statistics(int ranks, std::int64_t embedding_size, MakeNetwork make) {
  BackboneOptions whole = testing::small_options(4 * ranks);
  whole.embedding_size = embedding_size;
  std::vector<float> images = testing::random_images(whole);
  // The ranks have different means and deviations, so averaging their variances would be wrong.
  for (std::size_t i = 0; i < images.size() / static_cast<std::size_t>(ranks); ++i) {
    images[i] = 3.f * images[i] + 2.f;
  }
  const std::vector<float> d = testing::random_values(whole.batch * whole.embedding_size, 9);
  const SyncBnResult expected = run_synced_pass(whole, images, d, make);

  std::vector<SyncBnResult> results(static_cast<std::size_t>(ranks));
  testing::run_ranks(ranks, [&](Comm& comm) {
    BackboneOptions options = whole;
    options.batch = 4;
    options.sync_bn = &comm;
    options.rank = comm.rank();
    results[static_cast<std::size_t>(comm.rank())] = run_synced_pass(
        options, part(images, comm.rank(), ranks), part(d, comm.rank(), ranks), make);
  });

  SyncBnResult together;
  together.gradients.assign(expected.gradients.size(), 0.f);
  for (const SyncBnResult& r : results) {
    together.embeddings.insert(together.embeddings.end(), r.embeddings.begin(), r.embeddings.end());
    for (std::size_t i = 0; i < r.gradients.size(); ++i) together.gradients[i] += r.gradients[i];
    EXPECT_LT(relative_error(r.state, expected.state), 1e-5);
  }
  EXPECT_LT(relative_error(together.embeddings, expected.embeddings), 1e-4);
  EXPECT_LT(relative_error(together.gradients, expected.gradients), 1e-3);
}

TEST_P(SyncBn, RanksComputeWhatOneWorkerDoesWithTheWholeBatch) {
  expect_joint_statistics(GetParam(), 8, testing::make_small_network);
}

TEST_P(SyncBn, RanksOfAnImageClassifierComputeWhatOneWorkerDoesWithTheWholeBatch) {
  expect_joint_statistics(GetParam(), 16, testing::make_small_classifier);
}

INSTANTIATE_TEST_SUITE_P(Ranks, SyncBn, ::testing::Values(1, 2, 3));

TEST(SyncBn, FailedPeerEndsTheForwardPass) {
  EXPECT_THROW(testing::run_ranks(2,
                                  [](Comm& comm) {
                                    if (comm.rank() == 1) throw CommError("gone");
                                    BackboneOptions options = testing::small_options(4);
                                    options.sync_bn = &comm;
                                    run_synced_pass(
                                        options, testing::random_images(options),
                                        testing::random_values(4 * options.embedding_size, 9));
                                  }),
               CommError);
}

}  // namespace
}  // namespace pfc
