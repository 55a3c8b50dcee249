// Emulated NCCL: collectives between threads. Each rank's stream adds a copy of its input to the
// collective, waits for the inputs of the other ranks, and computes its own result in rank order.
#include <nccl.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/simt/memory.h"
#include "tests/support/simt/nccl_faults.h"

namespace pfc::simt {

enum class NcclOperation { kGather, kReduce, kScatter, kBroadcast, kAllToAll };

/// Arguments of one rank's call.
struct NcclCall {
  NcclOperation kind = NcclOperation::kGather;
  const void* send = nullptr;
  std::byte* receive = nullptr;
  std::size_t send_bytes = 0;
  int root = 0;
};

struct NcclMeeting {
  std::map<int, std::vector<std::byte>> inputs;  // key: rank; contains those that have arrived
  NcclCall first;
  std::size_t left = 0;
};

/// State shared by the ranks of one communicator.
struct NcclClique {
  int ranks = 0;
  int joined = 0;
  std::map<std::uint64_t, NcclMeeting> meetings;
  std::vector<NcclHandle*> members;
};

namespace {

constexpr int kPollsOfACall = 3;
constexpr std::chrono::seconds kPatience{100};     // timeout of a collective
constexpr std::chrono::seconds kAbortPatience{2};  // time that an abort waits for other work

struct Faults {
  bool connects_nobody = false;
  bool abort_hangs = false;
  bool peers_hear = true;
  std::string message;
  int aborts_behind_others = 0;
};

struct World {
  std::mutex mutex;
  std::condition_variable changed;
  // Guarded by mutex:
  std::map<std::string, std::shared_ptr<NcclClique>> cliques;  // key: unique id
  std::list<NcclHandle*> handles;
  Faults faults;
  std::uint64_t ids = 0;
};

World& world() {
  static World the;
  return the;
}

}  // namespace

/// All members are guarded by the world's mutex.
struct NcclHandle {
  std::shared_ptr<NcclClique> clique;
  int rank = 0;
  int device = 0;
  int polls = kPollsOfACall;     // polls left until the current call completes
  std::function<void()> launch;  // runs when the call completes
  bool connected = false;
  ncclResult_t error = ncclSuccess;
  std::string message;
  std::uint64_t calls = 0;
  // Like NCCL, allocates more memory when the first large message is sent.
  std::unique_ptr<void, decltype(&free_device)> small{nullptr, free_device};
  std::unique_ptr<void, decltype(&free_device)> large{nullptr, free_device};
  // Shared with enqueued work, which may run after the handle is destroyed.
  struct Waiting {
    bool aborted = false;
    int in_meetings = 0;
  };
  std::shared_ptr<Waiting> state = std::make_shared<Waiting>();
};

namespace {

std::vector<std::byte> sum_of(const NcclMeeting& meeting, std::size_t begin, std::size_t bytes) {
  std::vector<std::byte> sum(bytes);
  bool first = true;
  for (const auto& [rank, input] : meeting.inputs) {
    for (std::size_t i = 0; i < bytes; i += sizeof(float)) {
      float a = 0, b = 0;
      std::memcpy(&a, sum.data() + i, sizeof(a));
      std::memcpy(&b, input.data() + begin + i, sizeof(b));
      a = first ? b : a + b;
      std::memcpy(sum.data() + i, &a, sizeof(a));
    }
    first = false;
  }
  return sum;
}

void give_result(const NcclMeeting& meeting, const NcclCall& call, int rank) {
  const auto bytes = call.send_bytes;
  if (call.kind == NcclOperation::kGather) {
    std::byte* to = call.receive;
    for (const auto& [from, input] : meeting.inputs) {
      std::memcpy(to, input.data(), bytes);
      to += bytes;
    }
  } else if (call.kind == NcclOperation::kAllToAll) {
    const std::size_t block = bytes / meeting.inputs.size();
    std::byte* to = call.receive;
    for (const auto& [from, input] : meeting.inputs) {
      std::memcpy(to, input.data() + block * static_cast<std::size_t>(rank), block);
      to += block;
    }
  } else if (call.kind == NcclOperation::kBroadcast) {
    std::memcpy(call.receive, meeting.inputs.at(call.root).data(), bytes);
  } else {
    const std::size_t part =
        call.kind == NcclOperation::kReduce ? bytes : bytes / meeting.inputs.size();
    const std::size_t begin =
        call.kind == NcclOperation::kReduce ? 0 : part * static_cast<std::size_t>(rank);
    const std::vector<std::byte> sum = sum_of(meeting, begin, part);
    std::memcpy(call.receive, sum.data(), part);
  }
}

/// The enqueued work of a collective. As with NCCL, it never completes if the ranks' arguments
/// differ.
void take_part(const std::shared_ptr<NcclClique>& clique,
               const std::shared_ptr<NcclHandle::Waiting>& state, int rank, std::uint64_t number,
               const NcclCall& call) {
  World& w = world();
  std::unique_lock lock(w.mutex);
  if (state->aborted) return;
  NcclMeeting& meeting = clique->meetings[number];
  if (meeting.inputs.empty()) meeting.first = call;
  const bool same = meeting.first.kind == call.kind && meeting.first.send_bytes == call.send_bytes;
  if (same) {
    const auto* const begin = static_cast<const std::byte*>(call.send);
    meeting.inputs[rank].assign(begin, begin + call.send_bytes);
  }
  ++state->in_meetings;
  w.changed.notify_all();
  const auto all_here = [&] {
    return same && meeting.inputs.size() == static_cast<std::size_t>(clique->ranks);
  };
  const bool in_time =
      w.changed.wait_for(lock, kPatience, [&] { return state->aborted || all_here(); });
  --state->in_meetings;
  w.changed.notify_all();
  if (!in_time) throw std::logic_error("simt: a stuck collective was not aborted in time");
  if (state->aborted) return;
  give_result(meeting, call, rank);
  if (++meeting.left == meeting.inputs.size()) clique->meetings.erase(number);
}

ncclResult_t begin(ncclComm_t comm, const NcclCall& call, cudaStream_t stream) {
  if (!is_device(call.send) || !is_device(call.receive)) return ncclInvalidArgument;
  const std::lock_guard lock(world().mutex);
  if (comm->error != ncclSuccess) return comm->error;
  if (comm->polls > 0) return ncclInvalidUsage;  // the previous call has not completed
  constexpr std::size_t kSmallBytes = 64, kBuffer = std::size_t{1} << 20;
  auto& buffer = call.send_bytes <= kSmallBytes ? comm->small : comm->large;
  if (!buffer) buffer.reset(allocate_device(kBuffer));
  comm->polls = kPollsOfACall;
  comm->launch = [=, clique = comm->clique, state = comm->state, rank = comm->rank,
                  number = comm->calls++] {
    enqueue(stream, [=] { take_part(clique, state, rank, number, call); });
  };
  return ncclInProgress;
}

std::size_t size_of(ncclDataType_t type) { return type == ncclUint8 ? 1 : sizeof(float); }

/// The calls between ncclGroupStart() and ncclGroupEnd() of one thread.
struct NcclGroupCalls {
  bool open = false;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  std::size_t block = 0;
  std::vector<const std::byte*> sends, receives;
};

NcclGroupCalls& group() {
  static thread_local NcclGroupCalls calls;
  return calls;
}

ncclResult_t add_to_group(std::vector<const std::byte*>& blocks, const void* data,
                          std::size_t bytes, int peer, ncclComm_t comm, cudaStream_t stream) {
  NcclGroupCalls& calls = group();
  const bool first = calls.sends.empty() && calls.receives.empty();
  if (first) {
    calls.comm = comm;
    calls.stream = stream;
    calls.block = bytes;
  }
  const auto* const block = static_cast<const std::byte*>(data);
  const bool follows = blocks.empty() || block == blocks.back() + bytes;
  if (!calls.open || comm != calls.comm || stream != calls.stream || bytes != calls.block ||
      peer != static_cast<int>(blocks.size()) || !follows) {
    return ncclInvalidUsage;
  }
  blocks.push_back(block);
  return ncclSuccess;
}

void fail(NcclHandle& handle, ncclResult_t error, const std::string& message) {
  handle.error = error;
  handle.message = message;
}

// Stops the communicator's work, then frees its memory, which waits for all other work on the GPU.
void abort(NcclHandle* handle) {
  World& w = world();
  std::unique_lock lock(w.mutex);
  handle->state->aborted = true;
  std::erase(handle->clique->members, handle);
  w.handles.remove(handle);
  for (NcclHandle* peer : handle->clique->members) {
    if (w.faults.peers_hear && peer->error == ncclSuccess && handle->connected) {
      fail(*peer, ncclRemoteError, "connection closed by remote peer");
    }
  }
  w.changed.notify_all();
  const bool freed = w.changed.wait_for(lock, kAbortPatience, [&] {
    return std::ranges::none_of(w.handles, [&](const NcclHandle* other) {
      return other->device == handle->device && other->state->in_meetings > 0;
    });
  });
  if (!freed) ++w.faults.aborts_behind_others;
  w.changed.wait_for(lock, kPatience, [&] { return !w.faults.abort_hangs; });
  delete handle;
}

}  // namespace

void nccl_connects_nobody(const std::string& message) {
  const std::lock_guard lock(world().mutex);
  world().faults.connects_nobody = true;
  world().faults.message = message;
}

void nccl_loses_network(int rank, const std::string& message) {
  const std::lock_guard lock(world().mutex);
  for (NcclHandle* handle : world().handles) {
    if (handle->rank == rank) fail(*handle, ncclSystemError, message);
  }
}

void nccl_peers_hear_of_aborts(bool hear) {
  const std::lock_guard lock(world().mutex);
  world().faults.peers_hear = hear;
}

void nccl_abort_hangs() {
  const std::lock_guard lock(world().mutex);
  world().faults.abort_hangs = true;
}

void clear_nccl_faults() {
  const std::lock_guard lock(world().mutex);
  world().faults = {};
  world().changed.notify_all();
}

int nccl_aborts_behind_others() {
  const std::lock_guard lock(world().mutex);
  return world().faults.aborts_behind_others;
}

}  // namespace pfc::simt

using namespace pfc::simt;  // NOLINT: C functions at global scope follow

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInProgress:
      return "NCCL operation in progress";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    default:
      return "unknown result code";
  }
}

const char* ncclGetLastError(ncclComm_t comm) {
  const std::lock_guard lock(world().mutex);
  if (comm->error == ncclSuccess) return world().faults.message.c_str();
  return comm->message.c_str();
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const std::lock_guard lock(world().mutex);
  std::memset(id->internal, 0, sizeof(id->internal));
  const std::uint64_t number = ++world().ids;
  std::memcpy(id->internal + 8, &number, sizeof(number));  // after zeros, so it is not a C string
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (config->blocking != 0) return ncclInvalidArgument;
  int device = 0;
  cudaGetDevice(&device);
  const std::lock_guard lock(world().mutex);
  auto& clique = world().cliques[std::string(id.internal, sizeof(id.internal))];
  if (!clique) clique = std::make_shared<NcclClique>(NcclClique{.ranks = ranks});
  for (const NcclHandle* other : clique->members) {
    // NCCL rejects two ranks on one GPU.
    if (other->device == device || other->rank == rank) return ncclInvalidUsage;
  }
  auto* const handle = new NcclHandle{.clique = clique, .rank = rank, .device = device};
  clique->members.push_back(handle);
  ++clique->joined;
  world().handles.push_back(handle);
  *comm = handle;
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  std::function<void()> launch;
  {
    const std::lock_guard lock(world().mutex);
    *error = comm->error;
    if (comm->error != ncclSuccess) return ncclSuccess;
    if (!comm->connected) {
      if (comm->clique->joined == comm->clique->ranks && !world().faults.connects_nobody) {
        comm->connected = --comm->polls == 0;
      }
      *error = comm->connected ? ncclSuccess : ncclInProgress;
      return ncclSuccess;
    }
    if (comm->polls == 0) return ncclSuccess;
    *error = ncclInProgress;
    if (--comm->polls > 0) return ncclSuccess;
    *error = ncclSuccess;
    launch = std::exchange(comm->launch, nullptr);
  }
  if (launch) launch();
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  const std::lock_guard lock(world().mutex);
  if (comm->error != ncclSuccess) return comm->error;
  comm->polls = kPollsOfACall;
  return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  const std::lock_guard lock(world().mutex);
  if (comm->polls > 0) return ncclInvalidUsage;
  std::erase(comm->clique->members, comm);
  world().handles.remove(comm);
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  abort(comm);
  return ncclSuccess;
}

ncclResult_t ncclAllGather(const void* send, void* receive, std::size_t send_count,
                           ncclDataType_t type, ncclComm_t comm, cudaStream_t stream) {
  return begin(comm,
               {.kind = NcclOperation::kGather,
                .send = send,
                .receive = static_cast<std::byte*>(receive),
                .send_bytes = send_count * size_of(type)},
               stream);
}

ncclResult_t ncclAllReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t /*op*/, ncclComm_t comm, cudaStream_t stream) {
  return begin(comm,
               {.kind = NcclOperation::kReduce,
                .send = send,
                .receive = static_cast<std::byte*>(receive),
                .send_bytes = count * size_of(type)},
               stream);
}

ncclResult_t ncclReduceScatter(const void* send, void* receive, std::size_t receive_count,
                               ncclDataType_t type, ncclRedOp_t /*op*/, ncclComm_t comm,
                               cudaStream_t stream) {
  return begin(
      comm,
      {.kind = NcclOperation::kScatter,
       .send = send,
       .receive = static_cast<std::byte*>(receive),
       .send_bytes = receive_count * size_of(type) * static_cast<std::size_t>(comm->clique->ranks)},
      stream);
}

ncclResult_t ncclGroupStart() {
  if (group().open) return ncclInvalidUsage;
  group() = {.open = true};
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  const NcclGroupCalls calls = std::exchange(group(), {});
  if (!calls.open) return ncclInvalidUsage;
  if (calls.comm == nullptr) return ncclSuccess;
  const auto ranks = static_cast<std::size_t>(calls.comm->clique->ranks);
  if (calls.sends.size() != ranks || calls.receives.size() != ranks) return ncclInvalidUsage;
  return begin(calls.comm,
               {.kind = NcclOperation::kAllToAll,
                .send = calls.sends.front(),
                .receive = const_cast<std::byte*>(calls.receives.front()),
                .send_bytes = ranks * calls.block},
               calls.stream);
}

ncclResult_t ncclSend(const void* send, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return add_to_group(group().sends, send, count * size_of(type), peer, comm, stream);
}

ncclResult_t ncclRecv(void* receive, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return add_to_group(group().receives, receive, count * size_of(type), peer, comm, stream);
}

ncclResult_t ncclBroadcast(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return begin(comm,
               {.kind = NcclOperation::kBroadcast,
                .send = send,
                .receive = static_cast<std::byte*>(receive),
                .send_bytes = count * size_of(type),
                .root = root},
               stream);
}
