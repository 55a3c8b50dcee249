#include "worker/capacity/machine_profile.h"

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
  return {.name = "a machine",
          .source = "measured",
          .cores = 8,
          .roofline = {1e-12, 3e-11, 4e-6},
          .forward = 1.5,
          .backward = 1.6,
          .head = 1.7,
          .local = {5e-6, 6e-11},
          .draw_seconds = 7e-9,
          .decode_seconds = 8e-5,
          .step_seconds = 9e-4};
}

TEST(MachineProfile, IsUnchangedAfterWritingAndReading) {
  const TemporaryFolder folder;
  write_profile(profile(), folder / "machine.json");
  const MachineProfile read = read_profile(folder / "machine.json");
  EXPECT_EQ(to_json(read), to_json(profile()));
  EXPECT_EQ(read.roofline.per_byte, profile().roofline.per_byte);
  EXPECT_EQ(read.backward, profile().backward);
}

TEST(MachineProfile, ReportsWhatIsWrongWithAFile) {
  const TemporaryFolder folder;
  const auto file = folder / "machine.json";
  const auto message = [&](const nlohmann::json& contents) {
    std::ofstream(file) << contents.dump();
    return message_of<InputError>([&] { read_profile(file); });
  };
  nlohmann::json changed = to_json(profile());
  changed["measured"].erase("head");
  EXPECT_THAT(message(changed),
              AllOf(HasSubstr("machine.json"), HasSubstr("there is no '/measured/head'")));
  changed = to_json(profile());
  changed["step_seconds"] = -1;
  EXPECT_THAT(message(changed), HasSubstr("/step_seconds: found -1, expected a number of seconds"));
  changed = to_json(profile());
  changed["cores"] = 0;
  EXPECT_THAT(message(changed), HasSubstr("/cores: found 0"));
  changed["schema"] = 1;
  EXPECT_THAT(message(changed), HasSubstr("/schema: found 1, expected 2"));
  EXPECT_THAT(message("a text"), HasSubstr("there is no '/schema'"));
  std::ofstream(file) << "{";
  EXPECT_THAT(message_of<InputError>([&] { read_profile(file); }), HasSubstr("not valid JSON"));
}

TEST(MachineProfile, KnowsGpusByTheirDataSheets) {
  for (const std::string& name : gpu_names()) {
    const auto gpu = gpu_profile(name, DType::kFloat16, false);
    ASSERT_TRUE(gpu) << name;
    const OpWork work{.flops = 1e12, .bytes = 1e6};
    EXPECT_GT(gpu->roofline.seconds(work), 1e12 / 1e15);
    EXPECT_LT(gpu->roofline.seconds(work), 0.1);
  }
  EXPECT_FALSE(gpu_profile("v100", DType::kBFloat16, false));  // has no bf16
  EXPECT_FALSE(gpu_profile("h10", DType::kFloat32, false));
  const OpWork product{.flops = 1e12};
  EXPECT_LT(gpu_profile("a100", DType::kFloat32, true)->roofline.seconds(product),
            gpu_profile("a100", DType::kFloat32, false)->roofline.seconds(product) / 5);  // TF32
}

TEST(Roofline, TakesTheLongerOfArithmeticAndMemory) {
  const Roofline roofline{.per_flop = 2, .per_byte = 4, .per_op = 1};
  EXPECT_EQ(roofline.seconds(OpWork{.flops = 10, .bytes = 4}), 1 + 20);
  EXPECT_EQ(roofline.seconds(OpWork{.flops = 10, .bytes = 6}), 1 + 24);
  EXPECT_EQ(roofline.seconds(OpWorks{{.flops = 10}, {.bytes = 1}}), 1 + 20 + 1 + 4);
}

}  // namespace
}  // namespace pfc
