// Answers a request for a piece of a worker's log.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>

#include "agent/logs/worker_logs.h"
#include "proto/coordinator.pb.h"

namespace pfc {

/// `logs`: null where the agent keeps none. `send` gets the answer once, on the loop: a piece of at
/// most 256 KiB, or what is wrong.
void reply_with_log(WorkerLogs* logs, const proto::ReadLog& wanted, boost::asio::io_context& loop,
                    std::function<void(proto::AgentMessage)> send);

}  // namespace pfc
