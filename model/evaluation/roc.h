// Receiver operating characteristic (ROC) of scored pairs, and figures that are read from it.
#pragma once

#include <cstdint>
#include <vector>

namespace pfc {

struct ScoredPair {
  double score = 0;  ///< similarity; NaN is treated as minus infinity
  bool same = false;
};

struct RocPoint {
  double fpr = 0;  ///< part of the impostor pairs with at least this score (FAR, FMR)
  double tpr = 0;  ///< part of the genuine pairs with at least this score (TAR, 1 - FNMR)
  double score = 0;
};

struct Roc {
  std::vector<RocPoint> points;  ///< from (0, 0) to (1, 1), both rates rising
  std::int64_t genuine = 0, impostors = 0;
};

/// Takes the pairs by value and sorts them: O(n log n). Equal scores make one point. Points on a
/// straight line between their neighbours are left out, as scikit-learn's roc_curve() does by
/// default. REQUIRES: pairs of both kinds.
Roc roc_of(std::vector<ScoredPair> pairs);

/// TPR of the point whose FPR is nearest to `fpr`; of equally near ones the point with the largest
/// rates. This is how InsightFace's IJB scripts read the curve (onnx_ijbc.py).
double tpr_near(const Roc& roc, double fpr);

/// The rate at which FPR and 1 - TPR are equal, on straight lines between the points.
double equal_error_rate(const Roc& roc);

/// The least detection cost of NIST's speaker recognition evaluations: (prior * (1 - TPR) +
/// (1 - prior) * FPR) / min(prior, 1 - prior) with both errors at cost 1.
double min_detection_cost(const Roc& roc, double prior = 0.01);

}  // namespace pfc
