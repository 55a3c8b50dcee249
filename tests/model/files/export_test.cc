#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <random>
#include <set>
#include <string>

#include "common/files/atomic_file.h"
#include "common/files/regular_file.h"
#include "kernels/make_ops.h"
#include "model/files/export_model.h"
#include "model/files/onnx_file.h"
#include "model/files/onnx_reader.h"
#include "model/files/torch_writer.h"
#include "tests/support/device_values.h"
#include "tests/support/error_message.h"
#include "tests/support/files.h"
#include "tests/support/relative_error.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kSide = 32;

/// Sets random values that are about as large as those of a trained network, so that activations
/// stay finite.
void randomise(HostTensor& tensor, std::mt19937& engine) {
  if (tensor.dtype != "F32") return;
  std::normal_distribution<float> normal;
  const std::span values(reinterpret_cast<float*>(tensor.bytes.data()), tensor.bytes.size() / 4);
  const auto fan_in = static_cast<float>(values.size()) / static_cast<float>(tensor.shape[0]);
  // The last batch norm of a block adds little to the sum of the earlier blocks.
  const bool last = tensor.name.find("bn3") != std::string::npos ||
                    tensor.name.find("res_layer.5") != std::string::npos ||
                    tensor.name.find("layers.2.layers.1") != std::string::npos;
  for (float& value : values) {
    if (tensor.shape.size() > 1) {
      value = normal(engine) / std::sqrt(fan_in);
    } else if (tensor.name.ends_with(".running_var")) {
      value = 0.5f + std::abs(normal(engine));
    } else {
      const bool weight = tensor.name.ends_with(".weight");
      value = (weight ? (last ? 0.2f : 0.6f) : 0.f) + 0.2f * normal(engine);
    }
  }
}

class Export : public ::testing::Test {
 protected:
  ModelFile model(const std::string& network) {
    BackboneOptions options{.network = network,
                            .batch = 1,
                            .embedding_size = 24,
                            .height = kSide,
                            .width = kSide,
                            .random_weights = false,
                            .training = false};
    for (const std::int64_t size : {512, 2048}) {
      if (!has_sizes(options)) options.embedding_size = size;
    }
    ModelFile model{.weights = {.state_dict = NamedTensors("random"), .others = NamedTensors()},
                    .options = options};
    std::mt19937 engine(7);
    for (HostTensor& t : export_state_dict(*ops_, *make_backbone(*ops_, options))) {
      randomise(t, engine);
      model.weights.state_dict.add_owned(t.name, t.dtype, t.shape, std::move(t.bytes));
    }
    return model;
  }

  static void multiply(ModelFile& model, const std::string& name, float factor) {
    const NamedTensors::Tensor old = model.weights.state_dict.at(name);
    std::vector<std::byte> bytes(old.bytes.begin(), old.bytes.end());
    for (float& value : std::span(reinterpret_cast<float*>(bytes.data()), bytes.size() / 4)) {
      value *= factor;
    }
    model.weights.state_dict.add_owned(name, "F32", old.shape, std::move(bytes));
  }

  /// Returns the embeddings of three random images.
  std::vector<float> embeddings(const ModelFile& model) {
    const auto backbone = make_backbone(*ops_, model, 3);
    std::mt19937 engine(3);
    std::vector<std::uint8_t> pixels(3 * kSide * kSide * 3);
    for (auto& pixel : pixels) pixel = static_cast<std::uint8_t>(engine());
    backbone->read({pixels.data(), DType::kUInt8, {3, kSide, kSide, 3}});
    return to_host(*ops_, backbone->forward(backbone->input(), false, 0));
  }

  static std::size_t backbone_bytes(const ModelFile& model) {
    std::size_t bytes = 0;
    for (const auto& [name, tensor] : model.weights.state_dict.tensors()) {
      bytes += tensor.bytes.size();
    }
    return bytes;
  }

  /// Exports in int8, calibrated on nine random images.
  double export_int8(const std::string& network) {
    std::mt19937 engine(3);
    std::vector<std::uint8_t> pixels(9 * kSide * kSide * 3);
    for (auto& pixel : pixels) pixel = static_cast<std::uint8_t>(engine());
    return export_int8_onnx(model(network), file_, {}, pixels, [](std::int64_t, std::int64_t) {});
  }

  double error_when_read_again(const std::string& network, const OnnxOptions& options = {}) {
    const ModelFile written = model(network);
    export_onnx(written, file_, options);
    ModelFile read = read_model(file_);
    EXPECT_EQ(read.options.network, network);
    if (network.starts_with("resnet")) {  // its tensors fit all sizes
      read.options.height = read.options.width = kSide;
    }
    EXPECT_EQ(read.weights.format, "ONNX");
    return worst_row_error(embeddings(read), embeddings(written), written.options.embedding_size);
  }

  /// Changes the exported mbf, writes it to `to`, and returns the error of reading that file.
  template <typename Change>
  std::string refusal(const Change& change) {
    onnx::ModelProto onnx = make_onnx(network_graph(*ops_, model("mbf").options), model("mbf"), {});
    change(*onnx.mutable_graph());
    testing::write_file(file_, std::string_view(onnx_bytes(file_, onnx)));
    return testing::message_of<InputError>([&] { read_onnx_state_dict(file_); });
  }

  std::unique_ptr<Ops> ops_ = make_ops({.choice = DeviceChoice::kCpu, .cpu_threads = 1});
  TemporaryFolder folder_;
  const std::filesystem::path file_ = folder_ / "m.onnx";
};

TEST_F(Export, OnnxOfNetworksOfEveryKindIsReadAsTheSameNetwork) {
  const std::set<std::string> deeper = {"r34",       "r100",     "r200",     "ir_101",
                                        "ir_se_101", "resnet34", "resnet101"};
  for (const std::string& network : network_names()) {
    if (deeper.contains(network)) continue;  // same operations as a network with fewer blocks
    if (network.starts_with("vit_") && network != "vit_t") continue;  // same operations as vit_t
    EXPECT_LT(error_when_read_again(network), 1e-5) << network;
  }
}

TEST_F(Export, OnnxWithFloat16AndOlderOperatorsCanBeReadAgain) {
  EXPECT_LT(error_when_read_again("r18", {.float16 = true}), 1e-2);
  EXPECT_LT(error_when_read_again("mbf", {.float16 = true}), 1e-2);
  EXPECT_LT(error_when_read_again("mbf", {.opset = 11}), 1e-5);
  EXPECT_LT(error_when_read_again("resnet18", {.float16 = true}), 1e-2);
  EXPECT_LT(error_when_read_again("ir_se_50", {.opset = 11, .float16 = true}), 1e-2);
  EXPECT_LT(error_when_read_again("vit_t", {.float16 = true}), 1e-2);
  EXPECT_LT(error_when_read_again("vit_t", {.opset = 11}), 1e-5);
}

TEST_F(Export, ComputesTheNetworksEmbeddingsWithEveryOption) {
  for (const std::string network : {"r18", "mbf", "resnet18", "ir_se_50", "vit_t"}) {
    const ModelFile m = model(network);
    EXPECT_LT(export_onnx(m, file_, {.normalize = true}), 1e-4);
    EXPECT_LT(export_onnx(m, file_, {.flip = true}), 1e-4);
    EXPECT_LT(export_onnx(m, file_, {.float16 = true, .normalize = true, .flip = true}), 1e-2);
  }
}

TEST_F(Export, ScalesColoursInTheGraphWhichCannotBeReadBack) {
  ModelFile m = model("mbf");
  const std::vector<float> before = embeddings(m);
  m.options.pixels = {.mean = {0.485, 0.456, 0.406}, .std = {0.229, 0.224, 0.225}};
  EXPECT_NE(embeddings(m), before);
  EXPECT_LT(export_onnx(m, file_, {}), 1e-4);
  EXPECT_LT(export_onnx(m, file_, {.normalize = true, .flip = true}), 1e-4);
  EXPECT_LT(export_onnx(m, file_, {.float16 = true}), 1e-2);
  for (const bool normalize : {false, true}) {
    export_onnx(m, file_, {.normalize = normalize});
    EXPECT_THAT(testing::message_of<InputError>([&] { read_model(file_); }),
                HasSubstr("m.onnx: scales colours with image_mean and image_std"));
  }
}

TEST_F(Export, NamesTheLimitOfProtobufForLargeModels) {
  ModelFile m = model("mbf");
  m.weights.state_dict.add_owned("large", "F32", {500, 1'000'000},
                                 std::vector<std::byte>(std::size_t{2'000'000'000}));
  EXPECT_THAT(testing::message_of<InputError>([&] { export_onnx(m, file_, {}); }),
              HasSubstr("m.onnx: the weights take 2.01 GB, but protobuf limits an ONNX file to 2"));
}

TEST_F(Export, Int8HasNearlyTheSameEmbeddingsAndIsNotReadAsANetwork) {
  EXPECT_GT(export_int8("resnet18"), 0.99);
  EXPECT_GT(export_int8("mbf"), 0.99);
  EXPECT_LT(std::filesystem::file_size(file_),
            0.3 * static_cast<double>(backbone_bytes(model("mbf"))));
  EXPECT_THAT(testing::message_of<InputError>([&] { read_model(file_); }),
              HasSubstr("m.onnx: its weights are rounded to integers"));
}

TEST_F(Export, InvalidModelDoesNotReplaceAnEarlierFile) {
  ModelFile m = model("r18");
  testing::write_file(file_, std::string_view("earlier"));
  for (int i = 0; i < 2; ++i) multiply(m, "fc.weight", 1e38f);  // infinite
  EXPECT_THAT(testing::message_of<InputError>([&] { export_onnx(m, file_, {}); }),
              HasSubstr("m.onnx: not written, because its embeddings of random images"));
  EXPECT_EQ(read_text(file_, 10), "earlier");
}

TEST_F(Export, DetectsActivationsBeyondFloat16) {
  ModelFile m = model("r18");
  multiply(m, "bn1.weight", 1e6f);
  multiply(m, "layer1.0.bn1.weight", 1e-6f);
  EXPECT_LT(export_onnx(m, file_, {}), 1e-4);
  EXPECT_THAT(testing::message_of<InputError>([&] { export_onnx(m, file_, {.float16 = true}); }),
              HasSubstr("exceed the range of float16: export float32"));
}

TEST_F(Export, RejectsGraphsOfOtherNetworks) {
  EXPECT_THAT(refusal([](onnx::GraphProto& graph) { graph.mutable_node()->RemoveLast(); }),
              HasSubstr("looks like mbf, but the graph's output is not that of features.layers.3"));
  EXPECT_THAT(refusal([](onnx::GraphProto& graph) { graph.mutable_node()->DeleteSubrange(0, 1); }),
              HasSubstr("m.onnx: unknown network: its convolutions are not those of an iresnet"));
  EXPECT_THAT(refusal([](onnx::GraphProto& graph) { graph.mutable_node(1)->set_op_type("Relu"); }),
              HasSubstr("expected a node PRelu after layers.0.layers.0, for layers.0.layers.1"));
  EXPECT_THAT(refusal([](onnx::GraphProto& graph) {
                graph.mutable_node(0)->mutable_attribute(4)->set_ints(0, 1);
              }),
              HasSubstr("node layers.0.layers.0: its strides, pads or group are not those of"));
  EXPECT_THAT(refusal([](onnx::GraphProto& graph) { graph.mutable_initializer(0)->clear_dims(); }),
              HasSubstr("m.onnx: "));
  EXPECT_THAT(refusal([](onnx::GraphProto& graph) {
                for (onnx::TensorProto& each : *graph.mutable_initializer()) {
                  if (each.name() != "layers.0.layers.0.bias") continue;
                  each.set_dims(0, 1);
                  each.mutable_raw_data()->resize(sizeof(float));
                }
              }),
              HasSubstr("tensor layers.0.layers.1.bias: found 1 values, expected"));
}

TEST_F(Export, RejectsDamagedOnnxFiles) {
  export_onnx(model("mbf"), file_, {});
  const std::string bytes = read_text(file_, 1 << 30);
  std::mt19937_64 engine(5);
  for (int i = 0; i < 100; ++i) {
    std::string damaged = bytes.substr(0, i % 3 == 0 ? engine() % bytes.size() : bytes.size());
    for (int flips = 0; flips < 20 && !damaged.empty(); ++flips) {
      // Most bytes are weights. So half of the flips are near the ends of the file, where the graph
      // is described.
      const std::size_t at = engine() % damaged.size();
      damaged[flips % 2 == 0 ? at : std::min<std::size_t>(at % 40'000, damaged.size() - 1)] ^=
          static_cast<char>(1u << engine() % 8);
    }
    write_file_atomically(file_, damaged);
    try {
      read_model(file_);
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr("m.onnx: "));
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    }
  }
}

TEST_F(Export, RejectsTensorsInOtherFiles) {
  EXPECT_THAT(refusal([](onnx::GraphProto& graph) {
                graph.mutable_initializer(0)->set_data_location(onnx::TensorProto::EXTERNAL);
              }),
              HasSubstr("is in another file, expected all tensors in this one"));
}

TEST_F(Export, TorchFileIsReadWithTheSameTensors) {
  const ModelFile written = model("mbf");
  write_torch(folder_ / "model.pt", written.weights.state_dict);
  const ModelFile read = read_model(folder_ / "model.pt");
  EXPECT_EQ(read.options.network, "mbf");
  for (const auto& [name, tensor] : written.weights.state_dict.tensors()) {
    const NamedTensors::Tensor& again = read.weights.state_dict.at(name);
    EXPECT_EQ(again.dtype, tensor.dtype) << name;
    EXPECT_EQ(again.shape, tensor.shape) << name;
    EXPECT_TRUE(std::ranges::equal(again.bytes, tensor.bytes)) << name;
  }
}

}  // namespace
}  // namespace pfc
