// Runs a program's event loop; an exception does not end it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <string>

namespace pfc {

/// Runs the loop until it is stopped or has nothing left to do. Reports each exception of a
/// handler to `failed` as one line, and continues. After kMostFailures exceptions,
/// rethrows the next one.
void run_event_loop(boost::asio::io_context& loop,
                    const std::function<void(const std::string& what)>& failed);

inline constexpr int kMostFailures = 1'000;

}  // namespace pfc
