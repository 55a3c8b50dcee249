#include "pfcctl/coordinator_call.h"

#include "common/command_line.h"
#include "security/first_contact.h"
#include "security/join_string.h"

namespace pfc {

void Target::declare(CLI::App& verb) {
  constexpr const char* kGroup = "Which coordinator";  // printed after the verb's own options
  auto* const address = verb.add_option("--coordinator", coordinator,
                                        "HOST:PORT. Default: the coordinator that this user runs "
                                        "on this machine. Uses the credential in --state-dir")
                            ->group(kGroup);
  address->check(host_and_port());
  auto* const access =
      verb.add_option("--access-file", access_file,
                      "For a coordinator on another machine or of another user: file with the "
                      "output of pfcctl token create --role reader (or submitter); '-' reads stdin")
          ->group(kGroup);
  access->excludes(address);
  verb.add_option("--service", service,
                  "Selects one of several coordinators of this user on this machine: the id of the "
                  "service or of the job, or the beginning of the id")
      ->excludes(address)
      ->excludes(access)
      ->group(kGroup);
  verb.add_option("--state-dir", state_dir, "The coordinator's --state-dir")
      ->capture_default_str()
      ->group(kGroup);
}

Endpoint Target::endpoint() const {
  if (!access_file.empty()) {
    const JoinString access = read_join_string(access_file);
    return {.address = access.address,
            .credential = {.authority =
                               fetch_authority(access.address, access.fingerprint, kCallTimeout)},
            .token = access.token};
  }
  const std::filesystem::path admin = state_dir / "security" / "admin.pem";
  if (!coordinator.empty()) {
    std::error_code error;
    if (!std::filesystem::exists(admin, error)) {
      throw InputError("--coordinator " + coordinator + ": " + admin.string() +
                       " does not exist; give the coordinator's --state-dir, or --access-file");
    }
    return {.address = coordinator, .credential = read_credential(admin)};
  }
  return {.address = find_coordinator(state_dir, service).address,
          .credential = read_credential(admin)};
}

}  // namespace pfc
