// Identity of a caller.
#pragma once

#include <string>

#include "security/identity.h"

namespace pfc {

/// The sender of a call or of a request for a page.
struct Caller {
  std::string peer;  ///< address and port: "ipv4:10.0.0.2:4711"
  Identity identity;
  std::string serial = {};  ///< serial number of the certificate, or id of the token
};

}  // namespace pfc
