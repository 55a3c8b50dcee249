// Simulates a user without root's permissions.
#pragma once

#include <sys/fsuid.h>
#include <unistd.h>

namespace pfc::testing {

/// While it lives, the calling thread accesses files as the user nobody, if it is root's. Another
/// user is bound by permissions anyway.
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
