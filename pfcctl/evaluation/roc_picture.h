// ROC curves as a picture.
#pragma once

#include <string>
#include <vector>

#include "model/evaluation/roc.h"

namespace pfc {

struct NamedRoc {
  std::string name;
  Roc roc;
};

/// Returns SVG: TPR over FPR. The FPR axis is logarithmic and begins at the power of ten at or
/// below 1 / impostors, the smallest FPR that any curve resolves. The TPR axis begins at the
/// highest multiple of 0.1 below all curves there. REQUIRES: one curve or more.
std::string roc_picture(const std::vector<NamedRoc>& curves);

}  // namespace pfc
