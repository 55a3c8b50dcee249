#include "agent/logs/log_reply.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace pfc {
namespace {

constexpr std::int64_t kLongestLogPiece = 256 << 10;

}  // namespace

void reply_with_log(WorkerLogs* logs, const proto::ReadLog& wanted, boost::asio::io_context& loop,
                    std::function<void(proto::AgentMessage)> send) {
  proto::AgentMessage reply;
  reply.mutable_log_chunk()->set_request(wanted.request());
  if (logs == nullptr) {
    reply.mutable_log_chunk()->set_problem(
        "its agent stores no logs; start pfc-agent with --log-dir FOLDER");
    return send(std::move(reply));
  }
  const auto most = std::clamp<std::int64_t>(wanted.bytes(), 0, kLongestLogPiece);
  logs->read(wanted.job_id(), wanted.rank(), wanted.from().part(), wanted.from().offset(),
             static_cast<std::size_t>(most),
             [&loop, send = std::move(send), reply](const LogPiece& piece,
                                                    const std::string& problem) mutable {
               proto::LogChunk& chunk = *reply.mutable_log_chunk();
               chunk.set_text(piece.text);
               chunk.mutable_next()->set_part(piece.part);
               chunk.mutable_next()->set_offset(piece.offset);
               chunk.set_skipped(piece.skipped);
               chunk.set_problem(problem);
               boost::asio::post(loop, [send, reply] { send(reply); });
             });
}

}  // namespace pfc
