// A softmax over classes that lie on several workers: what each says about a sample's row of
// logits, and the loss and probabilities that follow from all of it.
#pragma once

#include <cmath>
#include <limits>

#include "kernels/math/host_device.h"

namespace pfc {

/// One sample's logits on one worker. The target stays out of max and sum, so that neither the loss
/// nor 1 - p(target) is ever a difference of nearly equal numbers.
struct RowStatistics {
  double max = -std::numeric_limits<double>::infinity();     ///< of all logits but the target's
  double sum = 0;                                            ///< of exp(logit - max) over the same
  double target = -std::numeric_limits<double>::infinity();  ///< stays so where the worker has none
};

/// a becomes the statistics of a's and b's classes together (b may have none).
PFC_HOST_DEVICE void merge(RowStatistics& a, const RowStatistics& b) {
  if (b.sum != 0) {
    const double max = b.max > a.max ? b.max : a.max;
    a.sum = (a.sum == 0 ? 0 : a.sum * std::exp(a.max - max)) + b.sum * std::exp(b.max - max);
    a.max = max;
  }
  if (b.target != -std::numeric_limits<double>::infinity()) a.target = b.target;
}

/// The softmax's cross entropy of one sample.
struct RowSoftmax {
  double loss = 0;         ///< log sum exp - target, with log-add-exp: right from 0 to overflow
  double others = 0;       ///< 1 - p(target), to full relative precision
  double probability = 0;  ///< p(class) = probability * exp(logit - max)
};

PFC_HOST_DEVICE RowSoftmax row_softmax(const RowStatistics& s) {
  if (s.sum == 0) return {};  // no class but the target
  const double excess = s.max + std::log(s.sum) - s.target;
  RowSoftmax r;
  r.loss = excess > 0 ? excess + std::log1p(std::exp(-excess)) : std::log1p(std::exp(excess));
  r.others = 1 / (1 + std::exp(-excess));
  r.probability = r.others / s.sum;
  return r;
}

}  // namespace pfc
