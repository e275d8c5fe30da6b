#include "base/files.hpp"
#include "base/machine/environment.hpp"
#include "base/machine/machine.hpp"
#include "base/strings.hpp"
#include "base/url.hpp"
#include "spec/checks/checks.hpp"
#include "spec/options/layer.hpp"
#include "spec/options/logger.hpp"
#include "spec/options/loss.hpp"
#include "spec/options/model.hpp"
#include "spec/options/scheduler.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <set>
#include <vector>

namespace trainctl::spec {
namespace {

bool is_program(const fs::path& file) { return is_file(file) && ::access(file.c_str(), X_OK) == 0; }

/// Searches PATH like execvp.
bool is_found(const std::string& program) {
  if (program.find('/') != std::string::npos) return is_program(program);
  const char* path = std::getenv("PATH");
  for (const std::string& folder : split(path == nullptr ? "/bin:/usr/bin" : path, ':')) {
    if (is_program(fs::path(folder.empty() ? "." : folder) / program)) return true;
  }
  return false;
}

void check_exec(Checker& checker, const config::Stage& stage, const std::string& path) {
  const auto& command = stage.as<logger::Exec>().command;
  if (command.empty() || is_found(command.front())) return;
  const bool is_path = command.front().find('/') != std::string::npos;
  checker.error(path + ".command",
                fmt::format("'{}' is not an executable file{}", printable(command.front()),
                            is_path ? "" : " in the folders of PATH"),
                is_path ? "correct the path (a relative one starts in the current folder) and make "
                          "the file executable"
                        : "install it, or write its path");
}

void check_prometheus(Checker& checker, const config::Stage& stage, const std::string& path) {
  const auto& file = stage.as<logger::Prometheus>().file;
  if (!file) return;
  if (file->extension() != ".prom") {
    checker.error(path + ".file",
                  fmt::format("'{}' must end in .prom: node_exporter reads no other files",
                              printable(file->string())),
                  "write 'file: .../trainctl.prom'");
  } else if (file->has_parent_path() && !is_folder(file->parent_path())) {
    checker.error(
        path + ".file",
        fmt::format("folder '{}' does not exist", printable(file->parent_path().string())),
        "create it, or write the folder of node_exporter's --collector.textfile.directory");
  }
}

void check_mlflow(Checker& checker, const config::Stage& stage, const std::string& path) {
  const std::string uri = mlflow_uri(stage.as<logger::Mlflow>().tracking_uri);
  const std::string key = path + ".tracking_uri";
  if (uri.empty()) {
    checker.error(path, "the logger 'mlflow' needs the URL of a tracking server",
                  "write 'tracking_uri: http://HOST:5000', or set MLFLOW_TRACKING_URI");
  } else if (!uri.starts_with("http://") && !uri.starts_with("https://")) {
    checker.error(key,
                  fmt::format("the URL of the tracking server must start with http:// or https://, "
                              "got '{}'",
                              printable(without_userinfo(uri))),
                  "start 'mlflow server' for a folder or a data base, and write its URL");
  } else if (without_userinfo(uri) != uri) {
    checker.error(key, "the URL of the tracking server must not contain a user or a password",
                  "set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD");
  }
}

bool ignores_rows(const config::Stage& stage) {
  if (const auto* options = stage.get_if<loss::CrossEntropy>())
    return options->ignore_index.has_value();
  const auto* options = stage.get_if<loss::Nll>();
  return options != nullptr && options->ignore_index;
}

/// Returns what the ranks do within a step that a CUDA graph with the gradient all-reduce does not
/// cover.
std::optional<std::string> exchange_obstacle(const Experiment& experiment) {
  const Distributed& options = experiment.distributed;
  if (options.compression != Compression::none)
    return "distributed.compression compresses gradients during the all-reduce";
  if (options.find_unused_parameters)
    return "distributed.find_unused_parameters searches for unused parameters at every step";
  return std::nullopt;
}

constexpr std::array kNondeterministic{
    NondeterministicStage{"layer", "adaptive_avg_pool2d", "`output_size` above 1",
                          "adaptive_avg_pool2d_backward_cuda",
                          "use avg_pool2d, write 'output_size: 1', or set "
                          "'trainer.deterministic' to false",
                          [](const config::Stage& stage) {
                            const auto* options = stage.get_if<layer::AdaptiveAvgPool2d>();
                            return options != nullptr && options->output_size > 1;
                          }},
    NondeterministicStage{"layer", "adaptive_max_pool2d", "always",
                          "adaptive_max_pool2d_backward_cuda",
                          "use max_pool2d, or set 'trainer.deterministic' to false",
                          [](const config::Stage& stage) {
                            return stage.get_if<layer::AdaptiveMaxPool2d>() != nullptr;
                          }},
    NondeterministicStage{
        "layer", "upsample", "`mode: bilinear`", "upsample_bilinear2d_backward_out_cuda",
        "write 'mode: nearest', or set 'trainer.deterministic' to false",
        [](const config::Stage& stage) {
          const auto* options = stage.get_if<layer::Upsample>();
          return options != nullptr && options->mode == layer::UpsampleMode::bilinear;
        }},
    NondeterministicStage{
        "model", "unet", "`upsampling: bilinear`", "upsample_bilinear2d_backward_out_cuda",
        "write 'upsampling: transposed', or set 'trainer.deterministic' to false",
        [](const config::Stage& stage) {
          const auto* options = stage.get_if<model::Unet>();
          return options != nullptr && options->upsampling == model::Upsampling::bilinear;
        }},
};

/// Checks a stage and the stages inside it. `path` is its key in the experiment file.
void check_kernels_of(const config::Stage& stage, const std::string& path, Checker& checker) {
  const auto check_all = [&](const std::vector<config::Stage>& layers, const std::string& key) {
    for (std::size_t i = 0; i < layers.size(); ++i)
      check_kernels_of(layers[i], fmt::format("{}.{}.{}", path, key, i), checker);
  };
  if (const auto* options = stage.get_if<model::Sequential>()) check_all(options->layers, "layers");
  if (const auto* options = stage.get_if<layer::Residual>()) {
    check_all(options->layers, "layers");
    check_all(options->shortcut, "shortcut");
  }
  if (const auto* options = stage.get_if<layer::Concat>()) {
    for (std::size_t i = 0; i < options->branches.size(); ++i)
      check_all(options->branches[i].layers, fmt::format("branches.{}.layers", i));
  }
  for (const NondeterministicStage& entry : kNondeterministic) {
    if (!entry.applies(stage)) continue;
    checker.error(path,
                  fmt::format("the {} '{}' has no deterministic backward pass on a GPU ({}), which "
                              "'trainer.deterministic: true' requires",
                              entry.kind, entry.type, entry.operation),
                  entry.hint);
  }
}

}  // namespace

std::string mlflow_uri(const std::optional<std::string>& tracking_uri) {
  return tracking_uri ? *tracking_uri : environment_value("MLFLOW_TRACKING_URI");
}

void check_loggers(const Loaded& loaded, config::Diagnostics& diagnostics) {
  Checker checker(loaded.experiment, loaded.tree, diagnostics);
  std::set<std::string> seen;
  const auto& loggers = loaded.experiment.loggers;
  for (std::size_t i = 0; i < loggers.size(); ++i) {
    const config::Stage& stage = loggers[i];
    const std::string path = fmt::format("loggers.{}", i);
    if (!stage || !checker.is_valid(path)) continue;
    if (stage.type == "exec") {
      check_exec(checker, stage, path);
      continue;  // exec may be listed several times
    }
    if (!seen.insert(stage.type).second)
      checker.error(path, fmt::format("the logger '{}' is listed twice", stage.type),
                    "remove one of them");
    if (stage.type == "mlflow") check_mlflow(checker, stage, path);
    if (stage.type == "prometheus") check_prometheus(checker, stage, path);
  }
}

std::optional<std::string> capture_obstacle(const Experiment& experiment,
                                            const Placement& placement) {
  const Trainer& trainer = experiment.trainer;
  if (!placement.on_gpus) return "the run is on a CPU";
  if (experiment.distributed.type == Strategy::data_parallel)
    return "distributed.type data_parallel copies weights between GPUs in each step";
  if (placement.ranks > 1) {
    if (auto obstacle = exchange_obstacle(experiment)) return obstacle;
  }
  if (!experiment.unfreeze_at.empty()) return "unfreeze_at changes what a step computes";
  if (trainer.detect_anomaly) return "trainer.detect_anomaly checks every operation";
  if (trainer.activation_checkpointing == ActivationCheckpointing::blocks)
    return "trainer.activation_checkpointing resets the random state within a step";
  if (experiment.model.type == "torchscript")
    return "a TorchScript model may change its operations during training";
  if (experiment.task.type == "masked_language_modeling" || experiment.task.type == "gan")
    return "the task '" + experiment.task.type + "' draws random numbers on the CPU";
  if (scheduled_momentum(experiment.scheduler))
    return "the scheduler changes the momentum, which a captured graph cannot do";
  if (ignores_rows(experiment.loss) && !experiment.metrics.empty())
    return "metrics skip labels equal to loss.ignore_index, so the CPU must count the other labels";
  if (!experiment.plugins.empty() && trainer.cuda_graphs.is_auto())
    return "CPU code of plug-ins would run only during capture; write 'cuda_graphs: true' if the "
           "plug-ins have no CPU code";
  return std::nullopt;
}

void check_capture(const Loaded& loaded, config::Diagnostics& diagnostics) {
  const Experiment& experiment = loaded.experiment;
  if (!experiment.trainer.cuda_graphs.value_or(false)) return;
  Checker checker(experiment, loaded.tree, diagnostics);
  if (!checker.is_valid({"trainer", "model", "task", "plugins", "scheduler", "loss", "metrics"}))
    return;
  const auto obstacle =
      capture_obstacle(experiment, placement_of(experiment.trainer, read_machine()));
  if (!obstacle) return;
  checker.error("trainer.cuda_graphs", fmt::format("'cuda_graphs' is true, but {}", *obstacle),
                "write 'cuda_graphs: auto'");
}

std::span<const NondeterministicStage> nondeterministic_stages() { return kNondeterministic; }

void check_determinism(const Loaded& loaded, const Placement& placement,
                       config::Diagnostics& diagnostics) {
  Checker checker(loaded.experiment, loaded.tree, diagnostics);
  if (!placement.on_gpus || !loaded.experiment.trainer.deterministic) return;
  if (!checker.is_valid({"trainer", "model"})) return;
  check_kernels_of(loaded.experiment.model, "model", checker);
}

}  // namespace trainctl::spec
