// A data set to a verification set of drawn pairs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "data/dataset.h"
#include "pfcctl/data/writing.h"

namespace pfc {

struct DrawPairsOptions {
  std::filesystem::path in;   ///< any data set, of people that no training has seen
  std::filesystem::path out;  ///< NAME.bin
  std::int64_t pairs = 6000;
  std::uint64_t seed = 1;
  bool replace = false;
};

/// Two images by their numbers in the data set.
struct DrawnPair {
  std::int64_t first = 0, second = 0;
  bool same = false;
};

/// Pairs of one person and of two people in turn, so that each part of a cross validation has as
/// many of both. People are drawn uniformly, as long as they have new pairs, then their images; no
/// pair comes twice. labels [images]: each image's label; -1: it is left out. A pure
/// function of its arguments. Throws InputError where so many different pairs are not there.
std::vector<DrawnPair> draw_pairs(const std::vector<std::int64_t>& labels, std::int64_t pairs,
                                  std::uint64_t seed);

struct DrawnPairs {
  std::int64_t pairs = 0, people = 0;  ///< people: with at least one image in a pair
};

/// Writes the .bin that `val_targets` name (model/evaluation/verification_bin.h), with the images'
/// own bytes. Throws InputError, also for an image that does not decode.
DrawnPairs pack_drawn_pairs(const DrawPairsOptions& options, const ShowProgress& progress);

}  // namespace pfc
