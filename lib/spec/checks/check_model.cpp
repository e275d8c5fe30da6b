#include "base/error.hpp"
#include "spec/checks/check_model_decl.hpp"
#include "spec/checks/checker.hpp"
#include "spec/compatibility.hpp"
#include "spec/model/sequential.hpp"
#include "spec/model/torchscript.hpp"

#include <algorithm>

namespace trainctl::spec {
namespace {

/// Layers that could not be read are left empty: the shapes are followed up to them.
std::vector<Refusal> readable_refusals(const Checker& checker, const ModelInput& input) {
  const config::Stage& model = checker.experiment().model;
  if (model.options_type != typeid(model::Sequential))
    return checker.sound("model") ? refusals(model, input) : std::vector<Refusal>{};
  auto options = model.as<model::Sequential>();
  for (std::size_t i = 0; i < options.layers.size(); ++i) {
    if (!checker.sound("model.layers." + std::to_string(i))) options.layers[i] = {};
  }
  return options.layers.empty() ? std::vector<Refusal>{} : options.refusals(input);
}

void check_file(Checker& checker) {
  const config::Stage& model = checker.experiment().model;
  if (model.options_type != typeid(model::Torchscript) || !checker.sound("model")) return;
  try {
    (void)model.as<model::Torchscript>().read();
  } catch (const Error& error) {
    const bool pinned = model.as<model::Torchscript>().sha256.has_value();
    checker.error(pinned ? "model.sha256" : "model.path", error.message());
  }
}

}  // namespace

void check_model(const Loaded& loaded, const std::optional<ModelInput>& input,
                 config::Diagnostics& diagnostics) {
  if (loaded.tree.broken) return;
  Checker checker(loaded.experiment, loaded.tree, diagnostics);
  check_file(checker);
  const config::Stage& model = loaded.experiment.model;
  if (!input || !model || !takes(model, input->kind.inputs)) return;
  if (std::ranges::any_of(input->shape, [](std::int64_t size) { return size < 1; })) return;
  for (Refusal& refusal : readable_refusals(checker, *input)) {
    checker.error(refusal.key.empty() ? "model" : "model." + refusal.key,
                  std::move(refusal.message), std::move(refusal.hint));
  }
}

}  // namespace trainctl::spec
