// Measures how fast one core decodes images, computes an epoch's order, and makes whole batches
// from a .rec.
#include <benchmark/benchmark.h>
#include <turbojpeg.h>

#include <chrono>
#include <thread>

#include "data/augment/augmenter.h"
#include "data/images/decode.h"
#include "data/open_dataset.h"
#include "data/order/global_order.h"
#include "data/prefetch/prefetcher.h"
#include "tests/support/face_folder.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_data.h"

namespace pfc {
namespace {

/// Real faces if PFC_TEST_DATA is set, otherwise drawn images of the same size.
class Faces {
 public:
  Faces() {
    if (const auto data = testing::test_data()) {
      dataset_ = open_dataset({.rec = *data / "lfw112"});
      return;
    }
    testing::write_insightface({.folder = folder_.path(),
                                .identities = 100,
                                .images_per_identity = 20,
                                .height = 112,
                                .width = 112});
    dataset_ = open_dataset({.rec = folder_.path()});
  }
  [[nodiscard]] const Dataset& dataset() const { return *dataset_; }

 private:
  TemporaryFolder folder_;
  std::unique_ptr<Dataset> dataset_;
};

void decode(benchmark::State& state) {
  const Faces faces;
  ImageDecoder decoder;
  ImageBuffer storage;
  std::vector<std::uint8_t> rgb(112 * 112 * 3);
  std::int64_t image = 0;
  for (auto _ : state) {
    decoder.decode(faces.dataset().read(image++ % 2000, storage).encoded, {112, 112}, rgb);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(decode);

/// Only libjpeg-turbo, with images in memory: the upper limit for any loader.
void decode_bare(benchmark::State& state) {
  const Faces faces;
  std::vector<std::vector<std::byte>> encoded;
  ImageBuffer storage;
  for (std::int64_t image = 0; image < 2000; ++image) {
    const auto bytes = faces.dataset().read(image, storage).encoded;
    encoded.emplace_back(bytes.begin(), bytes.end());
  }
  const tjhandle handle = tjInitDecompress();
  std::vector<std::uint8_t> rgb(112 * 112 * 3);
  std::size_t image = 0;
  for (auto _ : state) {
    const auto& bytes = encoded[image++ % encoded.size()];
    tjDecompress2(handle, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
                  rgb.data(), 112, 0, 112, TJPF_RGB, 0);
  }
  tjDestroy(handle);
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(decode_bare);

/// Changes every image in one way.
void augment(benchmark::State& state, const Augmentation& augmentation) {
  const Faces faces;
  ImageBuffer storage;
  std::vector<std::uint8_t> rgb(112 * 112 * 3);
  ImageDecoder().decode(faces.dataset().read(0, storage).encoded, {112, 112}, rgb);
  Augmenter augmenter(augmentation, 1);
  std::int64_t position = 0;
  for (auto _ : state) augmenter.augment(0, position++, {rgb, {112, 112}});
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK_CAPTURE(augment, flip, {.flip = true});
BENCHMARK_CAPTURE(augment, crop, {.flip = false, .crop = 1});
BENCHMARK_CAPTURE(augment, low_resolution, {.flip = false, .low_resolution = 1});
BENCHMARK_CAPTURE(augment, blur, {.flip = false, .blur = 1});
BENCHMARK_CAPTURE(augment, colour, {.flip = false, .colour = 1});
BENCHMARK_CAPTURE(augment, grey, {.flip = false, .grey = 1});
BENCHMARK_CAPTURE(augment, cut_out, {.flip = false, .cut_out = 1});

void read_only(benchmark::State& state) {
  const Faces faces;
  ImageBuffer storage;
  std::int64_t image = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(faces.dataset().read(image++ % 2000, storage));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(read_only);

void global_order(benchmark::State& state) {
  const GlobalOrder order(17'091'657, 1, true);
  std::int64_t position = 0;
  for (auto _ : state) benchmark::DoNotOptimize(order.at(3, position++));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(global_order);

void prefetch(benchmark::State& state, ReadKind kind) {
  const Faces faces;
  Prefetcher prefetcher(faces.dataset(), {.batch_size = 128,
                                          .read = {.kind = kind, .buffer_bytes = 32 << 20},
                                          .threads = static_cast<int>(state.range(0))});
  for (auto _ : state) prefetcher.recycle(prefetcher.next());
  state.SetItemsProcessed(state.iterations() * 128);
}
BENCHMARK_CAPTURE(prefetch, random, ReadKind::kRandom)
    ->RangeMultiplier(2)
    ->Range(1, 8)
    ->UseRealTime()
    ->MeasureProcessCPUTime();
BENCHMARK_CAPTURE(prefetch, sequential, ReadKind::kSequential)
    ->RangeMultiplier(2)
    ->Range(1, 8)
    ->UseRealTime()
    ->MeasureProcessCPUTime();

/// A disk or remote store that takes a millisecond per record, even for parallel requests.
class SlowDataset : public Dataset {
 public:
  explicit SlowDataset(const Dataset& faces) : faces_(faces), info_(faces.info()) {
    info_.images_in_order = 0;  // not read ahead
  }
  [[nodiscard]] const DatasetInfo& info() const override { return info_; }
  [[nodiscard]] Extent extent(std::int64_t image) const override {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return faces_.extent(image);
  }
  Sample parse(std::int64_t image, StoredImage& stored) const override {
    return faces_.parse(image, stored);
  }
  [[nodiscard]] std::string name(std::int64_t image) const override { return faces_.name(image); }
  [[nodiscard]] std::string identity(std::int64_t label) const override {
    return faces_.identity(label);
  }
  [[nodiscard]] std::vector<FileBrief> briefs() const override { return faces_.briefs(); }

 private:
  const Dataset& faces_;
  DatasetInfo info_;
};

void prefetch_from_slow_disk(benchmark::State& state) {
  const Faces faces;
  const SlowDataset slow(faces.dataset());
  Prefetcher prefetcher(slow, {.batch_size = 32, .threads = static_cast<int>(state.range(0))});
  for (auto _ : state) prefetcher.recycle(prefetcher.next());
  state.SetItemsProcessed(state.iterations() * 32);
}
BENCHMARK(prefetch_from_slow_disk)->RangeMultiplier(2)->Range(1, 32)->MinTime(2)->UseRealTime();

}  // namespace
}  // namespace pfc
