#include "worker/capacity/machine_profile.h"

#include <cmath>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>

#include "common/error.h"
#include "common/files/atomic_file.h"
#include "common/files/regular_file.h"
#include "common/one_line.h"

namespace pfc {
namespace {

constexpr std::size_t kMostProfileBytes = 1 << 20;  // maximum size of a profile's file
constexpr int kProfileSchema = 2;

/// Visits each number of a profile with its path in the JSON, so that reading and writing agree.
template <typename Profile, typename F>
void each_number(Profile& p, const F& f) {
  f("/seconds_per_flop", p.roofline.per_flop);
  f("/seconds_per_byte", p.roofline.per_byte);
  f("/seconds_per_op", p.roofline.per_op);
  f("/measured/forward", p.forward);
  f("/measured/backward", p.backward);
  f("/measured/head", p.head);
  f("/local/latency_seconds", p.local.latency);
  f("/local/seconds_per_byte", p.local.per_byte);
  f("/draw_seconds_per_class", p.draw_seconds);
  f("/decode_seconds_per_image", p.decode_seconds);
  f("/step_seconds", p.step_seconds);
}

const nlohmann::json& at(const nlohmann::json& stored, const std::string& key) {
  const nlohmann::json::json_pointer pointer(key);
  if (!stored.contains(pointer)) throw InputError("there is no '" + key + "'");
  return stored.at(pointer);
}

template <typename T>
T value(const nlohmann::json& profile, const std::string& key, bool right, const char* expected) {
  if (!right) {
    const std::string found =
        at(profile, key).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    throw InputError(key + ": found " + one_line(found, 60) + ", expected " + expected);
  }
  return at(profile, key).get<T>();
}

std::string text(const nlohmann::json& stored, const std::string& key) {
  return value<std::string>(stored, key, at(stored, key).is_string(), "a text");
}

double number(const nlohmann::json& stored, const std::string& key) {
  const nlohmann::json& found = at(stored, key);
  const bool right = found.is_number() && std::isfinite(found.get<double>()) &&
                     found.get<double>() >= 0 && found.get<double>() < 1e6;
  return value<double>(stored, key, right, "a number of seconds, at least 0");
}

std::uint64_t count(const nlohmann::json& stored, const std::string& key, std::uint64_t least,
                    std::uint64_t most) {
  const nlohmann::json& found = at(stored, key);
  const bool right = found.is_number_unsigned() && found.get<std::uint64_t>() >= least &&
                     found.get<std::uint64_t>() <= most;
  return value<std::uint64_t>(stored, key, right, "a whole number that is possible for a machine");
}

MachineProfile from_json(const nlohmann::json& stored) {
  if (const std::uint64_t schema = count(stored, "/schema", 0, UINT64_MAX);
      schema != kProfileSchema) {
    throw InputError("/schema: found " + std::to_string(schema) + ", expected " +
                     std::to_string(kProfileSchema));
  }
  MachineProfile profile{
      .name = text(stored, "/name"),
      .source = text(stored, "/source"),
      .gpu = value<bool>(stored, "/gpu", at(stored, "/gpu").is_boolean(), "true or false"),
      .cores = static_cast<int>(count(stored, "/cores", 1, 1 << 20)),
      .roofline = {},
      .local = {},
      .memory_bytes = count(stored, "/memory_bytes", 0, UINT64_MAX)};
  each_number(profile, [&](const std::string& key, double& n) { n = number(stored, key); });
  return profile;
}

}  // namespace

nlohmann::json to_json(const MachineProfile& profile) {
  nlohmann::json stored{{"schema", kProfileSchema}, {"name", profile.name},
                        {"source", profile.source}, {"gpu", profile.gpu},
                        {"cores", profile.cores},   {"memory_bytes", profile.memory_bytes}};
  each_number(profile, [&](const std::string& key, const double& n) {
    stored[nlohmann::json::json_pointer(key)] = n;
  });
  return stored;
}

MachineProfile read_profile(const std::filesystem::path& file) {
  const std::string content = read_text(file, kMostProfileBytes);
  try {
    return from_json(nlohmann::json::parse(content));
  } catch (const nlohmann::json::exception& error) {
    throw InputError(file.string() + ": not valid JSON: " + one_line(error.what(), 200));
  } catch (const InputError& error) {
    throw InputError(file.string() + ": not a profile of pfcctl plan: " + error.what());
  }
}

void write_profile(const MachineProfile& profile, const std::filesystem::path& file) {
  write_file_atomically(file, to_json(profile).dump(2) + "\n");
}

}  // namespace pfc
