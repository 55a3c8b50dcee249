#include "worker/comm/self_comm.h"

#include <cstring>

namespace pfc {
namespace {

class SelfComm : public Comm {
 public:
  explicit SelfComm(Ops* ops) : ops_(ops) {}

  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int size() const override { return 1; }
  [[nodiscard]] std::string description() const override { return "none (one worker)"; }
  [[nodiscard]] CommCounters counters() const override { return count_.read(); }

  void all_gather(const Tensor& in, const Tensor& out) override { copy(in, out); }
  void all_reduce_sum(const Tensor& in_out) override { count(in_out.bytes()); }
  void reduce_scatter_sum(const Tensor& in, const Tensor& out) override { copy(in, out); }
  void broadcast(const Tensor& in_out, int root) override {
    check(root == 0, "broadcast: the root is no rank");
    count(in_out.bytes());
  }
  void barrier() override {
    count(0);
    if (ops_ != nullptr) ops_->synchronize();
  }

 private:
  void count(std::size_t bytes) { count_.add_call(bytes, 0); }
  void copy(const Tensor& in, const Tensor& out) {
    check(in.bytes() == out.bytes(), "collective of one worker: in and out differ in size");
    count(in.bytes());
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
};

}  // namespace

std::unique_ptr<Comm> make_self_comm(Ops* ops) { return std::make_unique<SelfComm>(ops); }

}  // namespace pfc
