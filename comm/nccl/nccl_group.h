// All NCCL communicators of one worker, and the thread that watches over them.
//
// A collective that fails or hangs leaves a kernel that runs forever on the GPU, and the host waits
// for it. Only a second thread can find that out: it polls the events of unfinished collectives and
// NCCL's asynchronous errors, and aborts the communicators, which frees the GPU's streams. All
// communicators of a worker fail together, because an abort frees memory, and that waits for the
// kernels of the other communicators.
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

#include "comm/collective_report.h"
#include "comm/comm_options.h"
#include "comm/key_value_store.h"
#include "common/clock.h"
#include "kernels/cuda/runtime/stream.h"

namespace pfc {

/// One communicator. Owned by the NcclGroup.
struct NcclLink {
  struct Outstanding {
    Collective collective;
    TimePoint since;  ///< when it could begin: it was enqueued, and the one before was done
    std::unique_ptr<CudaEvent> done;  ///< null until it is in the stream
  };

  NcclLink(const CommOptions& options, KeyValueStore& store)
      : name(options.name), reports(store, options.name, options.membership) {}

  const std::string name;
  const CollectiveReports reports;
  std::vector<std::string> places;        ///< "127.0.0.1, GPU 1", by rank
  std::atomic<std::uint64_t> pending{0};  ///< the size of `outstanding`, for any thread
  // Guarded by the group's mutex:
  ncclComm_t handle = nullptr;  ///< null once it is aborted or has left
  Collective newest;
  std::uint64_t told = 0;  ///< number of the last collective that was written for the peers
  std::deque<Outstanding> outstanding;
  std::vector<std::unique_ptr<CudaEvent>> spare_events;
};

class NcclGroup {
 public:
  /// options.timeout is that of one collective, from the moment when it could begin; options.name
  /// is not used.
  NcclGroup(int gpu, const CommOptions& options, KeyValueStore& store);
  NcclGroup(const NcclGroup&) = delete;
  ~NcclGroup();

  /// REQUIRES: the training thread calls this and the functions below. Throws CommError
  /// (nccl_connect.h).
  NcclLink& connect(const std::string& name);

  /// Enqueues one collective in the stream, and returns when NCCL has enqueued it.
  using Call = std::function<ncclResult_t(ncclComm_t)>;
  void enqueue(NcclLink& link, const char* kind, std::size_t bytes, cudaStream_t stream,
               const Call& call);

  /// Throws CommError when any communicator of the group has failed.
  void throw_if_failed();

  /// Fails all communicators with this error. Thread-safe; nothing once the group has failed.
  void abort(const std::string& why);

  /// Ends the link. When all collectives of the group are done, it ends together with its peers;
  /// otherwise the whole group is aborted.
  void leave(NcclLink& link);

 private:
  struct Failure {
    NcclLink* link = nullptr;
    Collective collective;
    bool waiting = false;  // the collective is not done; otherwise it is the last one, and done
    bool ours = false;     // this worker ends it: no other rank is to blame
    std::string what;      // the error without the ranks that caused it
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
  std::deque<NcclLink> links_;      // addresses stay
  std::optional<Failure> failure_;  // the first
  std::vector<ncclComm_t> doomed_;  // handles to abort
  std::string cause_;               // the whole error, once the ranks that caused it are known
  bool ended_ = false;

  std::thread thread_;
};

}  // namespace pfc
