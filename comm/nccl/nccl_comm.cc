#include "comm/nccl/nccl_comm.h"

#include <algorithm>

#include "comm/nccl/device_comms.h"
#include "comm/nccl/nccl_call.h"
#include "common/error.h"
#include "common/trace/profiler_range.h"
#include "kernels/cuda/ops/cuda_ops.h"

namespace pfc {

NcclComm::NcclComm(std::shared_ptr<NcclGroup> group, const std::string& name, const Membership& me,
                   cudaStream_t stream, const TraceTrack& track)
    : group_(std::move(group)),
      me_(me),
      own_stream_(stream == nullptr ? std::make_unique<CudaStream>() : nullptr),
      stream_(stream == nullptr ? own_stream_->get() : stream),
      link_(group_->connect(name)),
      count_(track) {
  cuda_check(cudaMemsetAsync(barrier_word_.data(), 0, barrier_word_.bytes(), stream_),
             "zeroing memory");
}

NcclComm::~NcclComm() { group_->leave(link_); }

std::string NcclComm::description() const {
  return "NCCL (" + link_.places[static_cast<std::size_t>(rank())] + ")";
}

// Only the NcclGroup learns when a collective is done. So the done ones are all calls except those
// that the group still counts as pending.
CommCounters NcclComm::counters() const {
  const std::uint64_t pending = link_.pending;
  CommCounters counters = count_.read();
  counters.done = counters.calls - std::min(pending, counters.calls);
  return counters;
}

void NcclComm::enqueue(CollectiveKind kind, std::size_t bytes, std::size_t sent,
                       const NcclGroup::Call& call) {
  const ProfilerRange range(name_of(kind));
  const TimePoint begin = Clock::now();
  const std::uint64_t number = count_.begin(kind, bytes);
  count_.sent(kind, sent);
  if (bytes > 0) group_->enqueue(link_, name_of(kind), bytes, stream_, call);
  count_.record(kind, begin, Clock::now(), number, bytes);
}

void NcclComm::all_gather(const Tensor& in, const Tensor& out) {
  check(out.bytes() == in.bytes() * static_cast<std::size_t>(size()),
        "all_gather: out must be size() times in");
  enqueue(CollectiveKind::kAllGather, in.bytes(), peers() * in.bytes(), [&](ncclComm_t comm) {
    return ncclAllGather(in.data, out.data, in.bytes(), ncclUint8, comm, stream_);
  });
}

void NcclComm::all_reduce_sum(const Tensor& in_out) {
  float* const data = in_out.f32();
  const std::size_t sent = 2 * peers() * in_out.bytes() / (peers() + 1);
  enqueue(CollectiveKind::kAllReduce, in_out.bytes(), sent, [&](ncclComm_t comm) {
    return ncclAllReduce(data, data, static_cast<std::size_t>(in_out.elements()), ncclFloat32,
                         ncclSum, comm, stream_);
  });
}

void NcclComm::reduce_scatter_sum(const Tensor& in, const Tensor& out) {
  check(in.elements() == out.elements() * size(), "reduce_scatter: in must be size() times out");
  const float* const from = in.f32();
  float* const to = out.f32();
  enqueue(CollectiveKind::kReduceScatter, in.bytes(), peers() * out.bytes(), [&](ncclComm_t comm) {
    return ncclReduceScatter(from, to, static_cast<std::size_t>(out.elements()), ncclFloat32,
                             ncclSum, comm, stream_);
  });
}

void NcclComm::all_to_all(const Tensor& in, const Tensor& out) {
  const auto workers = static_cast<std::size_t>(size());
  check(in.bytes() == out.bytes() && in.bytes() % workers == 0,
        "all_to_all: in and out must have size() blocks of equal size");
  const std::size_t block = in.bytes() / workers;
  enqueue(CollectiveKind::kAllToAll, in.bytes(), peers() * block, [&](ncclComm_t comm) {
    return nccl_all_to_all(in.data, out.data, block, size(), comm, stream_);
  });
}

void NcclComm::broadcast(const Tensor& in_out, int root) {
  check(root >= 0 && root < size(), "broadcast: the root is not a rank");
  // The worker before the root is the last one in the ring, so it does not forward the data.
  const bool passes_on = (rank() + 1) % size() != root;
  enqueue(CollectiveKind::kBroadcast, in_out.bytes(), passes_on ? in_out.bytes() : 0,
          [&](ncclComm_t comm) {
            return ncclBroadcast(in_out.data, in_out.data, in_out.bytes(), ncclUint8, root, comm,
                                 stream_);
          });
}

// The sum completes only when every worker has called barrier(). An abort also ends the host's
// wait.
void NcclComm::barrier() {
  const ProfilerRange range("barrier");
  const TimePoint begin = Clock::now();
  const std::uint64_t number = count_.begin(CollectiveKind::kBarrier, 0);
  float* const word = reinterpret_cast<float*>(barrier_word_.data());
  group_->enqueue(link_, "barrier", 0, stream_, [&](ncclComm_t comm) {
    return ncclAllReduce(word, word, 1, ncclFloat32, ncclSum, comm, stream_);
  });
  barrier_passed_.record(stream_);
  barrier_passed_.wait();
  throw_if_failed();
  count_.record(CollectiveKind::kBarrier, begin, Clock::now(), number, 0);
}

DeviceComms make_nccl_comms(Ops& ops, const CommOptions& options, KeyValueStore& store) {
  auto* const cuda = dynamic_cast<CudaOps*>(&ops);
  check(cuda != nullptr, "make_nccl_comms: ops is not for a GPU");
  const auto group = std::make_shared<NcclGroup>(cuda->device().index, options, store);
  const auto make = [&](const char* name, cudaStream_t stream) {
    return std::make_unique<NcclComm>(group, name, options.membership, stream,
                                      track_of(options.trace, TraceRow::kCollectives, name));
  };
  return {.step = make("step", cuda->device().compute.get()),
          .gradients = make("gradients", nullptr)};
}

}  // namespace pfc
