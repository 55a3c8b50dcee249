#include "agent/describe/worker_describer.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <csignal>

#include "agent/describe/process_description.h"

namespace pfc {
namespace {

constexpr std::chrono::milliseconds kStackTime{500};  // for a worker to write its stack

}  // namespace

void WorkerDescriber::describe(pid_t pid, const Answer& answer) {
  const std::string text = describe_process(pid);
  if (!handles_signal(pid, SIGUSR1)) return answer(text);
  ::syscall(SYS_tgkill, pid, pid, SIGUSR1);  // to its main thread
  const auto timer = stacks_.emplace(stacks_.end(), loop_, kStackTime);
  timer->async_wait([this, answer, text, timer](const boost::system::error_code& error) {
    if (error) return;  // this object is destroyed
    stacks_.erase(timer);
    answer(text);
  });
}

}  // namespace pfc
