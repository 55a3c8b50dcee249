// Replies to a request for a piece of a worker's log.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>

#include "agent/logs/worker_logs.h"
#include "proto/coordinator.pb.h"

namespace pfc {

/// `logs` is null if the agent stores none. Calls `send` once, on the loop, with up to 256 KiB of
/// text or with the problem.
void reply_with_log(WorkerLogs* logs, const proto::ReadLog& wanted, boost::asio::io_context& loop,
                    std::function<void(proto::AgentMessage)> send);

}  // namespace pfc
