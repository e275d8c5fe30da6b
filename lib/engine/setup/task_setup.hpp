#pragma once

#include "spec/experiment/experiment.hpp"
#include "stage/registry.hpp"

#include <memory>

namespace trainctl::engine {

/// What a task of a run is built for.
struct TaskSetup {
  const spec::Experiment& experiment;
  const stage::Catalog& catalog;
  const stage::ModelContext& model;
  at::Device device = at::kCPU;
  bool trains = true;  // false: it only evaluates
};

/// Builds the task. Other models that it uses draw random numbers: set the seed afterward.
std::unique_ptr<stage::Task> build_task(const TaskSetup& setup);

}  // namespace trainctl::engine
