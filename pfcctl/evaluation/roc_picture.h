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

/// SVG text: TPR over FPR, which has a logarithmic axis from the power of ten below the smallest
/// FPR that any curve resolves, 1 / impostors. The TPR axis begins at the highest multiple of 0.1
/// below all curves there. REQUIRES: one curve or more.
std::string roc_picture(const std::vector<NamedRoc>& curves);

}  // namespace pfc
