// Ranks as threads of one process, connected over loopback or each with an emulated GPU, or as
// processes that share a GPU.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "comm/make_comm.h"
#include "comm/memory_store.h"
#include "kernels/owned_tensor.h"
#include "tests/comm/processes.h"
#include "tests/support/folder_store.h"
#include "tests/support/temporary_folder.h"

namespace pfc {

inline CommOptions options_of(int rank, int world_size, const std::string& name = "test") {
  CommOptions options;
  options.membership = {.rank = rank, .world_size = world_size};
  options.name = name;
  options.connect_timeout = std::chrono::minutes(2);
  options.timeout = std::chrono::minutes(10);
  return options;
}

/// Runs `work` on one thread per rank and joins them. Rethrows the first exception.
inline void on_threads(int world_size, const std::function<void(int rank)>& work) {
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(world_size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world_size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        work(rank);
      } catch (...) {
        errors[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

/// A kind of device, and the way its workers communicate.
struct Transport {
  std::string name;
  std::function<std::unique_ptr<Ops>(int rank)> make_ops;
  std::function<DeviceComms(Ops&, const CommOptions&, KeyValueStore&)> make_comms =
      [](Ops& ops, const CommOptions& options, KeyValueStore& store) {
        return make_device_comms(ops, options, &store);
      };
  bool processes = false;  ///< true: a rank is a process; false: a thread
  /// If the result is not empty, the tests are skipped with this reason.
  std::function<std::string()> why_not = [] { return std::string(); };

  friend void PrintTo(const Transport& transport, std::ostream* out) { *out << transport.name; }
};

/// In comm_test: Gloo, and NCCL if the build has its emulation. In comm_gpu_test: NCCL.
std::vector<Transport> transports();
/// Returns the numbers of ranks for which all tests run. Some of them divide the data, others do
/// not.
std::vector<int> world_sizes();
const Transport& gloo();

/// One rank, and its device.
struct RankOnDevice {
  Ops& ops;
  Comm& comm;  ///< the communicator of the step
  Comm& gradients;
};

inline void on_devices(const Transport& transport, int world_size,
                       const std::function<void(RankOnDevice)>& work) {
  const auto run = [&](int rank, KeyValueStore& store) {
    const auto ops = transport.make_ops(rank);
    const DeviceComms comms = transport.make_comms(*ops, options_of(rank, world_size), store);
    work({*ops, *comms.step, *comms.gradients});
  };
  if (!transport.processes) {
    MemoryStore store;
    return on_threads(world_size, [&](int rank) { run(rank, store); });
  }
  const TemporaryFolder folder;
  testing::FolderStore store(folder.path());
  testing::on_processes(world_size, [&](int rank) { run(rank, store); });
}

/// Values in device memory, as used by collectives.
template <typename T>
class OnDevice {
 public:
  OnDevice(Ops& ops, const std::vector<T>& values, DType type = DType::kFloat32)
      : ops_(ops), tensor_(ops, {static_cast<std::int64_t>(values.size())}, type) {
    check(size_of(type) == sizeof(T), "OnDevice: type");
    if (!values.empty()) ops.copy_to_device(tensor_, values.data());
  }
  operator const Tensor&() const { return tensor_; }  // NOLINT(google-explicit-constructor)
  [[nodiscard]] std::vector<T> values() const {
    std::vector<T> host(static_cast<std::size_t>(tensor_->elements()));
    if (!host.empty()) ops_.copy_to_host(host.data(), tensor_);
    return host;
  }

 private:
  Ops& ops_;
  OwnedTensor tensor_;
};
using Floats = OnDevice<float>;

}  // namespace pfc
