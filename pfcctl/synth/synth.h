// A whole synthetic data set on disk: what `pfcctl data synth` makes.
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
  int threads = 0;  ///< 0: all cores that this process may use
};

/// Throws InputError for options that make no data set.
void check_options(const SynthOptions& options);

/// Image i of identity k as JPEG bytes, `size` pixels a side: a pure function of its arguments. The
/// same photograph in every size, but for the noise of its pixels.
std::vector<std::byte> draw_jpeg(std::uint64_t seed, std::uint32_t k, std::uint32_t i, int size);

struct ImageOf {
  std::uint32_t identity, image;
  friend bool operator==(const ImageOf&, const ImageOf&) = default;
};

struct Pair {
  ImageOf a, b;
  bool same = false;
};

/// Pairs of the identities after the training set's; every fold of a tenth holds as many genuine
/// pairs as impostors, since genuine and impostor pairs alternate.
std::vector<Pair> draw_pairs(const SynthOptions& options);

/// Writes train.rec, train.idx, property (InsightFace's layout) and val.bin into `folder`, made
/// where it is missing. `progress` (may be null) is called by the calling thread with images done
/// and in all. The bytes depend on the options but not on the threads. Throws InputError,
/// StorageError.
void write_synthetic_set(const SynthOptions& options, const std::filesystem::path& folder,
                         const std::function<void(std::int64_t, std::int64_t)>& progress);

}  // namespace pfc::synth
