#include "worker/cost/machine_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "common/error.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;

MachineProfile profile() {
  MachineProfile p{.name = "a machine",
                   .source = "measured",
                   .cores = 8,
                   .cache_bytes = 1 << 24,
                   .ops = {},
                   .head = {},
                   .local = {}};
  double next = 1e-12;
  for (Rate& rate : p.ops) rate = {next *= 1.1, next *= 1.1, next *= 1.1, next *= 1.1};
  p.head = {next *= 1.1, next *= 1.1, next *= 1.1, next *= 1.1, next *= 1.1};
  p.local = {next *= 1.1, next *= 1.1};
  p.decode_seconds = next *= 1.1;
  p.step_seconds = next *= 1.1;
  return p;
}

TEST(MachineProfile, IsUnchangedAfterWritingAndReading) {
  const TemporaryFolder folder;
  write_profile(profile(), folder / "machine.json");
  const MachineProfile read = read_profile(folder / "machine.json");
  EXPECT_EQ(to_json(read), to_json(profile()));
  EXPECT_EQ(read.ops[3].per_near_byte, profile().ops[3].per_near_byte);
  EXPECT_EQ(read.head.per_drawn, profile().head.per_drawn);
}

TEST(MachineProfile, ReportsWhatIsWrongWithAFile) {
  const TemporaryFolder folder;
  const auto file = folder / "machine.json";
  const auto message = [&](const nlohmann::json& contents) {
    std::ofstream(file) << contents.dump();
    return message_of<InputError>([&] { read_profile(file); });
  };
  nlohmann::json changed = to_json(profile());
  changed["ops"]["product"].erase("seconds_per_flop");
  EXPECT_THAT(message(changed), AllOf(HasSubstr("machine.json"),
                                      HasSubstr("there is no '/ops/product/seconds_per_flop'")));
  changed = to_json(profile());
  changed["step_seconds"] = -1;
  EXPECT_THAT(message(changed), HasSubstr("/step_seconds: found -1, expected seconds"));
  changed = to_json(profile());
  changed["cores"] = 0;
  EXPECT_THAT(message(changed), HasSubstr("/cores: found 0"));
  changed["schema"] = 2;
  EXPECT_THAT(message(changed), HasSubstr("/schema: found 2, expected 1"));
  EXPECT_THAT(message("a text"), HasSubstr("there is no '/schema'"));
  std::ofstream(file) << "{";
  EXPECT_THAT(message_of<InputError>([&] { read_profile(file); }), HasSubstr("no JSON"));
}

TEST(MachineProfile, KnowsGpusByTheirDataSheets) {
  for (const std::string& name : gpu_names()) {
    const auto gpu = gpu_profile(name, DType::kFloat16, false);
    ASSERT_TRUE(gpu) << name;
    const OpWork work{.kind = OpKind::kConvolution, .flops = 1e12, .bytes = 1e6};
    EXPECT_GT(gpu->seconds(work), 1e12 / 1e15);
    EXPECT_LT(gpu->seconds(work), 0.1);
  }
  EXPECT_FALSE(gpu_profile("v100", DType::kBFloat16, false));  // has no bf16
  EXPECT_FALSE(gpu_profile("h10", DType::kFloat32, false));
  const OpWork product{.kind = OpKind::kProduct, .flops = 1e12};
  EXPECT_LT(gpu_profile("a100", DType::kFloat32, true)->seconds(product),
            gpu_profile("a100", DType::kFloat32, false)->seconds(product) / 5);  // TF32
}

TEST(MachineProfile, UsesTheRateOfTheCacheIfAllFits) {
  MachineProfile machine;
  machine.cache_bytes = 1000;
  machine.ops[0] = {.overhead = 1, .per_flop = 0, .per_byte = 4, .per_near_byte = 2};
  EXPECT_EQ(machine.seconds({.kind = OpKind::kConvolution, .bytes = 1000}), 1 + 2000);
  EXPECT_EQ(machine.seconds({.kind = OpKind::kConvolution, .bytes = 1001}), 1 + 4004);
}

}  // namespace
}  // namespace pfc
