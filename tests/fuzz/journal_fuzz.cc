// The journal of a coordinator.
#include <string_view>

#include "common/error.h"
#include "coordinator/journal/journal_file.h"
#include "tests/fuzz/fuzz_target.h"

namespace pfc::fuzz {

std::vector<std::string> seeds() {
  proto::JournalIdentity identity;
  identity.set_id("0123456789abcdef");
  identity.add_hosts("localhost:2");
  proto::JournalRecord record;
  for (const char* key : {"run", "host/localhost", "worker/0"}) {
    proto::JournalEntry& entry = *record.add_entries();
    entry.set_key(key);
    entry.set_value(std::string(20, 'x'));
  }
  record.add_entries()->set_erased(true);
  const std::string header = encode_header(identity), change = encode_record(record);
  return {header, header + change, header + change + change.substr(0, change.size() / 2),
          header + change + std::string(64, '\0')};
}

}  // namespace pfc::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const pfc::JournalContents contents = pfc::parse_journal(bytes, "journal");
    if (contents.torn_bytes > size) __builtin_trap();
    // An identity that was read must be accepted again.
    if (pfc::parse_identity(bytes, "journal").id() != contents.identity.id()) __builtin_trap();
  } catch (const pfc::InputError&) {
  }
  return 0;
}
