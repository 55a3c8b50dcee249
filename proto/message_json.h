// Messages as JSON.
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>

#include "proto/coordinator.pb.h"

namespace pfc {

/// Returns these fields of the message, in this order; all if none is named. Keys are the fields'
/// names in the .proto file. Numbers stay numbers, unlike in protobuf's own JSON.
/// REQUIRES: the message has these fields; none is a map.
nlohmann::ordered_json message_json(const google::protobuf::Message& message,
                                    std::initializer_list<const char*> fields = {});

/// Returns an array of message_json().
template <typename Messages>
nlohmann::ordered_json messages_json(const Messages& messages,
                                     std::initializer_list<const char*> fields = {}) {
  auto array = nlohmann::ordered_json::array();
  for (const auto& message : messages) array.push_back(message_json(message, fields));
  return array;
}

/// Returns the status for pfcctl status --json and /status.json. A loss that is not finite and an
/// unknown remaining time are null.
nlohmann::ordered_json to_json(const proto::StatusReply& status);

}  // namespace pfc
