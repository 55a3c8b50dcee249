// Collectives of GPU memory over NCCL.
#pragma once

#include <memory>

#include "comm/comm.h"
#include "comm/nccl/nccl_group.h"
#include "common/trace/recorder.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/cuda/runtime/stream.h"

namespace pfc {

class NcclComm : public Comm {
 public:
  /// Uses `stream`, or its own stream if that is nullptr. Records collectives on the row `track`.
  NcclComm(std::shared_ptr<NcclGroup> group, const std::string& name, const Membership& me,
           cudaStream_t stream, const TraceTrack& track = {});
  NcclComm(const NcclComm&) = delete;
  ~NcclComm() override;

  [[nodiscard]] int rank() const override { return me_.rank; }
  [[nodiscard]] int size() const override { return me_.world_size; }
  [[nodiscard]] std::string description() const override;
  [[nodiscard]] CommCounters counters() const override;
  [[nodiscard]] cudaStream_t stream() const { return stream_; }

  void all_gather(const Tensor& in, const Tensor& out) override;
  /// The result is bit-identical on every worker; NCCL chooses the order of the sum.
  void all_reduce_sum(const Tensor& in_out) override;
  void reduce_scatter_sum(const Tensor& in, const Tensor& out) override;
  void all_to_all(const Tensor& in, const Tensor& out) override;
  void broadcast(const Tensor& in_out, int root) override;
  void barrier() override;
  void throw_if_failed() override { group_->throw_if_failed(); }
  void abort(const std::string& why) override { group_->abort(why); }

 private:
  /// bytes: size of this worker's input. sent: CommCounters::sent_bytes of the call.
  void enqueue(CollectiveKind kind, std::size_t bytes, std::size_t sent,
               const NcclGroup::Call& call);
  [[nodiscard]] std::size_t peers() const { return static_cast<std::size_t>(size() - 1); }

  const std::shared_ptr<NcclGroup> group_;  // shared by the Comms of one worker
  const Membership me_;
  std::unique_ptr<CudaStream> own_stream_;
  cudaStream_t const stream_;
  NcclLink& link_;
  CudaBuffer barrier_word_{sizeof(float)};
  CudaEvent barrier_passed_;
  CommCount count_;
};

}  // namespace pfc
