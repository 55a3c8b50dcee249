// Process-wide settings for gRPC.
#pragma once

namespace pfc {

/// Silences the logs of gRPC and Protobuf. gRPC's log is meant for its developers: pfc's programs
/// report errors themselves. A GRPC_VERBOSITY that is already set is respected. Protobuf logs each
/// message with text that is not UTF-8, so any client could flood the coordinator's output.
///
/// Also turns off Abseil's deadlock detection, which Debian builds in. It takes half of the
/// coordinator's time per join (docs/benchmarks/coordinator.md).
///
/// make_channel() and the coordinator's service call this. Further calls have no effect.
void set_up_grpc();

}  // namespace pfc
