// Compares rows that are read with their missed updates to rows that have been settled.
#include <gtest/gtest.h>

#include <tuple>
#include <vector>

#include "tests/support/staged_comm.h"
#include "tests/support/thread_comm.h"
#include "tests/worker/head/head_job.h"
#include "worker/head/row_copy.h"

namespace pfc::testing {
namespace {

constexpr std::int64_t kReadClasses = 57, kReadDimension = 24, kReadSamples = 6;

using CurrentRowsCase = std::tuple<TestDevice, OptimizerKind>;

class CurrentRows : public OnHeadDevice<CurrentRowsCase> {
 protected:
  const TestDevice device_ = std::get<0>(GetParam());
};

TEST_P(CurrentRows, AreThoseAfterAllUpdatesAndChangeNothing) {
  run_ranks(1, [&](Comm& comm) {
    const auto ops = device_.make(1);
    StagedComm staged(*ops, comm);
    const HeadOptions o{.classes = kReadClasses,
                        .embedding_size = kReadDimension,
                        .sample_rate = 0.1,
                        .optimizer = std::get<1>(GetParam())};
    const auto head = make_head(*ops, staged, o);
    train_a_little(*ops, *head, o, kReadSamples);
    const auto stored = [&] {
      std::vector<float> rows(kReadClasses * kReadDimension);
      copy_rows_to_host(*ops, rows.data(), head->state().centres);
      return rows;
    };
    const std::vector<float> before = stored();
    std::vector<float> read(before.size());
    for (const RowRange part : {RowRange{0, 20}, {20, kReadClasses}}) {
      head->read_current(
          part, std::span(read).subspan(static_cast<std::size_t>(part.begin * kReadDimension),
                                        static_cast<std::size_t>(part.size() * kReadDimension)));
    }
    EXPECT_EQ(stored(), before);
    head->settle_all();
    const std::vector<float> after = stored();
    EXPECT_NE(after, before) << "some rows have missed updates";
    for (std::size_t i = 0; i < after.size(); ++i) {
      ASSERT_NEAR(read[i], after[i], 1e-6 * (1e-3 + std::abs(after[i]))) << i;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Devices, CurrentRows,
                         ::testing::Combine(::testing::ValuesIn(head_devices()),
                                            ::testing::Values(OptimizerKind::kSgd,
                                                              OptimizerKind::kAdamW)));

}  // namespace
}  // namespace pfc::testing
