// All NCCL communicators of one worker, and the thread that monitors them.
//
// A collective that fails or hangs leaves a kernel running on the GPU forever, and the host waits
// for it. Only a second thread can detect this. It polls the events of unfinished collectives and
// NCCL's asynchronous errors, and aborts the communicators, which frees the GPU's streams. All
// communicators of a worker fail together, because an abort frees memory, and freeing waits for
// the kernels of the other communicators.
#pragma once

#include <nccl.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "comm/comm_options.h"
#include "comm/failures/collective_report.h"
#include "comm/key_value_store.h"
#include "common/clock.h"
#include "kernels/cuda/runtime/stream.h"

namespace pfc {

/// One communicator. Owned by the NcclGroup.
struct NcclLink {
  struct Outstanding {
    Collective collective;
    /// When it could start: it was enqueued, and the previous collective was done.
    TimePoint since;
    std::unique_ptr<CudaEvent> done;  ///< nullptr until it is in the stream
  };

  NcclLink(const CommOptions& options, KeyValueStore& store)
      : name(options.name), reports(store, options.name, options.membership) {}

  const std::string name;
  const CollectiveReports reports;
  std::vector<std::string> places;        ///< by rank: "127.0.0.1, GPU 1"
  std::atomic<std::uint64_t> pending{0};  ///< size of `outstanding`, readable by any thread
  // Guarded by the group's mutex:
  ncclComm_t handle = nullptr;  ///< nullptr after an abort or leave()
  Collective newest;
  std::uint64_t told = 0;  ///< number of the last collective that was written to the store
  std::deque<Outstanding> outstanding;
  std::vector<std::unique_ptr<CudaEvent>> spare_events;
};

class NcclGroup {
 public:
  /// options.timeout applies to one collective, from its earliest start. options.name is ignored.
  NcclGroup(int gpu, const CommOptions& options, KeyValueStore& store);
  NcclGroup(const NcclGroup&) = delete;
  ~NcclGroup();

  /// Connects a new communicator. Throws CommError (nccl_connect.h). REQUIRES: only the training
  /// thread calls this and the functions below, except abort().
  NcclLink& connect(const std::string& name);

  /// Enqueues one collective in the stream. Returns when NCCL has enqueued it.
  using Call = std::function<ncclResult_t(ncclComm_t)>;
  void enqueue(NcclLink& link, const char* kind, std::size_t bytes, cudaStream_t stream,
               const Call& call);

  /// Throws CommError when any communicator of the group has failed.
  void throw_if_failed();

  /// Fails all communicators with this error. Thread-safe. Does nothing after a failure.
  void abort(const std::string& why);

  /// Closes the link. If all collectives of the group are done, it closes together with its peers;
  /// otherwise the whole group is aborted.
  void leave(NcclLink& link);

 private:
  struct Failure {
    NcclLink* link = nullptr;
    Collective collective;
    // True: `collective` is unfinished. False: it is the link's last collective, and is done.
    bool waiting = false;
    bool ours = false;  // this worker is the cause: no other rank is to blame
    std::string what;   // the error without the ranks that caused it
  };

  void watch();
  std::optional<Failure> look();
  void observe(NcclLink& link, TimePoint now);
  [[nodiscard]] std::optional<Failure> stuck(NcclLink& link, TimePoint now);
  [[nodiscard]] Failure failure(NcclLink& link, const std::string& reason);
  void tell_peers_of_delay(std::unique_lock<std::mutex>& lock);
  void fail(Failure failure);
  void end_all(std::unique_lock<std::mutex>& lock);
  void await_cause(std::unique_lock<std::mutex>& lock);
  ncclResult_t poll(NcclLink& link);

  const int gpu_;
  const CommOptions options_;
  KeyValueStore& store_;

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_:
  std::deque<NcclLink> links_;      // a deque, because addresses must not change
  std::optional<Failure> failure_;  // the first failure
  std::vector<ncclComm_t> doomed_;  // handles to abort
  std::string cause_;               // complete error, once the ranks that caused it are known
  bool ended_ = false;

  std::thread thread_;
};

}  // namespace pfc
