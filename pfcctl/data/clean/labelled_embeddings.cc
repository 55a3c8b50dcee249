#include "pfcctl/data/clean/labelled_embeddings.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "common/error.h"
#include "data/damaged_image.h"
#include "data/images/vector_clones.h"
#include "kernels/math/philox.h"
#include "worker/head/row_copy.h"

namespace pfc {

namespace {

/// Rotates a unit vector. Its cosine with the original is then copy.cosine.
void turn(const EmbeddingCopy& copy, std::span<float> row) {
  std::vector<float> aside(row.size());
  for (std::size_t i = 0; i < row.size(); ++i) {
    aside[i] = uniform_of(copy.seed, Stream::kSynth, 0, i) - 0.5f;
  }
  const double along = inner_product(row, aside);
  for (std::size_t i = 0; i < row.size(); ++i) aside[i] -= static_cast<float>(along * row[i]);
  normalise(aside);
  const double sine = std::sqrt(std::max(0.0, 1 - copy.cosine * copy.cosine));
  for (std::size_t i = 0; i < row.size(); ++i) {
    row[i] = static_cast<float>(copy.cosine * row[i] + sine * aside[i]);
  }
  normalise(row);
}

}  // namespace

PFC_VECTOR_CLONES double inner_product(std::span<const float> a, std::span<const float> b) {
  std::array<double, 16> lanes{};
  std::size_t i = 0;
  for (; i + 16 <= a.size(); i += 16) {
    for (std::size_t k = 0; k < 16; ++k) lanes[k] += double{a[i + k]} * b[i + k];
  }
  for (; i < a.size(); ++i) lanes[0] += double{a[i]} * b[i];
  for (std::size_t half = 8; half > 0; half /= 2) {
    for (std::size_t k = 0; k < half; ++k) lanes[k] += lanes[k + half];
  }
  return lanes[0];
}

IdentityMembers::IdentityMembers(const ImageLabels& labels)
    : begin_(static_cast<std::size_t>(labels.identities()) + 1) {
  for (const std::int64_t label : labels.of_image) {
    if (label >= 0) ++begin_[static_cast<std::size_t>(label) + 1];
  }
  for (std::size_t i = 1; i < begin_.size(); ++i) begin_[i] += begin_[i - 1];
  images_.resize(begin_.back());
  for (std::int64_t i = 0; i < labels.images(); ++i) {
    if (labels.label(i) >= 0) {
      images_[begin_[static_cast<std::size_t>(labels.label(i))]++] = i;
    }
  }
  std::shift_right(begin_.begin(), begin_.end(), 1);  // begin_[i] was the end of identity i
  begin_.front() = 0;
}

void LabelledEmbeddings::read(std::int64_t image, std::span<float> row) const {
  const std::int64_t stored = labels_.images() - std::ssize(labels_.copies);
  const EmbeddingCopy* const copy =
      image < stored ? nullptr : &labels_.copies[static_cast<std::size_t>(image - stored)];
  ImageBuffer buffer;
  try {
    const Sample sample = dataset_.read(copy != nullptr ? copy->source : image, buffer);
    std::memcpy(row.data(), sample.encoded.data(), row.size_bytes());
  } catch (const DamagedImage& e) {
    throw InputError(std::string(e.what()) + "; the file changed while it was read");
  }
  normalise(row);
  for (std::size_t i = 0; i < labels_.mean.size(); ++i) row[i] -= labels_.mean[i];
  if (!normalise(row)) std::ranges::fill(row, 0.f);
  if (copy != nullptr) turn(*copy, row);
}

std::vector<float> LabelledEmbeddings::rows(std::span<const std::int64_t> images) const {
  std::vector<float> all(images.size() * dimension());
  for (std::size_t i = 0; i < images.size(); ++i) {
    read(images[i], std::span(all).subspan(i * dimension(), dimension()));
  }
  return all;
}

}  // namespace pfc
