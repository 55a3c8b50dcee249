// What a program sets before its first gRPC channel or server.
#pragma once

namespace pfc {

/// Silences gRPC's own log, which is for its developers: errors are told as messages of the
/// program. A GRPC_VERBOSITY that is set stands. Protobuf's log likewise, which has a line for
/// every message with text that is no UTF-8, so that any client could fill the coordinator's
/// output.
///
/// Also turns off the search for cycles among the locks that gRPC takes. Debian's Abseil is built
/// with it, and it takes half of the time that a join costs the coordinator
/// (docs/benchmarks/coordinator.md).
///
/// make_channel() and the coordinator's service call this; a second call changes nothing.
void set_up_grpc();

}  // namespace pfc
