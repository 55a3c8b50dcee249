#include "pfcctl/coordinator_call.h"

#include "common/command_line.h"
#include "security/first_contact.h"
#include "security/join_string.h"

namespace pfc {

void Target::declare(CLI::App& verb) {
  auto* const address =
      verb.add_option("--coordinator", coordinator,
                      "HOST:PORT; without it, the one that this user runs on this machine");
  address->check(host_and_port());
  auto* const access =
      verb.add_option("--access-file", access_file,
                      "A file with what pfcctl token create --read-only prints, for a coordinator "
                      "on another machine; '-': stdin");
  access->excludes(address);
  verb.add_option("--job", job_id,
                  "Which one, where this user runs several here: the id of its job, or of the "
                  "service, or the beginning of it")
      ->excludes(address)
      ->excludes(access);
  verb.add_option("--state-dir", state_dir, "The coordinator's --state-dir")->capture_default_str();
}

Endpoint Target::endpoint() const {
  if (!access_file.empty()) {
    const JoinString access = read_join_string(access_file);
    return {.address = access.address,
            .credential = {.authority =
                               fetch_authority(access.address, access.fingerprint, kCallTimeout)},
            .reader = access.token};
  }
  if (!coordinator.empty()) return {.address = coordinator};
  const CoordinatorFile file = find_coordinator(state_dir, job_id);
  if (!file.tls) return {.address = file.address};
  return {.address = file.address,
          .credential = read_credential(state_dir / "security" / "admin.pem")};
}

}  // namespace pfc
