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
  double deviation = 0;  ///< standard deviation over the folds, of the whole population
  double threshold = 0;  ///< mean of the folds' thresholds on the squared distance
  std::int64_t pairs = 0;
  double embedding_norm = 0;  ///< mean length before normalisation ("XNorm")
  double seconds = 0;
};

/// Applies the protocol to embeddings: a and b are [n, D] with L2-normalised rows. REQUIRES:
/// n >= 2. A pair is taken for the same person when its squared distance is below a threshold.
/// Thresholds from 0 to 4 in steps of 0.01 are tried. The pairs are split into contiguous folds, of
/// which the first n mod folds have one pair more; with fewer pairs than folds there are n folds.
/// Each fold is judged with the threshold that is best on all other folds, the smallest of equally
/// good ones. Fills accuracy, deviation, threshold and pairs. Takes time O(n D).
VerificationResult verify_pairs(std::span<const float> a, std::span<const float> b,
                                std::int64_t dimension, const std::vector<bool>& same,
                                int folds = 10);

}  // namespace pfc
