// Face verification by the LFW protocol (Huang et al. 2007, "unrestricted"; as arcface_torch's
// eval/verification.py runs it): is a pair of images the same person?
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace pfc {

struct VerificationResult {
  std::string name;
  double accuracy = 0;   ///< mean over the folds
  double deviation = 0;  ///< over the folds (population)
  double threshold = 0;  ///< mean of the folds' thresholds on the squared distance
  std::int64_t pairs = 0;
  double embedding_norm = 0;  ///< mean length before normalisation ("XNorm")
  double seconds = 0;
};

/// The protocol on finished embeddings: a and b are [n, D], L2-normalised rows, n >= 2. A pair
/// counts as the same person when its squared distance is below a threshold, 0 .. 4 by 0.01. The
/// pairs are split into contiguous folds (the first n mod folds have one more); each is judged with
/// the threshold that is best on all others, the smallest of equals. Fewer pairs than folds: n
/// folds. Fills accuracy, deviation, threshold and pairs. O(n D).
VerificationResult verify_pairs(std::span<const float> a, std::span<const float> b,
                                std::int64_t dimension, const std::vector<bool>& same,
                                int folds = 10);

}  // namespace pfc
