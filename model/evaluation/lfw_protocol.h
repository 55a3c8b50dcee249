// Face verification by the LFW protocol (Huang et al. 2007, "unrestricted"; as arcface_torch's
// eval/verification.py runs it): is a pair of images the same person?
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/evaluation/roc.h"

namespace pfc {

/// True and false accept rates at the threshold for a given false accept rate.
struct TarAtFar {
  double far = 0;        ///< the wanted FAR, for which the threshold is chosen
  double tar = 0;        ///< mean over the folds ("Validation rate")
  double deviation = 0;  ///< standard deviation of tar over the folds (population)
  double measured = 0;   ///< the FAR that the threshold gives, mean over the folds
};

inline constexpr std::array<double, 5> kFars = {1e-2, 1e-3, 1e-4, 1e-5, 1e-6};

struct VerificationResult {
  std::string name;
  double accuracy = 0;   ///< mean over the folds
  double deviation = 0;  ///< standard deviation over the folds (population)
  double threshold = 0;  ///< mean of the folds' thresholds on the squared distance
  std::int64_t pairs = 0;
  double embedding_norm = 0;  ///< mean length before normalisation ("XNorm")
  double seconds = 0;
  std::vector<TarAtFar> tars;  ///< one for each of kFars
  Roc roc;                     ///< curve of all pairs; a score is -(squared distance)
};

/// Applies the protocol to embeddings: a and b are [n, D] with L2-normalised rows. REQUIRES: n >=
/// 2. A pair is accepted as the same person if its squared distance is below a threshold. The
/// thresholds 0, 0.01 ... 3.99 are tried. The pairs are split into contiguous folds, of
/// which the first n mod folds have one pair more; with fewer pairs than folds there are n folds.
/// Each fold is tested with the threshold that is best on all other folds, the smallest of equally
/// good ones. For the TAR at a FAR, thresholds have steps of 0.001, and the FAR on the other folds
/// is computed at each. The fold's threshold is interpolated linearly between the last one with a
/// lower FAR and the next one. It is 0 if no threshold reaches the FAR. Folds without genuine pairs
/// have no TAR, and those without impostor pairs no FAR. Fills all members except name,
/// embedding_norm and seconds, but roc only if there are pairs of both kinds. Takes time O(n D + n
/// log n).
VerificationResult verify_pairs(std::span<const float> a, std::span<const float> b,
                                std::int64_t dimension, const std::vector<bool>& same,
                                int folds = 10);

/// Counts the folds of verify_pairs() whose pairs are all genuine or all impostors. The threshold
/// of such a fold is chosen on a different mix of pairs, so the fold's accuracy means little.
int one_sided_folds(const std::vector<bool>& same, int folds = 10);

}  // namespace pfc
