#include "coordinator/takeover/foreign_process.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

namespace pfc {
namespace {

bool has_variable(pid_t pid, const std::string& variable) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/environ", std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(file), {}};
  const std::string wanted = variable + '\0';
  return all.starts_with(wanted) || all.find('\0' + wanted) != std::string::npos;
}

}  // namespace

std::optional<ForeignProcess> ForeignProcess::find(pid_t pid, const std::string& name,
                                                   const std::string& value) {
  if (pid <= 0 || value.empty()) return {};
  Fd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (fd < 0) return {};
  ForeignProcess process(pid, std::move(fd));
  // The pidfd prevents reuse of the pid, so the environment is this process's.
  if (process.has_ended() || !has_variable(pid, name + "=" + value)) return {};
  return process;
}

bool ForeignProcess::wait(std::chrono::milliseconds limit) const {
  pollfd ended{.fd = fd_, .events = POLLIN, .revents = 0};
  return ::poll(&ended, 1, static_cast<int>(limit.count())) > 0;
}

void ForeignProcess::send(int signal) const {
  ::syscall(SYS_pidfd_send_signal, int{fd_}, signal, nullptr, 0);
}

std::filesystem::path ForeignProcess::working_folder() const {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/" + std::to_string(pid_) + "/cwd", ignored);
}

}  // namespace pfc
