#include "model/files/export_model.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/files/atomic_file.h"
#include "common/files/safetensors.h"
#include "common/median.h"
#include "data/augment/flip.h"
#include "kernels/make_ops.h"
#include "model/files/onnx_calibration.h"
#include "model/files/onnx_file.h"
#include "model/files/onnx_interpreter.h"
#include "model/files/torch_writer.h"

namespace pfc {
namespace {

using Pixels = std::vector<std::uint8_t>;  // [kComparedImages, H, W, 3]
using Floats = std::vector<float>;

constexpr std::int64_t kComparedImages = 3;
constexpr double kFloat32Limit = 1e-4, kFloat16Limit = 1e-2, kLeastCosine = 0.99;
constexpr std::int64_t kCalibrationBatch = 8;

Pixels random_pixels(const BackboneOptions& o) {
  std::mt19937 engine(1);
  Pixels pixels(static_cast<std::size_t>(kComparedImages * o.height * o.width * 3));
  for (std::uint8_t& pixel : pixels) pixel = static_cast<std::uint8_t>(engine() & 0xffu);
  return pixels;
}

/// Returns [kComparedImages, D]; with `flip`, sums with the mirror images' embeddings.
Floats embeddings_of(Ops& ops, const ModelFile& model, Pixels pixels, bool flip) {
  const BackboneOptions& o = model.options;
  const std::unique_ptr<Backbone> backbone = make_backbone(ops, model, kComparedImages);
  const auto embed = [&] {
    backbone->read({pixels.data(), DType::kUInt8, {kComparedImages, o.height, o.width, 3}});
    const Tensor y = backbone->forward(backbone->input(), /*training=*/false, 0);
    return Floats(y.f32(), y.f32() + y.elements());
  };
  Floats embeddings = embed();
  if (!flip) return embeddings;
  for (std::size_t i = 0; i < static_cast<std::size_t>(kComparedImages); ++i) {
    const std::size_t bytes = pixels.size() / kComparedImages;
    flip_horizontally(std::span(pixels).subspan(i * bytes, bytes), o.width);
  }
  const Floats mirrored = embed();
  std::ranges::transform(embeddings, mirrored, embeddings.begin(), std::plus<>());
  return embeddings;
}

/// Converts [N, H, W, 3] to the graph's input: [N, 3, H, W].
Floats input_of(std::span<const std::uint8_t> pixels, const BackboneOptions& o, bool normalize) {
  const auto places = static_cast<std::size_t>(o.height * o.width);
  Floats input(pixels.size());
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    const std::size_t image = i / (3 * places), place = i / 3 % places, colour = i % 3;
    const auto x = static_cast<float>(pixels[i]);
    input[(image * 3 + colour) * places + place] = normalize ? x : x / 127.5f - 1.f;
  }
  return input;
}

/// Returns the largest |got - want| / |want| over the images, where |.| is the L2 norm; NaN if an
/// embedding is not finite.
double worst_difference(const Floats& got, const Floats& want) {
  if (got.size() != want.size()) return std::numeric_limits<double>::infinity();
  const std::size_t dimension = want.size() / kComparedImages;
  double worst = 0;
  for (std::size_t begin = 0; begin < want.size(); begin += dimension) {
    double difference = 0, length = 0;
    for (std::size_t i = begin; i < begin + dimension; ++i) {
      difference += std::pow(double{got[i]} - want[i], 2);
      length += std::pow(double{want[i]}, 2);
    }
    const double relative = std::sqrt(difference / length);
    if (!(relative <= worst)) worst = relative;  // not >, so that a NaN is kept
  }
  return worst;
}

/// Throws InputError if the graph's embeddings differ from the network's.
double check_difference(Ops& ops, const ModelFile& model, const std::filesystem::path& path,
                        const onnx::ModelProto& written, const OnnxOptions& options) {
  const Pixels pixels = random_pixels(model.options);
  const Floats got =
      run_onnx(ops, written, kComparedImages, input_of(pixels, model.options, options.normalize));
  const double difference = worst_difference(got, embeddings_of(ops, model, pixels, options.flip));
  const double limit = options.float16 ? kFloat16Limit : kFloat32Limit;
  if (difference <= limit) return difference;
  throw InputError(fmt::format(
      "{}: not written, because its embeddings of random images differ from the network's by "
      "{:.2g} of "
      "their length, expected at most {:.0e}{}",
      path.string(), difference, limit,
      options.float16 ? "; activations may exceed the range of float16: export float32"
                      : "; the weights may be too large, or the network not trained enough"));
}

/// Runs graphs over the calibration images, batch by batch.
struct GraphRunner {
  Ops& ops;
  const BackboneOptions& network;
  bool normalize;
  std::span<const std::uint8_t> images;  ///< [count, H, W, 3]
  const ShowExported& show;

  /// Returns [count, D]. `pass`: 0 for the first of two passes, 1 for the second.
  [[nodiscard]] Floats run(const onnx::ModelProto& graph, std::int64_t pass,
                           const ObserveActivation& observe) const {
    const auto bytes = static_cast<std::size_t>(network.height * network.width * 3);
    const auto count = static_cast<std::int64_t>(images.size() / bytes);
    Floats embeddings;
    for (std::int64_t first = 0; first < count; first += kCalibrationBatch) {
      show(pass * count + first, 2 * count);
      const std::int64_t batch = std::min(kCalibrationBatch, count - first);
      const auto part = images.subspan(static_cast<std::size_t>(first) * bytes,
                                       static_cast<std::size_t>(batch) * bytes);
      const Floats y = run_onnx(ops, graph, batch, input_of(part, network, normalize), observe);
      embeddings.insert(embeddings.end(), y.begin(), y.end());
    }
    return embeddings;
  }
};

double cosine(std::span<const float> a, std::span<const float> b) {
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ab += double{a[i]} * b[i];
    aa += double{a[i]} * a[i];
    bb += double{b[i]} * b[i];
  }
  return ab / std::sqrt(aa * bb);
}

/// Returns the median cosine between two embeddings [count, dimension] of each image.
double check_cosine(const std::filesystem::path& path, const Floats& got, const Floats& want,
                    std::int64_t dimension) {
  const auto d = static_cast<std::size_t>(dimension);
  std::vector<double> cosines;
  for (std::size_t begin = 0; begin < want.size(); begin += d) {
    const double c = cosine(std::span(got).subspan(begin, d), std::span(want).subspan(begin, d));
    cosines.push_back(std::isnan(c) ? -1 : c);
  }
  const double median = median_of(std::move(cosines));
  if (median >= kLeastCosine) return median;
  throw InputError(fmt::format(
      "{}: not written, because the median cosine between its embeddings of the calibration images "
      "and those of float32 is {:.4f}, expected at least {}; calibrate with more images of the "
      "kind that the network was trained on, or export float16",
      path.string(), median, kLeastCosine));
}

/// Rejects a model that cannot be an ONNX file before building the file takes memory.
void expect_small(const std::filesystem::path& path, const ModelFile& model,
                  const OnnxOptions& options) {
  constexpr double kLargest = 1.9e9;  // protobuf's limit, less some space for the rest
  double bytes = 0;
  for (const auto& [name, tensor] : model.weights.state_dict.tensors()) {
    bytes += static_cast<double>(tensor.bytes.size()) / (options.float16 ? 2 : 1);
  }
  if (bytes <= kLargest) return;
  throw InputError(fmt::format(
      "{}: the weights take {:.2f} GB, but protobuf limits an ONNX file to 2 GB, of which they may "
      "take 1.9; write safetensors or a PyTorch file{}",
      path.string(), bytes / 1e9, options.float16 ? "" : ", or ONNX with float16"));
}

/// Writes the file after `check`, which throws if the model parsed from its bytes is wrong.
template <typename Check>
double write_checked(const std::filesystem::path& path, const onnx::ModelProto& model,
                     const Check& check) {
  const std::string bytes = onnx_bytes(path, model);
  const onnx::ModelProto written = parse_onnx(path, std::as_bytes(std::span(bytes)));
  check_onnx(path, written);
  const double result = check(written);
  write_file_atomically(path, bytes);
  return result;
}

}  // namespace

double export_onnx(const ModelFile& model, const std::filesystem::path& path,
                   const OnnxOptions& options) {
  expect_small(path, model, options);
  // Uses the CPU, because a job may use all of the GPU's memory.
  const std::unique_ptr<Ops> ops = make_ops({.choice = DeviceChoice::kCpu});
  return write_checked(path, make_onnx(network_graph(*ops, model.options), model, options),
                       [&](const onnx::ModelProto& written) {
                         return check_difference(*ops, model, path, written, options);
                       });
}

double export_int8_onnx(const ModelFile& model, const std::filesystem::path& path,
                        OnnxOptions options, std::span<const std::uint8_t> images,
                        const ShowExported& show) {
  check(options.opset >= kInt8Opset && !options.float16, "export_int8_onnx: wrong options");
  expect_small(path, model, options);
  const std::unique_ptr<Ops> ops = make_ops({.choice = DeviceChoice::kCpu});
  const std::vector<NetworkOp> network = network_graph(*ops, model.options);
  const GraphRunner runner{*ops, model.options, options.normalize, images, show};
  ActivationHistograms histograms;
  const Floats want = runner.run(
      make_onnx(network, model, options), 0,
      [&](const std::string& value, std::span<const float> x) { histograms.add(value, x); });
  const ActivationRanges ranges = histograms.ranges();
  options.int8 = &ranges;
  return write_checked(path, make_onnx(network, model, options),
                       [&](const onnx::ModelProto& written) {
                         const Floats got = runner.run(written, 1, {});
                         return check_cosine(path, got, want, model.options.embedding_size);
                       });
}

void export_safetensors(const ModelFile& model, const std::filesystem::path& path) {
  std::vector<SafetensorsEntry> entries;
  for (const auto& [name, tensor] : model.weights.state_dict.tensors()) {
    entries.push_back({name, tensor.dtype, tensor.shape, tensor.bytes});
  }
  write_safetensors(path, entries, metadata_of(model.options));
}

}  // namespace pfc
