#include "model/files/export_model.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/files/file_error.h"
#include "common/files/safetensors.h"
#include "data/augment/flip.h"
#include "kernels/make_ops.h"
#include "model/files/onnx_file.h"
#include "model/files/onnx_interpreter.h"
#include "model/files/torch_writer.h"

namespace pfc {
namespace {

using Pixels = std::vector<std::uint8_t>;  // [kComparedImages, H, W, 3]
using Floats = std::vector<float>;

constexpr std::int64_t kComparedImages = 3;
constexpr double kFloat32Limit = 1e-4, kFloat16Limit = 1e-2;

Pixels random_pixels(const BackboneOptions& o) {
  std::mt19937 engine(1);
  Pixels pixels(static_cast<std::size_t>(kComparedImages * o.height * o.width * 3));
  for (std::uint8_t& pixel : pixels) pixel = static_cast<std::uint8_t>(engine() & 0xffu);
  return pixels;
}

/// [kComparedImages, D]; with `flip` the sums with the embeddings of the mirror images.
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

/// As the graph reads them: [kComparedImages, 3, H, W].
Floats input_of(const Pixels& pixels, const BackboneOptions& o, bool normalize) {
  const auto places = static_cast<std::size_t>(o.height * o.width);
  Floats input(pixels.size());
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    const std::size_t image = i / (3 * places), place = i / 3 % places, colour = i % 3;
    const auto x = static_cast<float>(pixels[i]);
    input[(image * 3 + colour) * places + place] = normalize ? x : x / 127.5f - 1.f;
  }
  return input;
}

/// The largest |got - want| / |want| of any image, where |.| is the L2 norm; NaN where an embedding
/// is not finite.
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

/// Throws InputError where the file does not compute what the network does.
double check_file(Ops& ops, const ModelFile& model, const std::filesystem::path& path,
                  const OnnxOptions& options) {
  const onnx::ModelProto written = read_onnx(path);
  check_onnx(path, written);
  const Pixels pixels = random_pixels(model.options);
  const Floats got =
      run_onnx(ops, written, kComparedImages, input_of(pixels, model.options, options.normalize));
  const double difference = worst_difference(got, embeddings_of(ops, model, pixels, options.flip));
  const double limit = options.float16 ? kFloat16Limit : kFloat32Limit;
  if (difference <= limit) return difference;
  throw InputError(fmt::format(
      "{}: deleted, because its embeddings of random images differ from the network's by {:.2g} of "
      "their length, expected at most {:.0e}{}",
      path.string(), difference, limit,
      options.float16 ? "; activations may be beyond the range of float16: export float32"
                      : "; the weights may be too large, or the network too little trained"));
}

}  // namespace

double export_onnx(const ModelFile& model, const std::filesystem::path& path,
                   const OnnxOptions& options) {
  // A GPU may have no memory left beside a job.
  const std::unique_ptr<Ops> ops = make_ops({.choice = DeviceChoice::kCpu});
  // An earlier file of this name is replaced only by one that was found right.
  const std::filesystem::path unchecked = path.string() + ".unchecked";
  write_onnx(unchecked, make_onnx(network_graph(*ops, model.options), model, options));
  try {
    const double difference = check_file(*ops, model, unchecked, options);
    as_storage_error([&] { std::filesystem::rename(unchecked, path); });
    return difference;
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove(unchecked, ignored);
    throw;
  }
}

void export_safetensors(const ModelFile& model, const std::filesystem::path& path) {
  std::vector<SafetensorsEntry> entries;
  for (const auto& [name, tensor] : model.weights.state_dict.tensors()) {
    entries.push_back({name, tensor.dtype, tensor.shape, tensor.bytes});
  }
  write_safetensors(path, entries, {{"network", model.options.network}});
}

}  // namespace pfc
