#include "kernels/cuda/runtime/graph.h"

#include <exception>
#include <utility>

namespace pfc {
namespace {

class Capture {
 public:
  explicit Capture(cudaStream_t stream) : stream_(stream) {
    // This thread's calls only: others go on polling events and copying batches.
    cuda_check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
               "the beginning of a CUDA graph");
  }
  Capture(const Capture&) = delete;
  ~Capture() {
    if (!ended_) static_cast<void>(cudaStreamEndCapture(stream_, &graph_));
    if (graph_ != nullptr) static_cast<void>(cudaGraphDestroy(graph_));
  }

  cudaGraph_t end() {
    ended_ = true;
    cuda_check(cudaStreamEndCapture(stream_, &graph_),
               "recording a CUDA graph (\"cuda_graphs\": false does without)");
    return graph_;
  }

 private:
  cudaStream_t stream_;
  cudaGraph_t graph_ = nullptr;
  bool ended_ = false;
};

}  // namespace

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

}  // namespace pfc
