#include "kernels/margin_softmax.h"

#include "kernels/cpu/margin_softmax.h"
#include "kernels/cuda/margin_softmax.h"

namespace pfc {

std::unique_ptr<MarginSoftmax> make_margin_softmax(Ops& ops, const MarginSoftmaxOptions& options,
                                                   const CentreTable& table) {
  if (ops.on_host()) return make_cpu_margin_softmax(ops, options, table);
  return make_cuda_margin_softmax(ops, options, table);
}

}  // namespace pfc
