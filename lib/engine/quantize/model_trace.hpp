#pragma once

#include "stage/stages.hpp"

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>

#include <memory>
#include <string>

namespace trainctl::engine {

/// A TorchScript module whose parameters and buffers have the names of the model's, and the graph
/// of its forward pass in evaluation mode, whose inputs are the module and a batch of any size.
struct TracedModel {
  torch::jit::Module module;
  std::shared_ptr<torch::jit::Graph> graph;
};

/// Whether the graph has the in-place operations of the model, or others that copy instead.
enum class InPlace { kept, replaced };

/// Traces the model, which is on a CPU and changes to evaluation mode. Throws Error(config) if the
/// operations depend on more than the shape of the input, and libtorch's exceptions.
TracedModel trace_model(stage::Model& model, const stage::ModelContext& shape, InPlace in_place);

/// Throws Error(config): the model cannot be written as TorchScript.
[[noreturn]] void refuse_script(const std::string& cause);

/// Gives the module the graph as its method `forward`, and returns it as a file for torch.jit.load.
std::string script_of(const TracedModel& traced);

}  // namespace trainctl::engine
