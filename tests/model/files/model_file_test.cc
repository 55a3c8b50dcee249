#include "model/files/model_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "common/files/safetensors.h"
#include "kernels/make_ops.h"
#include "tests/support/device_values.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

using ::testing::HasSubstr;

class ModelFiles : public ::testing::Test {
 protected:
  std::vector<HostTensor> state_dict(const std::string& network, std::int64_t side = 32) {
    backbone_ = make_backbone(*ops_, {.network = network,
                                      .batch = 1,
                                      .embedding_size = 24,
                                      .height = side,
                                      .width = side,
                                      .seed = 3,
                                      .training = false});
    return export_state_dict(*ops_, *backbone_);
  }

  std::filesystem::path written(const std::vector<HostTensor>& tensors) {
    std::vector<SafetensorsEntry> entries;
    for (const HostTensor& t : tensors) entries.push_back({t.name, t.dtype, t.shape, t.bytes});
    write_safetensors(folder_ / "m.safetensors", entries);
    return folder_ / "m.safetensors";
  }

  std::unique_ptr<Ops> ops_ = make_ops({.choice = DeviceChoice::kCpu, .cpu_threads = 1});
  std::unique_ptr<Backbone> backbone_;  // backbone of the last state_dict()
  TemporaryFolder folder_;
};

TEST_F(ModelFiles, RecogniseNetworkAndSizesByTensors) {
  for (const std::string network : {"r18", "r34", "mbf", "mbf_large", "ir_18"}) {
    const std::int64_t side = network == "mbf" ? 48 : 32;
    const ModelFile model = read_model(written(state_dict(network, side)));
    EXPECT_EQ(model.weights.format, "safetensors");
    EXPECT_EQ(model.options.network, network);
    EXPECT_EQ(model.options.embedding_size, 24);
    EXPECT_EQ(model.options.height, side);
    EXPECT_EQ(model.options.width, side);
    EXPECT_EQ(model.weights.channel_order,
              network == "ir_18" ? ChannelOrder::kBgr : ChannelOrder::kRgb);
  }
}

TEST_F(ModelFiles, TellHowTheNetworkReadsPixels) {
  const auto tensors = state_dict("mbf");
  std::vector<SafetensorsEntry> entries;
  for (const HostTensor& t : tensors) entries.push_back({t.name, t.dtype, t.shape, t.bytes});
  const auto read = [&](const std::map<std::string, std::string>& metadata) {
    write_safetensors(folder_ / "m.safetensors", entries, metadata);
    return read_model(folder_ / "m.safetensors").options.pixels;
  };
  const PixelScale imagenet{.mean = {0.485, 0.456, 0.406}, .std = {0.229, 0.224, 0.225}};
  EXPECT_EQ(read(metadata_of({.network = "mbf", .pixels = imagenet})), imagenet);
  EXPECT_EQ(read(metadata_of({.network = "mbf"})), PixelScale{});
  EXPECT_EQ(metadata_of({.network = "mbf"}).size(), 1u);
  for (const char* wrong : {"", "[1]", "[1,2,3]", "[1,1,1,1]", "[0,1,1]", "[\"a\",0,0]", "{}"}) {
    EXPECT_THAT(testing::message_of<InputError>([&] {
                  read({{"image_std", wrong}});
                }),
                HasSubstr("metadata image_std: found"));
  }
}

TEST_F(ModelFiles, BackboneForInferenceHasTheFilesWeights) {
  const ModelFile model = read_model(written(state_dict("r18")));
  const auto backbone = make_backbone(*ops_, model, /*batch=*/3);
  EXPECT_EQ(backbone->input().shape[0], 3);
  EXPECT_EQ(backbone->gradient_buffer, nullptr);
  EXPECT_EQ(to_host(*ops_, backbone->weights.flat()), to_host(*ops_, backbone_->weights.flat()));
}

TEST_F(ModelFiles, CentresAreNotPartOfTheNetwork) {
  std::vector<HostTensor> tensors = state_dict("mbf");
  tensors.push_back({"centres", "F32", {2, 24}, std::vector<std::byte>(2 * 24 * 4)});
  const ModelFile model = read_model(written(tensors));
  EXPECT_FALSE(model.weights.state_dict.tensors().contains("centres"));
  EXPECT_EQ(model.weights.others.at("centres").shape, (std::vector<std::int64_t>{2, 24}));
}

TEST_F(ModelFiles, MissingBatchCountersAreZero) {
  std::vector<HostTensor> tensors = state_dict("mbf");
  std::erase_if(tensors, [](const HostTensor& t) { return t.dtype == "I64"; });
  EXPECT_EQ(make_backbone(*ops_, read_model(written(tensors)), 1)->batches_tracked, 0);
}

TEST_F(ModelFiles, OtherFloatingPointTypesBecomeFloat32) {
  // 1.5 and -2 as bfloat16, float16 and float64.
  const std::uint16_t bf16[] = {0x3fc0, 0xc000}, f16[] = {0x3e00, 0xc000};
  const double f64[] = {1.5, -2};
  const std::vector<SafetensorsEntry> entries = {
      {"bf16", "BF16", {2}, std::as_bytes(std::span(bf16))},
      {"f16", "F16", {2}, std::as_bytes(std::span(f16))},
      {"f64", "F64", {2}, std::as_bytes(std::span(f64))}};
  write_safetensors(folder_ / "types", entries);
  const WeightsFile file = read_weights(folder_ / "types");
  for (const SafetensorsEntry& e : entries) {
    const auto values = file.state_dict.float32(e.name, e.shape);
    EXPECT_EQ(std::vector<float>(values.begin(), values.end()), (std::vector<float>{1.5f, -2.f}))
        << e.name;
  }
}

TEST_F(ModelFiles, NameATensorThatIsNotInTheNetwork) {
  std::vector<HostTensor> tensors = state_dict("mbf");
  tensors.push_back({"layers.9.weight", "F32", {1}, std::vector<std::byte>(4)});
  EXPECT_THAT(testing::message_of<InputError>([&] { read_model(written(tensors)); }),
              HasSubstr("tensor layers.9.weight does not belong to this network"));
  tensors.pop_back();
  std::erase_if(tensors, [](const HostTensor& t) { return t.name == "conv_sep.layers.0.weight"; });
  EXPECT_THAT(testing::message_of<InputError>([&] { read_model(written(tensors)); }),
              HasSubstr("has no tensor 'conv_sep.layers.0.weight'"));
}

TEST_F(ModelFiles, NameAnUnknownNetwork) {
  const std::vector<HostTensor> squeezed = {{"body.0.res_layer.5.fc1.weight", "F32", {0}, {}}};
  EXPECT_THAT(testing::message_of<InputError>([&] { read_model(written(squeezed)); }),
              HasSubstr("squeeze and excitation, which pfc does not support yet"));
}

// A vision transformer does not read the last pixels, so the tensors are the same for sizes from
// 108 to 116.
TEST_F(ModelFiles, RecogniseVisionTransformers) {
  ModelFile model = read_model(written(state_dict("vit_t", 112)));
  EXPECT_EQ(model.options.network, "vit_t");
  EXPECT_EQ(model.options.embedding_size, 24);
  EXPECT_EQ(model.options.height, 112);
  model = read_model(written(state_dict("vit_t_dp005_mask0", 20)));
  EXPECT_EQ(model.options.network, "vit_t");  // at inference, both networks are the same
  EXPECT_EQ(model.options.height, 18);
}

// The classifier is left out. The tensors fit all sizes of images.
TEST_F(ModelFiles, RecogniseTorchvisionsNetworks) {
  for (const auto& [network, width] : {std::pair{"resnet18", 512}, std::pair{"resnet50", 2048}}) {
    const BackboneOptions o{
        .network = network, .batch = 1, .embedding_size = width, .height = 32, .width = 32};
    const auto backbone = make_backbone(*ops_, o);
    std::vector<HostTensor> tensors = export_state_dict(*ops_, *backbone);
    const auto bytes = static_cast<std::size_t>(width) * 7 * sizeof(float);
    tensors.push_back({"fc.weight", "F32", {7, width}, std::vector<std::byte>(bytes)});
    tensors.push_back({"fc.bias", "F32", {7}, std::vector<std::byte>(7 * sizeof(float))});
    const ModelFile model = read_model(written(tensors));
    EXPECT_EQ(model.options.network, network);
    EXPECT_EQ(model.options.embedding_size, width);
    EXPECT_EQ(model.options.height, 224);
    EXPECT_FALSE(model.weights.state_dict.tensors().contains("fc.weight"));
    EXPECT_TRUE(model.weights.others.tensors().contains("fc.bias"));
    EXPECT_EQ(to_host(*ops_, make_backbone(*ops_, model, 1)->weights.flat()),
              to_host(*ops_, backbone->weights.flat()));
    std::erase_if(tensors, [](const HostTensor& t) { return t.name == "layer3.1.bn1.bias"; });
    EXPECT_THAT(testing::message_of<InputError>([&] { read_model(written(tensors)); }),
                HasSubstr("has no tensor 'layer3.1.bn1.bias'"));
  }
}

TEST_F(ModelFiles, RecogniseTfacesNetworkWhichReadsRgb) {
  const ModelFile model = read_model(written(state_dict("ir_se_50")));
  EXPECT_EQ(model.options.network, "ir_se_50");
  EXPECT_EQ(model.weights.channel_order, ChannelOrder::kRgb);
  EXPECT_EQ(to_host(*ops_, make_backbone(*ops_, model, 1)->weights.flat()),
            to_host(*ops_, backbone_->weights.flat()));
}

TEST_F(ModelFiles, RejectAFileWithoutANetwork) {
  EXPECT_THAT(testing::message_of<InputError>([&] {
                read_model(written({{"x", "F32", {0}, {}}}));
              }),
              HasSubstr("m.safetensors: unknown network"));
  const std::vector<std::byte> stem(std::size_t{64} * 3 * 7 * 7 * sizeof(float));
  for (const std::int64_t width : {0, 1}) {
    EXPECT_THAT(testing::message_of<InputError>([&] {
                  read_model(written({{"conv1.weight", "F32", {64, 3, 7, 7}, stem},
                                      {"layer4.0.conv2.weight",
                                       "F32",
                                       {width, 1, 1, 1},
                                       std::vector<std::byte>(width * sizeof(float))}}));
                }),
                HasSubstr("m.safetensors: unknown network"))
        << width;
  }
}

}  // namespace
}  // namespace pfc
