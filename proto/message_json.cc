#include "proto/message_json.h"

#include "common/error.h"

namespace pfc {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using Json = nlohmann::ordered_json;

/// Returns the value of a field; for a repeated field its element `i`.
Json value_of(const Message& message, const FieldDescriptor* field, int i) {
  const auto& all = *message.GetReflection();
  const bool many = field->is_repeated();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return many ? all.GetRepeatedInt32(message, field, i) : all.GetInt32(message, field);
    case FieldDescriptor::CPPTYPE_INT64:
      return many ? all.GetRepeatedInt64(message, field, i) : all.GetInt64(message, field);
    case FieldDescriptor::CPPTYPE_UINT32:
      return many ? all.GetRepeatedUInt32(message, field, i) : all.GetUInt32(message, field);
    case FieldDescriptor::CPPTYPE_UINT64:
      return many ? all.GetRepeatedUInt64(message, field, i) : all.GetUInt64(message, field);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return many ? all.GetRepeatedDouble(message, field, i) : all.GetDouble(message, field);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return many ? all.GetRepeatedFloat(message, field, i) : all.GetFloat(message, field);
    case FieldDescriptor::CPPTYPE_BOOL:
      return many ? all.GetRepeatedBool(message, field, i) : all.GetBool(message, field);
    case FieldDescriptor::CPPTYPE_ENUM:
      return (many ? all.GetRepeatedEnum(message, field, i) : all.GetEnum(message, field))->name();
    case FieldDescriptor::CPPTYPE_STRING:
      return many ? all.GetRepeatedString(message, field, i) : all.GetString(message, field);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      break;
  }
  return message_json(many ? all.GetRepeatedMessage(message, field, i)
                           : all.GetMessage(message, field));
}

Json field_json(const Message& message, const FieldDescriptor* field) {
  if (!field->is_repeated()) return value_of(message, field, 0);
  Json array = Json::array();
  for (int i = 0; i < message.GetReflection()->FieldSize(message, field); ++i) {
    array.push_back(value_of(message, field, i));
  }
  return array;
}

Json worker_json(const proto::WorkerStatus& worker) {
  Json json = message_json(worker, {"rank", "host", "slot", "pid", "state", "silent_seconds",
                                    "stuck_seconds", "slowness", "own_step_seconds"});
  json.update(message_json(
      worker.progress(),
      {"step", "phase", "loss", "samples_per_second", "data_wait_seconds", "resident_bytes",
       "gpu_memory_bytes", "device", "skipped_images", "images_seen", "resumed_images"}));
  json["comm_bytes"] = Json::object();
  json["comm_calls"] = Json::object();
  for (const proto::CommTotal& total : worker.progress().comm()) {
    json["comm_bytes"][total.purpose()] = total.sent_bytes();
    json["comm_calls"][total.purpose()] = total.calls();
  }
  return json;
}

}  // namespace

Json message_json(const Message& message, std::initializer_list<const char*> fields) {
  const auto& descriptor = *message.GetDescriptor();
  Json json = Json::object();
  for (const char* name : fields) {
    const FieldDescriptor* const field = descriptor.FindFieldByName(name);
    check(field != nullptr, "message_json: no such field");
    json[name] = field_json(message, field);
  }
  if (fields.size() > 0) return json;
  for (int i = 0; i < descriptor.field_count(); ++i) {
    json[descriptor.field(i)->name()] = field_json(message, descriptor.field(i));
  }
  return json;
}

Json to_json(const proto::StatusReply& status) {
  Json json = message_json(status, {"state",          "reason",         "job_id",
                                    "job_file",       "job_name",       "output",
                                    "jobs_waiting",   "generation",     "restarts",
                                    "takeovers",      "taken_over_ms",  "takeover_seconds",
                                    "max_restarts",   "restarts_left",  "last_restart",
                                    "uptime_seconds", "step",           "total_steps",
                                    "epoch",          "loss",           "samples_per_second",
                                    "images_seen",    "images_lost",    "remaining_seconds",
                                    "world_size",     "wanted_workers", "min_workers",
                                    "why_smaller",    "idle",           "left_out",
                                    "network",        "hosts",          "version"});
  if (status.remaining_seconds() < 0) json["remaining_seconds"] = nullptr;
  for (Json& each : json["left_out"]) {
    if (each["slot"] < 0) each["slot"] = nullptr;
  }
  json["workers"] = Json::array();
  for (const proto::WorkerStatus& each : status.workers()) {
    json["workers"].push_back(worker_json(each));
  }
  return json;
}

}  // namespace pfc
