// Face verification by the LFW protocol (Huang et al. 2007; arcface_torch's eval/verification.py):
// is a pair of images the same person?
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "worker/comm/comm.h"

namespace pfc {

/// A verification set: pair k is images 2k and 2k + 1. Images stay encoded until they are needed.
struct VerificationSet {
  std::string name;                            ///< file name without .bin
  std::vector<std::vector<std::byte>> images;  ///< JPEG or PNG bytes, 2n for n pairs
  std::vector<bool> same;                      ///< [n]
};

/// Reads a .bin pickle (bytes or numpy uint8 items; protocols 2 to 5). Bounded, runs nothing. Throws
/// InputError that names file and offset.
VerificationSet read_verification_bin(const std::filesystem::path& path);

/// DIR/NAME.bin for a name, the path itself for a path. Throws InputError with both places tried.
std::filesystem::path find_verification_bin(const std::string& target,
                                            const std::filesystem::path& rec);

struct VerificationResult {
  std::string name;
  double accuracy = 0;   ///< mean over the folds
  double deviation = 0;  ///< over the folds
  double threshold = 0;  ///< mean of the folds' thresholds on the squared distance
  std::int64_t pairs = 0;
  double embedding_norm = 0;  ///< mean length before normalisation ("XNorm")
  double seconds = 0;
};

/// The protocol on finished embeddings: a and b are [n, D], L2-normalised rows. Thresholds 0 .. 4 by
/// 0.01 on the squared distance; the threshold of each of `folds` contiguous folds is the one that
/// is best on the others.
VerificationResult verify_pairs(std::span<const float> a, std::span<const float> b,
                                std::int64_t dimension, const std::vector<bool>& same,
                                int folds = 10);

/// Embeds exactly `batch` uint8 images [batch, H, W, 3] into [batch, D] host floats.
using EmbedBatch = std::function<void(std::span<const std::uint8_t> images, std::span<float> out)>;

struct EvaluationOptions {
  std::int64_t batch = 128, height = 112, width = 112, embedding_size = 512;
};

/// Splits the images over all workers (each decodes its own), embeds image and mirror image, gathers,
/// adds, normalises and verifies on every worker alike.
VerificationResult evaluate(const VerificationSet& set, Comm& comm, const EmbedBatch& embed,
                            const EvaluationOptions& options);

}  // namespace pfc
