#include "comm/make_comm.h"

#include <cstring>
#include <mutex>

#include "comm/gloo/gloo_comm.h"
#include "comm/nccl/device_comms.h"
#include "common/error.h"

namespace pfc {
namespace {

/// Comm of a single worker: copies if the output is not in place, otherwise does nothing. With
/// `ops` (not owned), tensors are in that device's memory and copies go to its compute stream;
/// without, they are in host memory.
class SelfComm : public Comm {
 public:
  explicit SelfComm(Ops* ops) : ops_(ops) {}

  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int size() const override { return 1; }
  [[nodiscard]] std::string description() const override { return "none (one worker)"; }
  [[nodiscard]] CommCounters counters() const override { return count_.read(); }

  void all_gather(const Tensor& in, const Tensor& out) override {
    copy(CollectiveKind::kAllGather, in, out);
  }
  void all_reduce_sum(const Tensor& in_out) override {
    count(CollectiveKind::kAllReduce, in_out.bytes());
  }
  void reduce_scatter_sum(const Tensor& in, const Tensor& out) override {
    copy(CollectiveKind::kReduceScatter, in, out);
  }
  void all_to_all(const Tensor& in, const Tensor& out) override {
    copy(CollectiveKind::kAllToAll, in, out);
  }
  void broadcast(const Tensor& in_out, int root) override {
    check(root == 0, "broadcast: the root is not a rank");
    count(CollectiveKind::kBroadcast, in_out.bytes());
  }
  void barrier() override {
    count(CollectiveKind::kBarrier, 0);
    if (ops_ != nullptr) ops_->synchronize();
  }
  void exchange(std::span<const Sent> sent, std::span<const Received> received) override {
    check(sent.empty() && received.empty(), "exchange: a single worker has no peers");
    count(CollectiveKind::kExchange, 0);
  }
  void abort(const std::string& why) override {
    const std::lock_guard lock(mutex_);
    if (aborted_.empty()) aborted_ = why;
  }

 private:
  void count(CollectiveKind kind, std::size_t bytes) {
    {
      const std::lock_guard lock(mutex_);
      if (!aborted_.empty()) throw CommError(aborted_);
    }
    const CommCount::Call call(count_, kind, bytes);
  }
  void copy(CollectiveKind kind, const Tensor& in, const Tensor& out) {
    check(in.bytes() == out.bytes(), "collective of one worker: in and out differ in size");
    count(kind, in.bytes());
    if (in.bytes() == 0 || in.data == out.data) return;
    if (ops_ == nullptr) {
      std::memcpy(out.data, in.data, in.bytes());
    } else {
      const Shape bytes{static_cast<std::int64_t>(in.bytes())};
      ops_->copy({in.data, DType::kUInt8, bytes}, {out.data, DType::kUInt8, bytes});
    }
  }

  Ops* const ops_;
  CommCount count_;
  std::mutex mutex_;
  std::string aborted_;  // guarded by mutex_: the reason; empty if not aborted
};

}  // namespace

std::unique_ptr<Comm> make_host_comm(const CommOptions& options, KeyValueStore* store) {
  if (options.membership.world_size == 1) return std::make_unique<SelfComm>(nullptr);
  check(store != nullptr, "make_host_comm: more than one worker needs a store");
  return make_gloo_comm(options, *store);
}

DeviceComms make_device_comms(Ops& ops, const CommOptions& options, KeyValueStore* store) {
  if (ops.on_host()) {
    const auto named = [&](const char* name) {
      CommOptions o = options;
      o.name = name;
      return make_host_comm(o, store);
    };
    return {.step = named("step"), .gradients = named("gradients")};
  }
  if (options.membership.world_size == 1) {
    return {.step = std::make_unique<SelfComm>(&ops),
            .gradients = std::make_unique<SelfComm>(&ops)};
  }
  check(store != nullptr, "make_device_comms: more than one worker needs a store");
  return make_nccl_comms(ops, options, *store);
}

std::size_t host_comm_bytes(int world_size) {
  return world_size == 1 ? 0 : gloo_comm_bytes(world_size);
}

}  // namespace pfc
