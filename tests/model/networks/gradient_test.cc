// Compares gradients with central differences of the loss sum(d_embeddings * embeddings).
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "model/networks/architectures/architectures.h"
#include "model/networks/arena.h"
#include "tests/model/networks/backbone_testing.h"

namespace pfc {
namespace {

class Gradient : public ::testing::Test {
 protected:
  void build(BackboneOptions options) {
    options_ = options;
    net_ = make(options);
    randomise_vectors();
    randomise_statistics();
    images_ = to_device(*ops_, testing::images_shape(options), testing::random_images(options));
    d_embeddings_ = testing::random_values(options.batch * options.embedding_size, 2);
  }

  virtual std::unique_ptr<Backbone> make(const BackboneOptions& options) {
    return testing::make_small_network(*ops_, options);
  }

  // Gives random values to vectors that start with ones or zeros, because these would hide a
  // missing factor.
  void randomise_vectors() {
    unsigned seed = 100;
    for (const Parameter& p : net_->weights.parameters) {
      if (p.torch_shape.size() > 1) continue;
      const bool shift = p.name.ends_with(".bias");
      std::vector<float> values = testing::random_values(p.count, seed++, 0.2f);
      for (float& v : values) v += shift ? 0.f : 0.8f;
      ops_->copy_to_device(parameter_view(p, net_->weights.flat()), values.data());
    }
  }

  // Sets the statistics of frozen batch norms. Other batch norms do not read them.
  void randomise_statistics() {
    unsigned seed = 200;
    for (const Parameter& p : net_->state.parameters) {
      if (p.name == "features.weight") continue;
      std::vector<float> values = testing::random_values(p.count, seed++, 0.2f);
      for (float& v : values) v += p.name.ends_with(".running_var") ? 1.f : 0.f;
      ops_->copy_to_device(parameter_view(p, net_->state.flat()), values.data());
    }
  }

  int compare_with_slopes(double tolerance = 0.02);

  double loss() {
    const auto embeddings = to_host(*ops_, net_->forward(images_, true, 5));
    return std::inner_product(embeddings.begin(), embeddings.end(), d_embeddings_.begin(), 0.0);
  }

  void backward(bool accumulate = false) {
    const OwnedTensor d =
        to_device(*ops_, {options_.batch, options_.embedding_size}, d_embeddings_);
    net_->backward(d, {.accumulate = accumulate}, [](std::int64_t) {});
  }

  /// Returns the slope of the loss along `direction`, which is a direction for one parameter.
  double difference_quotient(const Parameter& p, const std::vector<float>& direction, float step) {
    const Tensor view = parameter_view(p, net_->weights.flat());
    const std::vector<float> start = to_host(*ops_, view);
    const auto loss_at = [&](float distance) {
      std::vector<float> moved = start;
      for (std::size_t i = 0; i < moved.size(); ++i) moved[i] += distance * direction[i];
      ops_->copy_to_device(view, moved.data());
      return loss();
    };
    const double slope = (loss_at(step) - loss_at(-step)) / (2.0 * static_cast<double>(step));
    ops_->copy_to_device(view, start.data());
    return slope;
  }

  std::unique_ptr<Ops> ops_ = testing::cpu_ops();
  BackboneOptions options_;
  std::unique_ptr<Backbone> net_;
  OwnedTensor images_;
  std::vector<float> d_embeddings_;
};

double length_of(const std::vector<float>& v) {
  return std::sqrt(std::inner_product(v.begin(), v.end(), v.begin(), 0.0));
}

/// Compares the gradients of all parameters that are not frozen. Returns their number.
int Gradient::compare_with_slopes(double tolerance) {
  loss();
  backward();
  const double whole = length_of(to_host(*ops_, net_->gradients()));
  int compared = 0;
  for (const Parameter& p : net_->weights.parameters) {
    if (p.frozen) continue;
    Parameter place = p;
    place.offset -= net_->first_trained();
    const std::vector<float> gradient = to_host(*ops_, parameter_view(place, net_->gradients()));
    const double length = length_of(gradient);
    // Leaves out a shift before a batch norm: it has no effect, so its gradient is only rounding.
    if (length < 1e-5 * whole) continue;
    ++compared;
    // Along the gradient, the slope is the gradient's length, which is large compared with
    // rounding.
    std::vector<float> direction = gradient;
    for (float& d : direction) d /= static_cast<float>(length);
    EXPECT_NEAR(difference_quotient(p, direction, 2e-3f) / length, 1.0, tolerance) << p.name;
    // Also compares along another direction, where a large correct part of the gradient cannot hide
    // a wrong part.
    direction = testing::random_values(p.count, 77, 1.f / std::sqrt(static_cast<float>(p.count)));
    const double expected =
        std::inner_product(gradient.begin(), gradient.end(), direction.begin(), 0.0);
    EXPECT_NEAR(difference_quotient(p, direction, 5e-3f), expected, tolerance * length) << p.name;
  }
  return compared;
}

TEST_F(Gradient, EqualsTheSlopeOfTheLossForEveryParameter) {
  BackboneOptions options = testing::small_options(6);
  options.dropout = 0.3f;
  build(options);
  EXPECT_GE(compare_with_slopes(), 30);
}

// Freezes the beginning, the middle with a branch, single tensors of a fused layer, and the end.
TEST_F(Gradient, EqualsTheSlopeForTrainedParametersIfOthersAreFrozen) {
  const std::vector<std::vector<std::string>> frozen = {
      {"stem*", "a.*"},
      {"a.down.*", "b.*"},
      {"stem*", "a.bn1.*", "a.down.*"},
      {"stem_bn.*", "b.bn2.weight", "b.bn2.bias", "c.conv1*"},
      {"stem_p*", "b.prelu.*", "b.bn3.weight", "fc.weight", "features.*"}};
  for (const std::vector<std::string>& names : frozen) {
    SCOPED_TRACE(names.back());
    BackboneOptions options = testing::small_options(10);
    options.freeze = names;
    build(options);
    EXPECT_GE(compare_with_slopes(), 15);
    for (const Parameter& p : net_->weights.parameters) {
      if (!p.frozen || p.offset < net_->first_trained()) continue;
      Parameter place = p;
      place.offset -= net_->first_trained();
      EXPECT_EQ(length_of(to_host(*ops_, parameter_view(place, net_->gradients()))), 0) << p.name;
    }
  }
}

/// A vision transformer with 9 tokens, of which training keeps 7.
class VitGradient : public Gradient {
 protected:
  std::unique_ptr<Backbone> make(const BackboneOptions& options) override {
    NetworkBuilder net(*ops_, options);
    return net.build(vit(net, {.width = 128, .depth = 3, .drop_path = 0.4f, .mask = 0.2}));
  }
  static BackboneOptions options(std::vector<std::string> frozen) {
    return {.network = "vit",
            .batch = 6,
            .embedding_size = 8,
            .height = 27,
            .width = 27,
            .seed = 3,
            .freeze = std::move(frozen)};
  }
};

TEST_F(VitGradient, EqualsTheSlopeOfTheLossForEveryParameter) {
  build(options({}));
  EXPECT_GE(compare_with_slopes(), 36);
}

TEST_F(VitGradient, EqualsTheSlopeForTrainedParametersIfOthersAreFrozen) {
  const std::vector<std::vector<std::string>> frozen = {
      {"patch_embed*", "pos_embed", "blocks.0.*"},
      {"patch_embed*", "pos_embed", "blocks.0.norm1*", "blocks.0.attn.qkv*"},
      {"blocks.1.attn*", "blocks.2.mlp.fc1.bias", "mask_token"},
      {"*.bias", "*norm*", "feature.*"}};
  for (const std::vector<std::string>& names : frozen) {
    SCOPED_TRACE(names.back());
    build(options(names));
    EXPECT_GE(compare_with_slopes(), 15);
  }
}

TEST_F(VitGradient, IsSummedWhenAccumulating) {
  build(options({}));
  loss();
  backward();
  const std::vector<float> once = to_host(*ops_, net_->gradients());
  loss();
  backward(true);
  std::vector<float> twice = to_host(*ops_, net_->gradients());
  for (float& g : twice) g /= 2.f;
  EXPECT_LT(relative_error(twice, once), 1e-6);
}

class ClassifierGradient : public Gradient {
 protected:
  std::unique_ptr<Backbone> make(const BackboneOptions& options) override {
    return testing::make_small_classifier(*ops_, options);
  }
  // Moving the weights changes the sign of some numbers before a ReLU, more often than before a
  // PReLU.
  static constexpr double kTolerance = 0.05;
  static BackboneOptions options(std::vector<std::string> frozen) {
    BackboneOptions o = testing::small_options(64);
    o.embedding_size = 16;
    o.freeze = std::move(frozen);
    return o;
  }
};

TEST_F(ClassifierGradient, EqualsTheSlopeOfTheLossForEveryParameter) {
  build(options({}));
  EXPECT_GE(compare_with_slopes(kTolerance), 23);
}

TEST_F(ClassifierGradient, EqualsTheSlopeForTrainedParametersIfOthersAreFrozen) {
  const std::vector<std::vector<std::string>> frozen = {
      {"stem*"},
      {"stem*", "a.*", "b.*", "c.conv.weight", "c.bn*"},
      {"a.*", "b.down.*", "c.fc1.weight"},
      {"stem*", "a.conv1*", "a.bn1*", "b.bn2*", "c.fc2.weight"}};
  for (const std::vector<std::string>& names : frozen) {
    SCOPED_TRACE(names.back());
    build(options(names));
    EXPECT_GE(compare_with_slopes(kTolerance), 2);
  }
}

TEST_F(ClassifierGradient, IsSummedWhenAccumulating) {
  build(options({}));
  loss();
  backward();
  const std::vector<float> once = to_host(*ops_, net_->gradients());
  loss();
  backward(true);
  std::vector<float> twice = to_host(*ops_, net_->gradients());
  for (float& g : twice) g /= 2.f;
  EXPECT_LT(relative_error(twice, once), 1e-6);
}

TEST_F(Gradient, FrozenBatchNormsKeepTheirStatistics) {
  BackboneOptions options = testing::small_options();
  options.freeze = {"stem*", "a.*", "b.bn1.weight"};  // the bias of b.bn1 is trained
  build(options);
  const std::vector<float> before = to_host(*ops_, net_->state.flat());
  loss();
  const std::vector<float> after = to_host(*ops_, net_->state.flat());
  for (const Parameter& p : net_->state.parameters) {
    const auto same = std::equal(before.begin() + p.offset, before.begin() + p.offset + p.count,
                                 after.begin() + p.offset);
    const bool frozen =
        p.name.starts_with("stem") || p.name.starts_with("a.") || p.name == "features.weight";
    EXPECT_EQ(same, frozen) << p.name;
  }
  EXPECT_EQ(net_->batches_tracked, 1);
}

TEST_F(Gradient, IsEmptyIfAllIsFrozen) {
  BackboneOptions options = testing::small_options();
  options.freeze = {"*"};
  build(options);
  const double evaluated = [&] {
    const auto e = to_host(*ops_, net_->forward(images_, false, 5));
    return std::inner_product(e.begin(), e.end(), d_embeddings_.begin(), 0.0);
  }();
  EXPECT_EQ(loss(), evaluated);
  std::vector<std::int64_t> ready;
  const OwnedTensor d = to_device(*ops_, {options_.batch, options_.embedding_size}, d_embeddings_);
  net_->backward(d, {}, [&](std::int64_t offset) { ready.push_back(offset); });
  EXPECT_EQ(ready, std::vector<std::int64_t>{0});
  EXPECT_EQ(net_->gradients().elements(), 0);
  EXPECT_EQ(net_->batches_tracked, 0);
}

TEST_F(Gradient, IsSummedWhenAccumulating) {
  build(testing::small_options());
  loss();
  backward();
  const std::vector<float> once = to_host(*ops_, net_->gradients());
  loss();
  backward(true);
  std::vector<float> twice = to_host(*ops_, net_->gradients());
  for (float& g : twice) g /= 2.f;
  EXPECT_LT(relative_error(twice, once), 1e-6);
  loss();
  backward();
  EXPECT_LT(relative_error(to_host(*ops_, net_->gradients()), once), 1e-6);
}

TEST_F(Gradient, EachBackwardPassNeedsItsOwnForwardPassWithTraining) {
  build(testing::small_options());
  EXPECT_THROW(backward(), std::logic_error);
  loss();
  backward();
  EXPECT_THROW(backward(), std::logic_error);
  loss();
  net_->forward(images_, false, 5);
  EXPECT_THROW(backward(), std::logic_error);
}

TEST_F(Gradient, PaddingStaysZero) {
  build(testing::small_options());
  loss();
  backward();
  const std::vector<float> gradients = to_host(*ops_, net_->gradients());
  std::vector<bool> padding(gradients.size(), true);
  for (const Parameter& p : net_->weights.parameters) {
    std::fill_n(padding.begin() + p.offset, p.count, false);
  }
  ASSERT_TRUE(std::find(padding.begin(), padding.end(), true) != padding.end());
  for (std::size_t i = 0; i < padding.size(); ++i) {
    EXPECT_TRUE(!padding[i] || gradients[i] == 0.f) << i;
  }
}

TEST_F(Gradient, OffsetsOfFinalGradientsDescendToZero) {
  build(testing::small_options());
  loss();
  std::vector<std::int64_t> offsets;
  std::vector<std::vector<float>> seen;  // the gradients when they were reported as final
  const OwnedTensor d = to_device(*ops_, {options_.batch, options_.embedding_size}, d_embeddings_);
  net_->backward(d, {}, [&](std::int64_t offset) {
    offsets.push_back(offset);
    seen.push_back(to_host(*ops_, net_->gradients()));
  });
  ASSERT_GT(offsets.size(), 10U);
  EXPECT_EQ(offsets.back(), 0);
  EXPECT_TRUE(std::is_sorted(offsets.rbegin(), offsets.rend(), std::less_equal<>()));
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    EXPECT_TRUE(
        std::equal(seen[i].begin() + offsets[i], seen[i].end(), seen.back().begin() + offsets[i]))
        << "from " << offsets[i];
  }
}

}  // namespace
}  // namespace pfc
