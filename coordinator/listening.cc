#include "coordinator/listening.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace pfc {

std::string cannot_listen(const std::string& address, int port, int error,
                          const std::string& option) {
  const std::string where = "port " + std::to_string(port) + " on " + address;
  if (error == EADDRINUSE) {
    return where + " is in use, perhaps by another pfc-coordinator; choose another with " + option +
           ", or " + option + " 0 for any free one";
  }
  const std::string why =
      error == 0 ? "no reason is known" : std::generic_category().message(error);
  std::string what = where + " cannot be listened on: " + why;
  if (error == EMFILE) what += "; raise the limit of open files (ulimit -n)";
  if (error == EACCES) what += "; choose a port of 1024 or more with " + option;
  return what;
}

int try_to_listen(const std::string& address, int port) {
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(static_cast<std::uint16_t>(port));
  if (::inet_pton(AF_INET, address.c_str(), &where.sin_addr) != 1) return EINVAL;
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  const int reuse = 1;  // as gRPC does: only past TIME_WAIT, on Linux
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse);
  const bool works = ::bind(fd, reinterpret_cast<const sockaddr*>(&where), sizeof where) == 0 &&
                     ::listen(fd, 1) == 0;
  const int error = works ? 0 : errno;
  ::close(fd);
  return error;
}

}  // namespace pfc
