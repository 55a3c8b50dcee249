// Who is at the other side of a connection.
#pragma once

#include <string>

#include "security/identity.h"

namespace pfc {

/// The other side of a call, or of a request for a page.
struct Caller {
  std::string peer;  ///< address and port: "ipv4:10.0.0.2:4711"
  Identity identity;
  std::string serial = {};  ///< of its certificate, or the id of its token
};

}  // namespace pfc
