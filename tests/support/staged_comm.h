// Collectives on the memory of any device: copies the data to the host, exchanges them there and
// copies them back.
#pragma once

#include <string>
#include <vector>

#include "comm/comm.h"
#include "kernels/ops.h"

namespace pfc::testing {

/// Does not own ops and comm. Every call waits for the device.
class StagedComm : public Comm {
 public:
  StagedComm(Ops& ops, Comm& comm) : ops_(ops), comm_(comm) {}

  [[nodiscard]] int rank() const override { return comm_.rank(); }
  [[nodiscard]] int size() const override { return comm_.size(); }
  [[nodiscard]] std::string description() const override { return comm_.description(); }
  [[nodiscard]] CommCounters counters() const override { return comm_.counters(); }

  void all_gather(const Tensor& in, const Tensor& out) override {
    Staged from(ops_, in), to(ops_, out);
    comm_.all_gather(from.on_host(), to.on_host());
    to.send_back();
  }
  void all_reduce_sum(const Tensor& in_out) override {
    Staged both(ops_, in_out);
    comm_.all_reduce_sum(both.on_host());
    both.send_back();
  }
  void reduce_scatter_sum(const Tensor& in, const Tensor& out) override {
    Staged from(ops_, in), to(ops_, out);
    comm_.reduce_scatter_sum(from.on_host(), to.on_host());
    to.send_back();
  }
  void all_to_all(const Tensor& in, const Tensor& out) override {
    Staged from(ops_, in), to(ops_, out);
    comm_.all_to_all(from.on_host(), to.on_host());
    to.send_back();
  }
  void broadcast(const Tensor& in_out, int root) override {
    Staged both(ops_, in_out);
    comm_.broadcast(both.on_host(), root);
    both.send_back();
  }
  void barrier() override { comm_.barrier(); }
  void abort(const std::string& why) override { comm_.abort(why); }

 private:
  class Staged {
   public:
    Staged(Ops& ops, const Tensor& device) : ops_(ops), device_(device), host_(device.bytes()) {
      ops.copy_to_host(host_.data(), device);
    }
    [[nodiscard]] Tensor on_host() { return {host_.data(), device_.dtype, device_.shape}; }
    void send_back() {
      ops_.copy_to_device(device_, host_.data());
      ops_.synchronize();
    }

   private:
    Ops& ops_;
    const Tensor device_;
    std::vector<std::byte> host_;
  };

  Ops& ops_;
  Comm& comm_;
};

}  // namespace pfc::testing
