// The embeddings of a data set with labels that can be changed in memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/dataset.h"

namespace pfc {

/// An additional image: a stored one whose embedding is rotated a little.
struct EmbeddingCopy {
  std::int64_t source = 0;  ///< stored image
  double cosine = 1;        ///< between the copy and its source
  std::uint64_t seed = 0;   ///< of the random direction of the rotation
};

/// The identity of each image. Images after the stored ones are copies.
struct ImageLabels {
  std::vector<std::int64_t> of_image;  ///< [images]; -1: the image is left out
  std::vector<bool> is_test;           ///< [identities]: belongs to the set to compare with
  std::vector<EmbeddingCopy> copies;
  std::vector<float> mean;  ///< [D] of the embeddings of length 1; empty: zeros

  [[nodiscard]] std::int64_t images() const { return std::ssize(of_image); }
  [[nodiscard]] std::int64_t identities() const { return std::ssize(is_test); }
  [[nodiscard]] std::int64_t label(std::int64_t image) const {
    return of_image[static_cast<std::size_t>(image)];
  }
  [[nodiscard]] bool test(std::int64_t identity) const {
    return is_test[static_cast<std::size_t>(identity)];
  }
  /// Returns the stored image: that of a copy, or the image itself.
  [[nodiscard]] std::int64_t source(std::int64_t image) const {
    const std::int64_t stored = images() - std::ssize(copies);
    return image < stored ? image : copies[static_cast<std::size_t>(image - stored)].source;
  }
};

/// The images of each identity, in ascending order. 8 bytes for each image and each identity.
class IdentityMembers {
 public:
  explicit IdentityMembers(const ImageLabels& labels);
  [[nodiscard]] std::span<const std::int64_t> of(std::int64_t identity) const {
    const auto i = static_cast<std::size_t>(identity);
    return std::span(images_).subspan(begin_[i], begin_[i + 1] - begin_[i]);
  }

 private:
  std::vector<std::size_t> begin_;    // [identities + 1], in images_
  std::vector<std::int64_t> images_;  // sorted by identity
};

/// Reads embeddings: scaled to length 1, less the mean, and scaled again. Without the mean, cosines
/// of a model that is not trained well would all be near 1. Thread-safe. Borrows both arguments.
/// REQUIRES: each image that is not left out can be read.
class LabelledEmbeddings {
 public:
  LabelledEmbeddings(const Dataset& dataset, const ImageLabels& labels)
      : dataset_(dataset), labels_(labels), members_(labels) {}

  [[nodiscard]] const ImageLabels& labels() const { return labels_; }
  [[nodiscard]] const IdentityMembers& members() const { return members_; }
  [[nodiscard]] std::size_t dimension() const {
    return static_cast<std::size_t>(dataset_.info().embedding_size);
  }
  /// Throws InputError if the file is truncated or changed while it is read.
  void read(std::int64_t image, std::span<float> row) const;
  /// Returns the embeddings of these images, [images, D].
  [[nodiscard]] std::vector<float> rows(std::span<const std::int64_t> images) const;

 private:
  const Dataset& dataset_;
  const ImageLabels& labels_;
  const IdentityMembers members_;
};

/// Inner product, summed in float64 in a fixed order.
double inner_product(std::span<const float> a, std::span<const float> b);

}  // namespace pfc
