#include "security/identity.h"

#include <array>
#include <utility>

namespace pfc {
namespace {

constexpr std::array<std::pair<Role, std::string_view>, 7> kNames{{{Role::kNobody, "nobody"},
                                                                   {Role::kReader, "reader"},
                                                                   {Role::kSubmitter, "submitter"},
                                                                   {Role::kWorker, "worker"},
                                                                   {Role::kAgent, "agent"},
                                                                   {Role::kAdmin, "admin"},
                                                                   {Role::kServer, "server"}}};

constexpr std::string_view kScheme = "pfc:";

/// Removes the text up to the next colon into `field`. Returns false if there is no colon.
bool take_field(std::string_view& rest, std::string& field) {
  const std::size_t colon = rest.find(':');
  if (colon == std::string_view::npos) return false;
  field = rest.substr(0, colon);
  rest.remove_prefix(colon + 1);
  return true;
}

}  // namespace

std::string_view name_of(Role role) {
  for (const auto& [each, name] : kNames) {
    if (each == role) return name;
  }
  return "unknown";
}

Role role_named(std::string_view name) {
  for (const auto& [role, each] : kNames) {
    if (each == name) return role;
  }
  return Role::kNobody;
}

std::string to_uri(const Identity& identity) {
  std::string uri(kScheme);
  uri.append(name_of(identity.role)).append(":").append(identity.job).append(":");
  return uri.append(identity.agent).append(":").append(identity.host);
}

std::optional<Identity> identity_from_uri(std::string_view uri) {
  if (!uri.starts_with(kScheme)) return {};
  uri.remove_prefix(kScheme.size());
  Identity identity;
  std::string role;
  if (!take_field(uri, role) || !take_field(uri, identity.job) ||
      !take_field(uri, identity.agent)) {
    return {};
  }
  identity.host = uri;  // last field, because an IPv6 address contains colons
  identity.role = role_named(role);
  const bool shows_token = identity.role == Role::kReader || identity.role == Role::kSubmitter;
  if (identity.role == Role::kNobody || shows_token) return {};
  return identity;
}

}  // namespace pfc
