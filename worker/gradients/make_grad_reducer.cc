#include "worker/gradients/make_grad_reducer.h"

#include "worker/gradients/device_grad_reducers.h"

namespace pfc {
namespace {

class NoReducer : public GradReducer {
 public:
  void ready(std::int64_t /*offset*/) override {}
  void wait() override {}
  [[nodiscard]] const Timeline& timeline() const override { return timeline_; }

 private:
  const Timeline timeline_;
};

}  // namespace

std::unique_ptr<GradReducer> make_grad_reducer(Ops& ops, Comm& comm, const Tensor& gradients,
                                               const GradReducerOptions& options) {
  if (comm.size() == 1 || gradients.elements() == 0) return std::make_unique<NoReducer>();
  if (!ops.on_host()) return make_cuda_grad_reducer(ops, comm, gradients, options);
  return make_cpu_grad_reducer(ops, comm, gradients, options);
}

}  // namespace pfc
