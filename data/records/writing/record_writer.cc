#include "data/records/writing/record_writer.h"

#include <string>

#include "data/records/writing/record_framing.h"

namespace pfc {

RecordWriter::RecordWriter(const std::filesystem::path& rec, const std::filesystem::path& idx)
    : rec_(rec), idx_(idx) {}

void RecordWriter::append(std::int64_t key, std::span<const std::byte> payload) {
  const std::uint64_t offset = rec_.offset();
  frame_record(key, payload, [this](std::span<const std::byte> bytes) { rec_.write(bytes); });
  idx_.write(std::to_string(key) + '\t' + std::to_string(offset) + '\n');
}

void RecordWriter::close() {
  rec_.commit();
  idx_.commit();
}

}  // namespace pfc
