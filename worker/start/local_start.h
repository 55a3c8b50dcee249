// The part of a worker's start that needs no other worker: its device, data, job and memory.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/config/config.h"
#include "common/ids.h"
#include "common/machine/cores.h"
#include "data/dataset.h"
#include "kernels/ops.h"
#include "model/evaluation/evaluation_sets.h"
#include "model/files/model_file.h"
#include "worker/distillation/teacher_centres.h"
#include "worker/memory/memory_advice.h"

namespace pfc {

/// One step of the start. If it fails, `pfcctl check` reports `name`, the error and `remedy`.
struct StartStep {
  /// In the order of a check's findings.
  enum class Kind { kDevice, kData, kTeacher, kJob, kMemory };

  Kind kind;
  const char* name;
  std::function<void()> run;  ///< throws InputError, DeviceError
  const char* remedy;
  /// Whether this step opens the device, the data or the teacher, which later steps need.
  bool opens = false;
};

/// Opens the device, the data and the teacher of a worker, and checks its job and memory.
struct LocalStart {
  /// Returns the steps in their order. A training session runs all of them and ends with the first
  /// error. `pfcctl check` runs the same steps and reports every error. REQUIRES: the precision is
  /// chosen, and host_memory is set.
  std::vector<StartStep> steps();
  void open_device();
  /// Opens the training data, without the verification sets.
  void open_training_data();
  /// Reads the teacher's file if the job has one, and finds its class centres if they are needed.
  /// REQUIRES: the training data are open.
  void open_teacher();
  /// Returns a summary of the teacher's files, which must be equal on all hosts. REQUIRES: the job
  /// has a teacher. Reads the files to compute their checksums.
  [[nodiscard]] std::string brief_of_teacher() const;
  /// Compares this job's data with the data of the job that trained the teacher, as for a resumed
  /// job (resumed_people.h). `data`: contents of this job's data sets (FileBrief). Returns a
  /// warning, or an empty string if the data are the same, if logits are not compared, or if the
  /// teacher's centres are not in a checkpoint of pfc. Throws InputError if the data sets have
  /// another order.
  [[nodiscard]] std::string other_people_of_teacher(const std::vector<std::string>& data) const;
  /// Returns what is needed to plan memory and time. Without data, assumes the default size of
  /// images.
  [[nodiscard]] PlannedJob planned() const;

  JobConfig& job;  ///< borrowed; the steps set the keys whose values come from the data
  Membership membership;
  Doing doing;
  std::vector<std::filesystem::path> staged = {};  ///< if not empty, opened instead of job.rec
  MemoryThere host_memory = {};                    ///< measured before any worker allocates
  std::unique_ptr<Ops> ops = {};
  std::unique_ptr<Dataset> dataset = {};
  EvaluationSets evaluation_sets = {};
  std::optional<ModelFile> teacher = {};               ///< a training session moves the weights out
  DType teacher_type = DType::kFloat32;                ///< type of the teacher's activations
  std::optional<TeacherCentres> teacher_centres = {};  ///< only with distill_logits
  int threads = threads_of_worker(1);                  ///< compute threads of this worker
  MemoryThere device_memory = {};
  MemoryPlan memory = {};
};

}  // namespace pfc
