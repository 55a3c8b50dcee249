// Embeds any number of images, batch by batch, while the next ones are decoded.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "kernels/ops.h"
#include "model/networks/backbone.h"

namespace pfc {

/// Embeds exactly `batch` uint8 images [batch, H, W, 3] into [batch, D] host floats.
using EmbedBatch = std::function<void(std::span<const std::uint8_t> images, std::span<float> out)>;

/// Returns an EmbedBatch that computes the forward pass as in evaluation. images: device memory,
/// uint8 [B, H, W, 3]. Borrows all arguments.
EmbedBatch embed_with(Ops& ops, Backbone& backbone, const Tensor& images);

struct EmbedOptions {
  std::int64_t batch = 128, height = 112, width = 112, embedding_size = 512;
  bool flip = true;  ///< also embeds the mirror image
  int threads = 1;   ///< decoding threads; 0: all cores
};

/// Decodes an image into rgb [H, W, 3]. Throws DamagedImage. Called from several threads.
using ReadImage = std::function<void(std::int64_t image, std::span<std::uint8_t> rgb)>;

struct EmbeddedImage {
  std::span<const float> plain;     ///< [D], not normalised
  std::span<const float> mirrored;  ///< [D]; empty without flip
  /// Why the image is damaged; a black image was embedded instead.
  std::optional<std::string> damage;
};
using TakeEmbedding = std::function<void(std::int64_t image, const EmbeddedImage& embedded)>;

/// Embeds images 0 .. images - 1 and gives them to `take` in this order, on the calling thread,
/// which also runs the network. Takes embed_images_bytes() of memory, whatever the number of
/// images. The last batch is padded with black images.
void embed_images(std::int64_t images, const ReadImage& read, const EmbedBatch& embed,
                  const EmbedOptions& options, const TakeEmbedding& take);

std::size_t embed_images_bytes(const EmbedOptions& options);

/// Sets out[k] = plain[k] + mirrored[k], or out[k] = plain[k] if there is no mirror image. Returns
/// the length of `out`.
double add_mirrored(const EmbeddedImage& embedded, std::span<float> out);

}  // namespace pfc
