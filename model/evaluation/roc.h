// Receiver operating characteristic (ROC) of scored pairs, and figures computed from it.
#pragma once

#include <cstdint>
#include <vector>

namespace pfc {

struct ScoredPair {
  double score = 0;  ///< similarity; NaN is treated as minus infinity
  bool same = false;
};

struct RocPoint {
  double fpr = 0;  ///< fraction of the impostor pairs with at least this score (FAR, FMR)
  double tpr = 0;  ///< fraction of the genuine pairs with at least this score (TAR, 1 - FNMR)
  double score = 0;
};

struct Roc {
  std::vector<RocPoint> points;  ///< from (0, 0) to (1, 1), both rates rising
  std::int64_t genuine = 0, impostors = 0;
};

/// Sorts the pairs: O(n log n). Equal scores become one point. Omits points on a straight line
/// between their neighbours, as scikit-learn's roc_curve() does by default. REQUIRES: pairs of both
/// kinds.
Roc roc_of(std::vector<ScoredPair> pairs);

/// Returns the TPR of the point whose FPR is nearest to `fpr`; if several are equally near, that of
/// the point with the largest rates. This is how InsightFace's IJB scripts read the curve
/// (onnx_ijbc.py).
double tpr_near(const Roc& roc, double fpr);

/// Returns the rate at which FPR and 1 - TPR are equal, interpolated linearly between points.
double equal_error_rate(const Roc& roc);

/// Returns the least detection cost of NIST's speaker evaluations: (prior * (1 - TPR) +
/// (1 - prior) * FPR) / min(prior, 1 - prior) with both errors at cost 1.
double min_detection_cost(const Roc& roc, double prior = 0.01);

}  // namespace pfc
