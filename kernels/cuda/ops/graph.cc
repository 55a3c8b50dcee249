// Repeated work, which a GPU records as a CUDA graph and then launches with one call.

#include <exception>
#include <utility>

#include "kernels/cuda/ops/cuda_ops.h"

namespace pfc {
namespace {

class Capture {
 public:
  explicit Capture(cudaStream_t stream) : stream_(stream) {
    // Captures only this thread's calls, because other threads poll events and copy batches
    // meanwhile.
    cuda_check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
               "beginning a CUDA graph");
  }
  Capture(const Capture&) = delete;
  ~Capture() {
    if (!ended_) static_cast<void>(cudaStreamEndCapture(stream_, &graph_));
    if (graph_ != nullptr) static_cast<void>(cudaGraphDestroy(graph_));
  }

  cudaGraph_t end() {
    ended_ = true;
    cuda_check(cudaStreamEndCapture(stream_, &graph_),
               "recording a CUDA graph (set \"cuda_graphs\" to false to avoid it)");
    return graph_;
  }

 private:
  cudaStream_t stream_;
  cudaGraph_t graph_ = nullptr;
  bool ended_ = false;
};

/// The first run enqueues the work without recording it: libraries choose their algorithms and
/// create their handles then, which is not allowed during a recording. The second run records the
/// work; this and every later run launches the graph. The graph contains the address of the
/// scratch memory, so the work is recorded again after that memory has moved. Borrows the device.
class CudaGraphWork : public RepeatedWork {
 public:
  CudaGraphWork(CudaDevice& device, std::function<void()> enqueue);
  CudaGraphWork(const CudaGraphWork&) = delete;
  ~CudaGraphWork() override;

  void run() override;

 private:
  void record();
  void forget();

  CudaDevice& device_;
  const std::function<void()> enqueue_;
  bool has_run_ = false;
  const std::byte* scratch_ = nullptr;  // address of the scratch memory in the recorded graph
  cudaGraphExec_t graph_ = nullptr;
};

CudaGraphWork::CudaGraphWork(CudaDevice& device, std::function<void()> enqueue)
    : device_(device), enqueue_(std::move(enqueue)) {}

CudaGraphWork::~CudaGraphWork() { forget(); }

void CudaGraphWork::forget() {
  if (graph_ != nullptr) static_cast<void>(cudaGraphExecDestroy(graph_));
  graph_ = nullptr;
}

void CudaGraphWork::run() {
  if (!std::exchange(has_run_, true)) return enqueue_();
  if (graph_ == nullptr || scratch_ != device_.scratch.data()) record();
  cuda_check(cudaGraphLaunch(graph_, device_.compute.get()), "launching a CUDA graph");
}

void CudaGraphWork::record() {
  forget();
  Capture capture(device_.compute.get());
  enqueue_();
  cuda_check(cudaGraphInstantiate(&graph_, capture.end(), 0), "making a CUDA graph");
  scratch_ = device_.scratch.data();
}

}  // namespace

std::unique_ptr<RepeatedWork> CudaOps::repeat(std::function<void()> enqueue) {
  if (device_.graphs) return std::make_unique<CudaGraphWork>(device_, std::move(enqueue));
  return std::make_unique<CalledWork>(std::move(enqueue));
}

}  // namespace pfc
