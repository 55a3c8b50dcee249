// Ranks that share one GPU. NCCL rejects two ranks of one host on the same GPU, so each rank claims
// to be a separate host. They then communicate over sockets, as hosts do.
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>

#include "comm/nccl/device_comms.h"
#include "kernels/cuda/cuda_device.h"
#include "tests/comm/processes.h"
#include "tests/comm/ranks.h"

namespace pfc {
namespace {

std::unique_ptr<Ops> gpu_of_rank(int rank) {
  setenv("NCCL_HOSTID", ("host-of-rank-" + std::to_string(rank)).c_str(), 1);
  setenv("NCCL_SOCKET_IFNAME", "lo", 0);
  setenv("NCCL_MAX_NCHANNELS", "1", 0);
  return make_cuda_ops({});
}

// Asks a separate process, because CUDA does not survive a fork (on_processes()).
std::string why_no_gpu() {
  static const std::string answer = [] {
    int ends[2];
    check(pipe(ends) == 0, "pipe");
    testing::on_processes(1, [&](int) {
      const DeviceInfo gpu = cuda_devices().front();
      const std::string text = gpu.available ? "" : "no GPU: " + gpu.detail;
      check(write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()), "write");
    });
    close(ends[1]);
    std::array<char, 4096> text{};
    const ssize_t size = read(ends[0], text.data(), text.size());
    close(ends[0]);
    check(size >= 0, "read");
    return std::string(text.data(), static_cast<std::size_t>(size));
  }();
  return answer;
}

}  // namespace

std::vector<Transport> transports() {
  return {{.name = "Nccl",
           .make_ops = gpu_of_rank,
           .make_comms =
               [](Ops& ops, const CommOptions& options, KeyValueStore& store) {
                 return make_nccl_comms(ops, options, store);  // even for one rank
               },
           .processes = true,
           .why_not = why_no_gpu}};
}

// The ranks take turns on the GPU, so more ranks would not test more.
std::vector<int> world_sizes() { return {1, 2, 4}; }

}  // namespace pfc
