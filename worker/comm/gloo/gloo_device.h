// Where Gloo listens for this worker's peers.
#pragma once

#include <gloo/transport/device.h>

#include <memory>
#include <string>

namespace pfc {

/// TCP at an address (or a name) of this machine. Throws InputError saying what is wrong with it.
std::shared_ptr<gloo::transport::Device> make_gloo_device(const std::string& address);

}  // namespace pfc
