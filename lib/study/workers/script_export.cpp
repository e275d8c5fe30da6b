#include "study/workers/script_export.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "launch/process/signals.hpp"
#include "spec/load.hpp"
#include "study/folder/scratch_folder.hpp"
#include "study/workers/model_task.hpp"

#include <string>
#include <system_error>
#include <utility>

namespace trainctl::study {
namespace {

/// The experiment of the run that saved the checkpoint.
spec::Loaded experiment_of(const fs::path& checkpoint, const checkpoint::Manifest& manifest) {
  const auto config = manifest.facts.find("config");
  ENSURE(checkpoint, config != manifest.facts.end(),
         "{} does not store its experiment, which TorchScript needs; export .safetensors or .pth",
         printable(checkpoint.string()));
  config::Diagnostics diagnostics;
  return spec::load_experiment_text((checkpoint / "manifest").string(), config->second, {},
                                    diagnostics);
}

/// Moves a complete file; the folders are of the same file system.
void publish(const fs::path& written, const fs::path& to) {
  std::error_code failure;
  fs::rename(written, to, failure);
  ENSURE(resource, !failure, "cannot write {}: {}", printable(to.string()), failure.message());
  sync_folder(to.parent_path());
}

}  // namespace

checkpoint::Exported export_script(const ScriptExport& request) {
  const launch::SignalGuard guard;  // until the scratch folder is gone
  const fs::path to = fs::absolute(request.to);
  const ScratchFolder folder(to.parent_path());
  const fs::path weights = folder.path() / "exported.safetensors";
  checkpoint::Exported exported =
      checkpoint::export_weights(request.checkpoint, request.weights, weights);
  const spec::Loaded loaded = experiment_of(request.checkpoint, exported.manifest);
  spec::Task task{.kind = spec::TaskKind::script, .weights = weights};
  task.model_input = request.read_model_input(loaded.experiment);
  run_model_task({.loaded = loaded,
                  .executable = request.executable,
                  .task = std::move(task),
                  .purpose = "exports the model",
                  .hint = "export .safetensors or .pth, which need no model",
                  .device = TaskDevice::cpu},
                 folder.path(), [](const events::Event&) {});
  publish(folder.path() / spec::kScriptFile, to);
  return exported;
}

}  // namespace trainctl::study
