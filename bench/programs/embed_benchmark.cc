// Compares embedding images with the forward pass alone, on all cores. Run it with
//   evaluation_benchmark --benchmark_enable_random_interleaving --benchmark_repetitions=5
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "data/images/decode.h"
#include "kernels/make_ops.h"
#include "kernels/owned_tensor.h"
#include "model/evaluation/embed_images.h"
#include "tests/support/encoded_images.h"

namespace pfc {
namespace {

constexpr std::int64_t kBatch = 64, kBatches = 4, kSide = 112;

struct Model {
  explicit Model(const std::string& network)
      : ops(make_ops({.choice = DeviceChoice::kCpu})),
        backbone(make_backbone(*ops, {.network = network, .batch = kBatch, .training = false})),
        images(*ops, {kBatch, kSide, kSide, 3}, DType::kUInt8) {
    forward();  // the first pass packs the weights
  }

  void forward() const {
    benchmark::DoNotOptimize(backbone->forward(backbone->input(), false, 0).f32());
  }

  std::unique_ptr<Ops> ops;
  std::unique_ptr<Backbone> backbone;
  OwnedTensor images;
};

void forward_alone(benchmark::State& state, const std::string& network) {
  Model model(network);
  for (auto _ : state) {
    for (int batch = 0; batch < kBatches; ++batch) model.forward();
  }
  state.SetItemsProcessed(state.iterations() * kBatches * kBatch);
}

void decode_and_embed(benchmark::State& state, const std::string& network) {
  Model model(network);
  std::vector<std::vector<std::byte>> encoded;
  for (unsigned i = 0; i < kBatch; ++i) encoded.push_back(testing::make_jpeg(kSide, kSide, i));
  const auto read = [&](std::int64_t i, std::span<std::uint8_t> rgb) {
    thread_local ImageDecoder decoder;
    decoder.decode(encoded[static_cast<std::size_t>(i % kBatch)], {kSide, kSide}, rgb);
  };
  const std::int64_t images = kBatches * kBatch;
  for (auto _ : state) {
    embed_images(images, read, embed_with(*model.ops, *model.backbone, model.images),
                 {.batch = kBatch, .flip = false, .threads = 0},
                 [](std::int64_t, const EmbeddedImage& image) {
                   benchmark::DoNotOptimize(image.plain.data());
                 });
  }
  state.SetItemsProcessed(state.iterations() * images);
}

BENCHMARK_CAPTURE(forward_alone, mbf, "mbf")->MeasureProcessCPUTime()->UseRealTime();
BENCHMARK_CAPTURE(decode_and_embed, mbf, "mbf")->MeasureProcessCPUTime()->UseRealTime();
BENCHMARK_CAPTURE(forward_alone, r50, "r50")->MeasureProcessCPUTime()->UseRealTime();
BENCHMARK_CAPTURE(decode_and_embed, r50, "r50")->MeasureProcessCPUTime()->UseRealTime();

}  // namespace
}  // namespace pfc
