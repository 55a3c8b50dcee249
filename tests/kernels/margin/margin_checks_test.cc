// Tests the margin softmax's errors for wrong shapes and types, which are equal on every device.

#include <functional>

#include "kernels/make_ops.h"
#include "kernels/margin/margin_softmax.h"
#include "tests/kernels/on_each_device.h"
#include "tests/support/error_message.h"

namespace pfc {
namespace {

constexpr std::int64_t kTableFirst = 10, kTableRows = 6, kTableDimension = 8, kTableSamples = 3;
constexpr std::int64_t kBytes = sizeof(RowStatistics);

class MarginChecks : public OnEachDevice {
 protected:
  void SetUp() override {
    OnEachDevice::SetUp();
    if (!ops_) return;
    weight_ = tensor({kTableRows, kTableDimension});
    momentum_ = tensor({kTableRows, kTableDimension});
    inverse_norm_ = tensor({kTableRows});
    x_ = tensor({kTableSamples, kTableDimension});
    small_ = tensor({5});
    statistics_ = OwnedTensor(*ops_, {kTableSamples, kBytes}, DType::kUInt8);
  }

  [[nodiscard]] CentreTable table() {
    return {.first_class = kTableFirst,
            .weight = *weight_,
            .inverse_norm = inverse_norm_,
            .momentum = *momentum_,
            .second = {},
            .updated = updated_,
            .history = &history_};
  }
  [[nodiscard]] MarginSoftmax::Batch batch() const {
    return {.embeddings = x_, .classes = classes_, .positives = {}};
  }

  /// Returns the error of a call with wrong arguments, without the source location.
  static std::string refusal(const std::function<void()>& call) {
    const std::string words = testing::message_of<std::logic_error>(call);
    return words.substr(words.rfind("margin_softmax."));
  }
  std::string refusal_of(const CentreTable& table, const MarginSoftmaxOptions& options = {}) {
    return refusal([&] { make_margin_softmax(*ops_, options, table); });
  }

  OwnedTensor weight_, momentum_, inverse_norm_, x_, small_, statistics_;
  std::vector<std::int32_t> updated_ = std::vector<std::int32_t>(kTableRows);
  UpdateHistory history_{OptimizerKind::kSgd};
  const std::vector<std::int64_t> classes_{10, 12, 15};
};

TEST_P(MarginChecks, CoverTheTensorsOfATable) {
  CentreTable t = table();
  t.momentum = *small_;
  EXPECT_EQ(refusal_of(t),
            "margin_softmax.table: momentum is fp32 [5], expected fp32 or bf16 or int8 [6, 8]");
  t = table();
  t.inverse_norm = small_;
  EXPECT_EQ(refusal_of(t), "margin_softmax.table: inverse_norm is fp32 [5], expected fp32 [6]");
  t = table();
  t.weight.shape = Shape{kTableRows * kTableDimension};
  EXPECT_EQ(refusal_of(t), "margin_softmax.table: weight must be [R, D]");
}

TEST_P(MarginChecks, CoverTheOptimizerOfATable) {
  CentreTable t = table();
  t.second = *momentum_;
  EXPECT_EQ(refusal_of(t), "margin_softmax.table: SGD has no second moment");
  EXPECT_EQ(refusal_of(table(), {.optimizer = OptimizerKind::kAdamW}),
            "margin_softmax.table: second is null, expected fp32 [6, 8]");
  EXPECT_EQ(refusal_of(t, {.optimizer = OptimizerKind::kAdamW}),
            "margin_softmax.table: needs a history of this optimizer's updates");
  t = table();
  t.updated = t.updated.first(2);
  EXPECT_EQ(refusal_of(t), "margin_softmax.table: updated needs one element for each row");
  t = table();
  t.history = nullptr;
  EXPECT_EQ(refusal_of(t), "margin_softmax.table: needs a history of this optimizer's updates");
}

TEST_P(MarginChecks, CoverTheBatch) {
  const auto softmax = make_margin_softmax(*ops_, {}, table());
  const auto words = [&](const MarginSoftmax::Batch& b, const Tensor& statistics) {
    return refusal([&] { softmax->forward(b, statistics); });
  };
  MarginSoftmax::Batch b = batch();
  b.embeddings = small_;
  EXPECT_EQ(words(b, statistics_),
            "margin_softmax.forward: embeddings is fp32 [5], expected fp32 [5, 8]");
  b.embeddings = Tensor(nullptr, DType::kFloat32, {0, kTableDimension});
  EXPECT_EQ(words(b, statistics_), "margin_softmax.forward: there are no embeddings");
  EXPECT_EQ(words(batch(), small_),
            "margin_softmax.forward: statistics is fp32 [5], expected uint8 [3, " +
                std::to_string(kBytes) + "]");
  const std::vector<std::int64_t> outside{9, 12};
  b = batch();
  b.classes = outside;
  EXPECT_EQ(words(b, statistics_),
            "margin_softmax.forward: classes 9 to 12 are not within this worker's 10 to 15");
  const std::vector<Positive> positives(kTableSamples + 1);
  b = batch();
  b.positives = positives;
  EXPECT_EQ(words(b, statistics_),
            "margin_softmax.forward: more positives than the samples may have targets");
}

TEST_P(MarginChecks, CoverExchangedStatistics) {
  const auto softmax = make_margin_softmax(*ops_, {}, table());
  EXPECT_EQ(refusal([&] { softmax->combine(statistics_); }),
            "margin_softmax.combine: forward() comes first");
  softmax->forward(batch(), statistics_);
  EXPECT_EQ(refusal([&] { softmax->combine(small_); }),
            "margin_softmax.combine: statistics is fp32 [5], expected uint8 [3, " +
                std::to_string(kBytes) + "]");
  const Tensor parts(small_->data, DType::kFloat32, {1, 1, 5});
  EXPECT_EQ(refusal([&] { softmax->merge_parts(parts); }),
            "margin_softmax.merge_parts: parts is fp32 [1, 1, 5], expected uint8 [1, 1, " +
                std::to_string(kBytes) + "]");
}

TEST_P(MarginChecks, CoverTheGradients) {
  const auto softmax = make_margin_softmax(*ops_, {}, table());
  EXPECT_EQ(refusal([&] { softmax->backward(1.0, x_, {}); }),
            "margin_softmax.backward: forward() comes first");
  softmax->forward(batch(), statistics_);
  softmax->combine(statistics_);
  const std::string found = ": d_embeddings is fp32 [5], expected fp32 [3, 8]";
  EXPECT_EQ(refusal([&] { softmax->backward(1.0, small_, {}); }),
            "margin_softmax.backward" + found);
  EXPECT_EQ(refusal([&] { softmax->backward_embeddings(1.0, small_); }),
            "margin_softmax.backward_embeddings" + found);
  EXPECT_EQ(refusal([&] { softmax->backward_accumulate(1.0, small_, weight_, classes_); }),
            "margin_softmax.backward_accumulate" + found);
}

TEST_P(MarginChecks, CoverSummedGradients) {
  const auto softmax = make_margin_softmax(*ops_, {}, table());
  softmax->forward(batch(), statistics_);
  softmax->combine(statistics_);
  const std::vector<std::int64_t> slots{0, 1}, outside{12, 16};
  const std::string gradients = ": gradients is fp32 [5], expected fp32 [any number, 8]";
  const std::string few = ": found 2 slots, expected one for each of 3 classes";
  EXPECT_EQ(refusal([&] { softmax->backward_accumulate(1.0, x_, small_, classes_); }),
            "margin_softmax.backward_accumulate" + gradients);
  EXPECT_EQ(refusal([&] { softmax->backward_accumulate(1.0, x_, weight_, slots); }),
            "margin_softmax.backward_accumulate" + few);
  EXPECT_EQ(refusal([&] { softmax->update(classes_, classes_, small_, {}); }),
            "margin_softmax.update" + gradients);
  EXPECT_EQ(refusal([&] { softmax->update(classes_, slots, weight_, {}); }),
            "margin_softmax.update" + few);
  const std::string where = ": classes 12 to 16 are not within this worker's 10 to 15";
  EXPECT_EQ(refusal([&] { softmax->update(outside, slots, weight_, {}); }),
            "margin_softmax.update" + where);
  EXPECT_EQ(refusal([&] { softmax->settle(outside); }), "margin_softmax.settle" + where);
}

INSTANTIATE_TEST_SUITE_P(Kernels, MarginChecks, ::testing::ValuesIn(test_devices()), device_name);

}  // namespace
}  // namespace pfc
