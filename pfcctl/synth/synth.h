// Writes a synthetic data set for `pfcctl data synth`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

namespace pfc::synth {

struct SynthOptions {
  std::int64_t identities = 200;
  std::int64_t images_per_identity = 30;
  std::int64_t val_identities = 60;
  std::int64_t val_pairs = 600;  ///< half show one person, half two
  int size = 112;                ///< width and height in pixels; backbones need multiples of 16
  std::uint64_t seed = 1;
  float difficulty = 0.5f;  ///< how hard it is to recognise identities, 0 to 1
  int threads = 0;          ///< 0: all cores that this process may use
  bool replace = false;     ///< replace an existing data set in the folder
};

/// Throws InputError for an option outside its range.
void check_options(const SynthOptions& options);

struct ImageOf {
  std::uint32_t identity, image;
  friend bool operator==(const ImageOf&, const ImageOf&) = default;
};

/// Returns an image as JPEG bytes. Uses the options' seed, size and difficulty. Pure. Another size
/// gives the same picture with different noise.
std::vector<std::byte> draw_jpeg(const SynthOptions& options, ImageOf which);

struct Pair {
  ImageOf a, b;
  bool same = false;
};

/// Returns options.val_pairs pairs of images of identities outside the training set. Pairs of one
/// person and pairs of two alternate, so each of the ten folds of an evaluation has equally many of
/// both kinds if the number of pairs is a multiple of 20.
std::vector<Pair> draw_pairs(const SynthOptions& options);

/// Writes train.rec, train.idx, property (InsightFace's layout) and val.bin into `folder`, which
/// is created if missing. Calls `progress` (may be null) on the calling thread with the number of
/// finished and of all images. The bytes do not depend on the number of threads. Throws
/// InputError, also if one of the files exists and may not be replaced, and StorageError.
void write_synthetic_set(const SynthOptions& options, const std::filesystem::path& folder,
                         const std::function<void(std::int64_t, std::int64_t)>& progress);

}  // namespace pfc::synth
