// The streaming margin softmax of kernels/margin/margin_softmax.h on CPUs.
#pragma once

#include <memory>

#include "kernels/margin/margin_softmax.h"

namespace pfc {

std::unique_ptr<MarginSoftmax> make_cpu_margin_softmax(Ops& ops,
                                                       const MarginSoftmaxOptions& options,
                                                       const CentreTable& table);

}  // namespace pfc
