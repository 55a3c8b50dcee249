// A user who may not read everything, as root may.
#pragma once

#include <sys/fsuid.h>
#include <unistd.h>

namespace pfc::testing {

/// While it lives, files are for the calling thread as for the user nobody, where it is root's. A
/// user other than root is bound by permissions anyway.
class OtherUser {
 public:
  OtherUser() {
    if (::geteuid() == 0) ::setfsuid(65534);
  }
  ~OtherUser() { ::setfsuid(::geteuid()); }
  OtherUser(const OtherUser&) = delete;
  OtherUser& operator=(const OtherUser&) = delete;
};

}  // namespace pfc::testing
