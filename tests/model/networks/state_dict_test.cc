#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "common/files/safetensors.h"
#include "tests/model/networks/backbone_testing.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class StateDict : public ::testing::Test {
 protected:
  std::unique_ptr<Backbone> network(std::uint64_t seed) {
    BackboneOptions options = testing::small_options();
    options.seed = seed;
    return testing::make_small_network(*ops_, options);
  }

  void train_one_step(Backbone& net) {
    const BackboneOptions options = testing::small_options();
    const OwnedTensor x =
        to_device(*ops_, testing::images_shape(options), testing::random_images(options));
    net.forward(x, true, 0);
  }

  SafetensorsFile written(const std::vector<HostTensor>& tensors) {
    std::vector<SafetensorsEntry> entries;
    for (const HostTensor& t : tensors) entries.push_back({t.name, t.dtype, t.shape, t.bytes});
    const auto path = folder_.path() / "backbone.safetensors";
    write_safetensors(path, entries);
    return SafetensorsFile(path);
  }

  static HostTensor& named(std::vector<HostTensor>& tensors, const std::string& name) {
    return *std::find_if(tensors.begin(), tensors.end(),
                         [&](const HostTensor& t) { return t.name == name; });
  }

  std::unique_ptr<Ops> ops_ = testing::cpu_ops();
  TemporaryFolder folder_;
};

TEST_F(StateDict, IsBitIdenticalAfterWritingAndReading) {
  const auto from = network(1);
  train_one_step(*from);
  const auto to = network(2);
  ASSERT_NE(to_host(*ops_, from->weights.flat()), to_host(*ops_, to->weights.flat()));
  import_state_dict(*ops_, *to, written(export_state_dict(*ops_, *from)));
  EXPECT_EQ(to_host(*ops_, from->weights.flat()), to_host(*ops_, to->weights.flat()));
  EXPECT_EQ(to_host(*ops_, from->state.flat()), to_host(*ops_, to->state.flat()));
  EXPECT_EQ(to->batches_tracked, 1);
}

TEST_F(StateDict, HasPyTorchsLayouts) {
  const auto net = network(1);
  const Arena& arena = net->weights;
  std::vector<float> numbers(static_cast<std::size_t>(arena.count));
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
  const OwnedTensor flat = to_device(*ops_, {arena.count}, numbers);
  auto tensors = export_flat(*ops_, arena, flat, "momentum.");
  const auto ours = [&](const std::string& name, std::int64_t element) {
    const auto p = std::find_if(arena.parameters.begin(), arena.parameters.end(),
                                [&](const Parameter& q) { return q.name == name; });
    return static_cast<float>(p->offset + element);
  };
  const auto theirs = [&](const std::string& name, std::size_t element) {
    float value = 0;
    std::memcpy(&value, named(tensors, "momentum." + name).bytes.data() + 4 * element, 4);
    return value;
  };
  // In PyTorch a.conv1 is OIHW [16, 8, 3, 3], in pfc OHWI. This is the element o = 5, i = 6, h = 2,
  // w = 1.
  EXPECT_EQ(theirs("a.conv1.weight", ((5 * 8 + 6) * 3 + 2) * 3 + 1),
            ours("a.conv1.weight", ((5 * 3 + 2) * 3 + 1) * 8 + 6));
  // fc reads [16, 8, 8], flattened as CHW in PyTorch and as HWC in pfc. This is row 3, channel 7,
  // pixel (4, 2).
  EXPECT_EQ(theirs("fc.weight", 3 * 1024 + (7 * 8 + 4) * 8 + 2),
            ours("fc.weight", 3 * 1024 + (4 * 8 + 2) * 16 + 7));
  EXPECT_EQ(theirs("a.bn1.bias", 3), ours("a.bn1.bias", 3));
}

TEST_F(StateDict, HoldsStateAndCountersOfEveryBatchNorm) {
  auto tensors = export_state_dict(*ops_, *network(1));
  std::vector<std::string> names;
  for (const HostTensor& t : tensors) names.push_back(t.name);
  EXPECT_THAT(names, ::testing::IsSupersetOf({"features.weight", "features.bias",
                                              "features.running_mean", "features.running_var",
                                              "features.num_batches_tracked", "stem_p.weight"}));
  EXPECT_EQ(named(tensors, "features.num_batches_tracked").dtype, "I64");
  EXPECT_TRUE(named(tensors, "features.num_batches_tracked").shape.empty());
}

TEST_F(StateDict, RejectsAFileOfAnotherNetwork) {
  const auto net = network(1);
  const auto good = export_state_dict(*ops_, *net);
  const auto importing = [&](const std::vector<HostTensor>& tensors) {
    return [&] { import_state_dict(*ops_, *net, written(tensors)); };
  };
  auto tensors = good;
  tensors.erase(tensors.begin());
  EXPECT_THAT(importing(tensors), ThrowsMessage<InputError>(HasSubstr("stem.weight")));

  tensors = good;
  named(tensors, "fc.bias").name = "fc.bis";
  EXPECT_THAT(importing(tensors), ThrowsMessage<InputError>(HasSubstr("fc.bis")));

  tensors = good;
  named(tensors, "fc.weight").shape = {1024, 8};
  EXPECT_THAT(importing(tensors), ThrowsMessage<InputError>(HasSubstr("fc.weight")));

  tensors = good;
  named(tensors, "bn2.num_batches_tracked").dtype = "F32";
  named(tensors, "bn2.num_batches_tracked").bytes.resize(4);
  EXPECT_THAT(importing(tensors), ThrowsMessage<InputError>(HasSubstr("bn2.num_batches_tracked")));
}

TEST_F(StateDict, IgnoresOnlyTheGivenTensors) {
  const auto net = network(1);
  auto tensors = export_state_dict(*ops_, *net);
  tensors.push_back({"centres", "F32", {1}, std::vector<std::byte>(4)});
  const SafetensorsFile file = written(tensors);
  EXPECT_NO_THROW(import_state_dict(*ops_, *net, file, {"centres"}));
  EXPECT_THAT([&] { import_state_dict(*ops_, *net, file); },
              ThrowsMessage<InputError>(HasSubstr("centres")));
}

}  // namespace
}  // namespace pfc
