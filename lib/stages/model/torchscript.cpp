#include "base/error.hpp"
#include "base/strings.hpp"
#include "spec/options/model.hpp"
#include "stage/module.hpp"
#include "stages/builtin.hpp"

#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>
#include <fmt/ranges.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>

#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trainctl::stages {
namespace {

/// Returns the last line of an error in the script, which has the cause; the lines before are a
/// traceback.
std::string cause_of(const std::exception& error) {
  const auto* libtorch = dynamic_cast<const c10::Error*>(&error);
  std::string_view text = libtorch != nullptr ? libtorch->what_without_backtrace() : error.what();
  while (text.ends_with('\n')) text.remove_suffix(1);
  const std::size_t line = text.rfind('\n');
  return printable(line == std::string_view::npos ? text : text.substr(line + 1));
}

torch::jit::Module load(const spec::model::Torchscript& options) {
  std::istringstream bytes(options.read());
  try {
    return torch::jit::load(bytes, at::kCPU);
  } catch (const std::exception& error) {
    throw Error(ErrorKind::config, fmt::format("{} is not a module written by torch.jit.save: {}",
                                               printable(options.path.string()), cause_of(error)));
  }
}

/// Registers the script module's own tensors, so that `to` moves them without replacing them.
class Torchscript final : public stage::Module {
 public:
  Torchscript(const spec::model::Torchscript& options, const stage::ModelContext& context)
      : path_(printable(options.path.string())), module_(load(options)), context_(context) {
    bool trains = false;
    std::set<const c10::TensorImpl*> seen;
    for (const auto& [name, tensor] : module_.named_parameters()) {
      if (!seen.insert(tensor.unsafeGetTensorImpl()).second) continue;  // tied parameters
      const bool trained = tensor.requires_grad();
      add_parameter(name, tensor).set_requires_grad(trained);
      trains = trains || trained;
    }
    ENSURE(config, trains,
           "{} has no parameters to train\nhint: call neither torch.jit.freeze nor "
           "requires_grad_(False) before saving",
           path_);
    for (const auto& [name, tensor] : module_.named_buffers()) add_buffer(name, tensor);
  }

  void set_mode(stage::RunMode mode) override {
    stage::Module::set_mode(mode);
    module_.train(mode == stage::RunMode::train);
  }

  at::Tensor forward(const at::Tensor& inputs) override {
    c10::IValue output = c10::InferenceMode::is_enabled() ? run_for_inference(inputs) : run(inputs);
    ENSURE(config, output.isTensor(),
           "{} must return one tensor of logits, got {}\nhint: save a module that returns a tensor",
           path_, output.tagKind());
    at::Tensor logits = std::move(output).toTensor();
    const std::vector<std::int64_t> wanted = wanted_shape(inputs);
    ENSURE(config, logits.sizes() == at::IntArrayRef(wanted) && logits.is_floating_point(),
           "{} returns {} of the shape {}, but the data requires float logits of the shape {}",
           path_, c10::toString(logits.scalar_type()), fmt::join(logits.sizes(), "x"),
           fmt::join(wanted, "x"));
    return logits;
  }

 private:
  /// A script that has been trained saves tensors for a backward pass even if none follows, which
  /// inference mode does not allow.
  c10::IValue run_for_inference(const at::Tensor& inputs) {
    const c10::InferenceMode off(false);
    const at::NoGradGuard no_gradients;
    return run(inputs.is_inference() ? inputs.clone() : inputs);
  }

  c10::IValue run(const at::Tensor& inputs) {
    try {
      return module_.forward({inputs});
    } catch (const c10::OutOfMemoryError&) {
      throw;
    } catch (const std::exception& error) {
      throw Error(ErrorKind::config,
                  fmt::format("{} does not take inputs of the shape {}: {}", path_,
                              fmt::join(inputs.sizes(), "x"), cause_of(error)));
    }
  }

  [[nodiscard]] std::vector<std::int64_t> wanted_shape(const at::Tensor& inputs) const {
    if (context_.kind.targets == spec::Targets::tokens)
      return {inputs.size(0), inputs.size(1), context_.outputs};
    if (context_.kind.targets == spec::Targets::pixels)
      return {inputs.size(0), context_.outputs, inputs.size(2), inputs.size(3)};
    return {inputs.size(0), context_.outputs};
  }

  std::string path_;
  torch::jit::Module module_;
  stage::ModelContext context_;
};

}  // namespace

void register_model_torchscript(stage::Catalog& catalog) {
  catalog.models.add_class<spec::model::Torchscript, Torchscript>("torchscript");
}

}  // namespace trainctl::stages
