// Why a port cannot be listened on.
#pragma once

#include <string>

namespace pfc {

/// A message for an address that cannot be listened on for the reason `error`, an errno: which
/// port, why, and, where another program has it, which `option` chooses another.
std::string cannot_listen(const std::string& address, int port, int error,
                          const std::string& option);

/// The errno of an attempt to listen there; 0: it would work now.
int try_to_listen(const std::string& address, int port);

}  // namespace pfc
