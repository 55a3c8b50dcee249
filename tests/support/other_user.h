// Simulates a user without root's permissions.
#pragma once

#include <sys/fsuid.h>
#include <unistd.h>

namespace pfc::testing {

/// While this object lives, a process of root accesses files as the user nobody, in the calling
/// thread. For another user nothing changes, because permissions bind that user anyway.
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
