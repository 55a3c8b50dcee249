#include "comm/nccl/nccl_call.h"

#include <future>
#include <memory>
#include <thread>

namespace pfc {

std::string nccl_error_text(ncclResult_t result, ncclComm_t comm) {
  std::string text = ncclGetErrorString(result);
  const char* const last = comm == nullptr ? nullptr : ncclGetLastError(comm);
  if (last != nullptr && *last != '\0') text += std::string(": ") + last;
  while (text.ends_with('\n') || text.ends_with(' ')) text.pop_back();
  return text;
}

ncclResult_t nccl_state(ncclComm_t comm) {
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = ncclCommGetAsyncError(comm, &state);
  return asked == ncclSuccess ? state : asked;
}

ncclResult_t nccl_all_to_all(const void* send, void* receive, std::size_t bytes, int ranks,
                             ncclComm_t comm, cudaStream_t stream) {
  const auto failed = [](ncclResult_t r) { return r != ncclSuccess && r != ncclInProgress; };
  ncclResult_t state = ncclGroupStart();
  for (int rank = 0; rank < ranks && !failed(state); ++rank) {
    const std::size_t offset = static_cast<std::size_t>(rank) * bytes;
    state = ncclSend(static_cast<const std::byte*>(send) + offset, bytes, ncclUint8, rank, comm,
                     stream);
    if (failed(state)) break;
    state =
        ncclRecv(static_cast<std::byte*>(receive) + offset, bytes, ncclUint8, rank, comm, stream);
  }
  const ncclResult_t end = ncclGroupEnd();  // needed after a failure too
  return failed(state) ? state : end;
}

// Most calls finish within 50 us, in a thread that NCCL starts for each call.
void Pause::operator()() {
  constexpr int kSoon = 1000;
  if (++calls_ < kSoon) {
    std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

bool nccl_abort(const std::vector<ncclComm_t>& comms, int gpu, std::chrono::milliseconds patience) {
  if (comms.empty()) return true;
  auto ended = std::make_shared<std::promise<void>>();
  const std::future<void> end = ended->get_future();
  std::thread thread([comms, gpu, ended] {
    // Not as a group: in a group NCCL waits for each communicator before it aborts the next.
    std::vector<std::thread> aborts;
    aborts.reserve(comms.size());
    for (ncclComm_t comm : comms) {
      aborts.emplace_back([comm, gpu] {
        static_cast<void>(cudaSetDevice(gpu));
        static_cast<void>(ncclCommAbort(comm));
      });
    }
    for (std::thread& abort : aborts) abort.join();
    ended->set_value();
  });
  const bool in_time = end.wait_for(patience) == std::future_status::ready;
  if (in_time) {
    thread.join();
  } else {
    thread.detach();
  }
  return in_time;
}

void nccl_finish(ncclComm_t comm, int gpu, std::chrono::milliseconds patience) {
  const TimePoint deadline = Clock::now() + patience;
  ncclResult_t state = ncclCommFinalize(comm);
  for (Pause pause; state == ncclInProgress && Clock::now() < deadline; pause()) {
    state = nccl_state(comm);
  }
  if (state == ncclSuccess) {
    static_cast<void>(ncclCommDestroy(comm));
  } else {
    nccl_abort({comm}, gpu, patience);
  }
}

}  // namespace pfc
