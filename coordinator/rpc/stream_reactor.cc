#include "coordinator/rpc/stream_reactor.h"

namespace pfc {

grpc::Status to_status(const Refusal& refusal) {
  switch (refusal.kind) {
    case Refusal::Kind::kOldGeneration:
      return {grpc::StatusCode::FAILED_PRECONDITION, refusal.message};
    case Refusal::Kind::kInvalid:
      return {grpc::StatusCode::INVALID_ARGUMENT, refusal.message};
    case Refusal::Kind::kTimeout:
      return {grpc::StatusCode::DEADLINE_EXCEEDED, refusal.message};
    case Refusal::Kind::kUnavailable:
      return {grpc::StatusCode::UNAVAILABLE, refusal.message};
    case Refusal::Kind::kDenied:
      return {grpc::StatusCode::PERMISSION_DENIED, refusal.message};
    case Refusal::Kind::kInternal:
      break;
  }
  return {grpc::StatusCode::INTERNAL, refusal.message};
}

}  // namespace pfc
