// Runs a program's event loop, which one exception does not end.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <string>

namespace pfc {

/// Runs the loop until it is stopped or has nothing left to do. What a handler throws is told to
/// `failed` in one line, and the loop goes on. After kMostFailures of them the loop is taken for
/// broken, and the last exception is thrown.
void run_event_loop(boost::asio::io_context& loop,
                    const std::function<void(const std::string& what)>& failed);

inline constexpr int kMostFailures = 1'000;

}  // namespace pfc
