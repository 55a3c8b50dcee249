// Draws pairs of a data set's images for a verification set.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "data/dataset.h"
#include "pfcctl/data/writing.h"

namespace pfc {

struct DrawPairsOptions {
  std::filesystem::path in;   ///< any data set; its people should not be in the training data
  std::filesystem::path out;  ///< NAME.bin
  std::int64_t pairs = 6000;
  std::uint64_t seed = 1;
  bool replace = false;
};

/// Two images, by their indices in the data set.
struct DrawnPair {
  std::int64_t first = 0, second = 0;
  bool same = false;
};

/// Returns pairs of one person and pairs of two people alternately, so each of the ten folds of an
/// evaluation has equally many of both kinds if `pairs` is a multiple of 20. Draws people
/// uniformly, as long as they have new pairs, then their images; no pair occurs twice. labels
/// [images]: each image's label; -1: the image is skipped. A pure function of its arguments. Throws
/// InputError if there are not enough different pairs.
std::vector<DrawnPair> draw_pairs(const std::vector<std::int64_t>& labels, std::int64_t pairs,
                                  std::uint64_t seed);

struct DrawnPairs {
  std::int64_t pairs = 0, people = 0;  ///< people: number of people with an image in a pair
};

/// Writes the .bin that `val_targets` name (model/evaluation/verification_bin.h), with the images'
/// own bytes. Throws InputError, also for an image that cannot be decoded.
DrawnPairs pack_drawn_pairs(const DrawPairsOptions& options, const ShowProgress& progress);

}  // namespace pfc
