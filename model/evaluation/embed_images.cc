#include "model/evaluation/embed_images.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "common/ordered_work.h"
#include "data/augment/flip.h"
#include "data/damaged_image.h"

namespace pfc {

namespace {

struct DecodedImage {
  std::vector<std::uint8_t> rgb;  ///< [H, W, 3]
  std::optional<std::string> damage;
};

std::size_t image_bytes(const EmbedOptions& o) {
  return static_cast<std::size_t>(o.height * o.width * 3);
}

DecodedImage decode_image(std::int64_t image, const ReadImage& read, const EmbedOptions& o) {
  DecodedImage decoded{.rgb = std::vector<std::uint8_t>(image_bytes(o)), .damage = {}};
  try {
    read(image, decoded.rgb);
  } catch (const DamagedImage& e) {
    std::ranges::fill(decoded.rgb, std::uint8_t{0});
    decoded.damage = e.what();
  }
  return decoded;
}

/// Collects images until they fill a batch.
class BatchEmbedder {
 public:
  BatchEmbedder(const EmbedBatch& embed, const EmbedOptions& o, const TakeEmbedding& take)
      : embed_(embed),
        options_(o),
        take_(take),
        dimension_(static_cast<std::size_t>(o.embedding_size)),
        pixels_(static_cast<std::size_t>(o.batch) * image_bytes(o)),
        plain_(static_cast<std::size_t>(o.batch) * dimension_),
        mirrored_(o.flip ? plain_.size() : 0) {
    damage_.reserve(static_cast<std::size_t>(o.batch));
  }

  void add(DecodedImage image) {
    std::ranges::copy(image.rgb, pixels_.begin() + static_cast<std::ptrdiff_t>(
                                                       damage_.size() * image_bytes(options_)));
    damage_.push_back(std::move(image.damage));
    if (std::ssize(damage_) == options_.batch) flush();
  }

  void flush() {
    if (damage_.empty()) return;
    std::fill(pixels_.begin() + static_cast<std::ptrdiff_t>(damage_.size() * image_bytes(options_)),
              pixels_.end(), std::uint8_t{0});
    embed_(pixels_, plain_);
    if (options_.flip) {
      flip_horizontally(pixels_, options_.width);
      embed_(pixels_, mirrored_);
    }
    for (std::size_t i = 0; i < damage_.size(); ++i) {
      EmbeddedImage embedded{.plain = std::span(plain_).subspan(i * dimension_, dimension_),
                             .damage = std::move(damage_[i])};
      if (options_.flip) {
        embedded.mirrored = std::span(mirrored_).subspan(i * dimension_, dimension_);
      }
      take_(first_ + static_cast<std::int64_t>(i), embedded);
    }
    first_ += std::ssize(damage_);
    damage_.clear();
  }

 private:
  const EmbedBatch& embed_;
  const EmbedOptions& options_;
  const TakeEmbedding& take_;
  const std::size_t dimension_;
  std::vector<std::uint8_t> pixels_;                ///< [batch, H, W, 3]
  std::vector<float> plain_;                        ///< [batch, D]
  std::vector<float> mirrored_;                     ///< [batch, D]
  std::vector<std::optional<std::string>> damage_;  ///< one for each image
  std::int64_t first_ = 0;                          ///< number of the batch's first image
};

}  // namespace

EmbedBatch embed_with(Ops& ops, Backbone& backbone, const Tensor& images) {
  return [&ops, &backbone, images](std::span<const std::uint8_t> pixels, std::span<float> out) {
    ops.copy_to_device(images, pixels.data());
    backbone.read(images);
    ops.copy_to_host(out.data(),
                     backbone.forward(backbone.input(), /*training=*/false, /*step=*/0));
  };
}

void embed_images(std::int64_t images, const ReadImage& read, const EmbedBatch& embed,
                  const EmbedOptions& options, const TakeEmbedding& take) {
  BatchEmbedder embedder(embed, options, take);
  ordered_work<DecodedImage>(
      images, options.threads, [&](std::int64_t i) { return decode_image(i, read, options); },
      [&](std::int64_t, DecodedImage image) { embedder.add(std::move(image)); }, options.batch);
  embedder.flush();
}

std::size_t embed_images_bytes(const EmbedOptions& o) {
  // The images of the batch, and as many images that are decoded ahead.
  const std::size_t pixels = 2 * static_cast<std::size_t>(o.batch) * image_bytes(o);
  return pixels +
         static_cast<std::size_t>((o.flip ? 2 : 1) * o.batch * o.embedding_size) * sizeof(float);
}

double add_mirrored(const EmbeddedImage& embedded, std::span<float> out) {
  double squares = 0;
  for (std::size_t k = 0; k < out.size(); ++k) {
    out[k] = embedded.plain[k] + (embedded.mirrored.empty() ? 0.f : embedded.mirrored[k]);
    squares += double{out[k]} * double{out[k]};
  }
  return std::sqrt(squares);
}

}  // namespace pfc
