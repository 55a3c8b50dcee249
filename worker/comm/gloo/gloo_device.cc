#include "worker/comm/gloo/gloo_device.h"

#include <gloo/transport/tcp/device.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "common/error.h"

namespace pfc {
namespace {

/// 0, or why nothing can listen there.
int try_bind(const addrinfo& candidate) {
  const int fd = ::socket(candidate.ai_family, candidate.ai_socktype | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  const int error = ::bind(fd, candidate.ai_addr, candidate.ai_addrlen) == 0 ? 0 : errno;
  ::close(fd);
  return error;
}

}  // namespace

// Gloo could look the address up itself, but leaks memory when it is not one of this machine.
std::shared_ptr<gloo::transport::Device> make_gloo_device(const std::string& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int status = ::getaddrinfo(address.c_str(), nullptr, &hints, &found);
  if (status != 0) throw InputError(address + ": " + ::gai_strerror(status));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(found, &::freeaddrinfo);

  int error = EADDRNOTAVAIL;
  for (const addrinfo* a = list.get(); a != nullptr; a = a->ai_next) {
    error = try_bind(*a);
    if (error != 0) continue;
    gloo::transport::tcp::attr attr(address.c_str());
    attr.ai_family = a->ai_family;
    attr.ai_socktype = a->ai_socktype;
    attr.ai_protocol = a->ai_protocol;
    std::memcpy(&attr.ai_addr, a->ai_addr, a->ai_addrlen);
    attr.ai_addrlen = static_cast<int>(a->ai_addrlen);
    return std::make_shared<gloo::transport::tcp::Device>(attr);
  }
  throw InputError(address + ": " + std::generic_category().message(error));
}

}  // namespace pfc
