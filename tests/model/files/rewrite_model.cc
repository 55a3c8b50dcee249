// Reads a model into a backbone and writes the backbone's state dict as safetensors, for
// comparisons with PyTorch (tests/reference/torch_files_test.py):
//
//   rewrite_model IN OUT.safetensors
#include <cstdio>
#include <exception>
#include <vector>

#include "common/files/safetensors.h"
#include "kernels/make_ops.h"
#include "model/files/model_file.h"

int main(int argc, char** argv) try {
  pfc::check(argc == 3, "usage: rewrite_model IN OUT.safetensors");
  const auto ops = pfc::make_ops({.choice = pfc::DeviceChoice::kCpu, .cpu_threads = 1});
  const pfc::ModelFile model = pfc::read_model(argv[1]);
  const auto tensors = export_state_dict(*ops, *make_backbone(*ops, model, /*batch=*/1));
  std::vector<pfc::SafetensorsEntry> entries;
  for (const pfc::HostTensor& t : tensors) entries.push_back({t.name, t.dtype, t.shape, t.bytes});
  write_safetensors(argv[2], entries, {{"network", model.options.network}});
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
