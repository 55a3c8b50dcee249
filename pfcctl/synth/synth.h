// Writes a whole synthetic data set, as `pfcctl data synth` does.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "pfcctl/synth/face/identity.h"

namespace pfc::synth {

struct SynthOptions {
  std::int64_t identities = 200;
  std::int64_t images_per_identity = 30;
  std::int64_t val_identities = 60;
  std::int64_t val_pairs = 600;  ///< half of one person, half of two
  int size = 112;                ///< pixels a side; backbones take multiples of 16
  std::uint64_t seed = 1;
  int threads = 0;       ///< 0: all cores that this process may use
  bool replace = false;  ///< a data set that is in the folder
};

/// Throws InputError for an option outside its range.
void check_options(const SynthOptions& options);

/// Image i of identity k as JPEG bytes, `size` pixels a side: a pure function of its arguments. In
/// another size it is the same photograph with other noise.
std::vector<std::byte> draw_jpeg(std::uint64_t seed, std::uint32_t k, std::uint32_t i, int size);

struct ImageOf {
  std::uint32_t identity, image;
  friend bool operator==(const ImageOf&, const ImageOf&) = default;
};

struct Pair {
  ImageOf a, b;
  bool same = false;
};

/// Pairs of images of identities that are not in the training set. Pairs of one person and of two
/// alternate, so that each of ten folds holds as many of both.
std::vector<Pair> draw_pairs(const SynthOptions& options);

/// Writes train.rec, train.idx, property (InsightFace's layout) and val.bin into `folder`, made
/// where it is missing. `progress` (may be null) is called by the calling thread with images done
/// and in all. The bytes depend on the options but not on the threads. Throws InputError, also
/// where one of these files is there and may not be replaced, and StorageError.
void write_synthetic_set(const SynthOptions& options, const std::filesystem::path& folder,
                         const std::function<void(std::int64_t, std::int64_t)>& progress);

}  // namespace pfc::synth
