#include "study/run/run_ending.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/strings.hpp"
#include "checkpoint/folder.hpp"
#include "checkpoint/store.hpp"
#include "log/log.hpp"
#include "report/record/run_files.hpp"
#include "report/text/run_summary.hpp"
#include "spec/experiment/experiment.hpp"
#include "spec/experiment/value_types.hpp"
#include "study/workers/worker_launch.hpp"

#include <chrono>
#include <cmath>
#include <system_error>

namespace trainctl::study {
namespace {

constexpr std::array kRepeat{ErrorKind::config, ErrorKind::diverged, ErrorKind::checkpoint};

std::string below(const fs::path& run_dir, const fs::path& path) {
  std::error_code failure;
  const fs::path real = fs::canonical(path, failure);
  const fs::path relative = real.lexically_relative(fs::weakly_canonical(run_dir, failure));
  return relative.empty() || *relative.begin() == ".." ? path.string() : relative.string();
}

bool is_part(const RunRequest& request) {
  const auto limit = request.loaded.experiment.trainer.epoch_limit();
  return request.job.until_epoch && (!limit || *request.job.until_epoch < *limit);
}

bool accepts(const spec::Loaded& loaded, const std::string& setting) {
  try {
    config::Diagnostics diagnostics;
    (void)spec::overridden(loaded, {setting}, diagnostics);
    return diagnostics.error_count() == 0;
  } catch (const std::exception&) {
    return false;
  }
}

std::optional<double> cache_share(const spec::Cache& cache, const Machine& machine) {
  const spec::Budget budget = cache.of_memory();
  if (!budget.bytes) return budget.share;
  if (machine.memory_bytes == 0) return std::nullopt;
  return static_cast<double>(*budget.bytes) / static_cast<double>(machine.memory_bytes);
}

double seconds_until_killed(const fs::path& run_dir, const fs::path& result) {
  std::error_code failure;
  const fs::file_time_type begin = fs::last_write_time(result, failure);
  if (failure) return 0;
  fs::file_time_type end = begin;
  const auto grew = [&](const fs::path& file) {
    const fs::file_time_type time = fs::last_write_time(file, failure);
    if (!failure) end = std::max(end, time);
  };
  for (const char* name : {"metrics.jsonl", "epochs.csv", "timing.csv"}) grew(run_dir / name);
  for (const std::string& name : checkpoint::file_names(run_dir / "logs"))
    grew(run_dir / "logs" / name);
  for (const std::string& name : checkpoint::file_names(run_dir / "checkpoints"))
    grew(run_dir / "checkpoints" / name / checkpoint::kManifestName);
  return std::chrono::duration<double>(end - begin).count();
}

}  // namespace

report::Command typed(const RunRequest& request) {
  report::Command command;
  if (!request.argv.empty()) command.program = request.argv.front();
  command.config = request.config_file.string();
  command.overrides = request.overrides;
  command.node_flags = request.node_flags;
  if (request.nodes) command.nodes = request.nodes->nodes;
  const fs::path& out = request.folder.root;
  if (!request.folder.fixed && out != FolderRequest().root) command.out = out.string();
  return command;
}

report::BestMode best_mode(const spec::Experiment& experiment) {
  const config::Auto<spec::Mode>& mode_option = experiment.checkpoint.mode;
  const spec::Mode mode = spec::resolve_mode(mode_option, spec::checkpoint_monitor(experiment));
  return {enum_name(mode), mode_option.is_auto()};
}

report::AdviceSettings levers(const spec::Loaded& loaded, const Machine& machine) {
  const spec::Experiment& experiment = loaded.experiment;
  const spec::Trainer& trainer = experiment.trainer;
  const spec::CacheMode mode = experiment.dataset.cache.mode;
  const auto modes = enum_names(mode);
  const auto& every_t = experiment.checkpoint.every_t;
  const bool native_bf16 = std::ranges::any_of(machine.cpu_features, [](const auto& feature) {
    return feature == "avx512_bf16" || feature == "amx_bf16";
  });
  return {.cpu_cores = machine.cores,
          .checkpoint_every = experiment.checkpoint.every_n_epochs,
          .validate_every = experiment.trainer.check_val_every_n_epoch,
          .cache_mode = enum_name(mode),
          .cache_modes = {modes.begin(), modes.end()},
          .checkpoint_every_steps = experiment.checkpoint.every_n_steps,
          .checkpoint_every_s = every_t ? spec::parse_duration(*every_t) : std::nullopt,
          .checkpoint_async = experiment.checkpoint.asynchronous,
          .checkpoint_on_best = experiment.checkpoint.on_best,
          .log_every_steps = trainer.log_every_n_steps,
          .detect_anomaly = trainer.detect_anomaly,
          .cuda_graphs = trainer.cuda_graphs.value,
          .pin_memory = experiment.loader.pin_memory.value.value_or(true),
          .read_ahead = experiment.loader.read_ahead.value,
          .precision = enum_name(trainer.precision),
          .threads_probed = trainer.num_threads.is_auto(),
          .native_bf16 = native_bf16,
          .cache_share = cache_share(experiment.dataset.cache, machine),
          .spin_variable = spin_variable(),
          .accepts = [loaded](const std::string& setting) { return accepts(loaded, setting); }};
}

std::string profile_of(const fs::path& run_dir) {
  constexpr std::uint64_t kMostBytes = 64 << 20;
  std::error_code ignored;
  const fs::path table = run_dir / "profile" / "operators.csv";
  const std::uint64_t bytes = path_exists(table) ? fs::file_size(table, ignored) : 0;
  if (bytes == 0 || bytes > kMostBytes) return "";
  const std::string top = report::top_operator(read_file(table, kMostBytes, ReadFailure::resource));
  return "profile/trace.json, operators.txt and layers.txt" + (top.empty() ? "" : "; " + top);
}

std::optional<report::SavedState> state_of(const ResumeOrigin& origin, const fs::path& run_dir) {
  if (origin.checkpoint.empty()) return std::nullopt;
  return report::SavedState{below(run_dir, origin.checkpoint), origin.manifest.global_step, true};
}

std::optional<report::SavedState> newest_state(const fs::path& run_dir) {
  try {
    for (const checkpoint::StoredCheckpoint& found :
         checkpoint::Store(run_dir / "checkpoints").list()) {
      if (found.manifest && !has_weights_only(*found.manifest))
        return report::SavedState{below(run_dir, found.path), found.moment.global_step, true};
    }
  } catch (const Error& error) {
    log::get().warn("cannot list the checkpoints: {}", error.what());
  }
  return std::nullopt;
}

double earlier_wall_s(const fs::path& run_dir) {
  const fs::path file = run_dir / "result.json";
  const Json result = read_object(file);
  const double seconds = report::finite_at(result, "wall_s").value_or(0);
  const bool was_killed = report::member(result, "verdict") == "unfinished";
  const double total = seconds + (was_killed ? seconds_until_killed(run_dir, file) : 0);
  return std::isfinite(total) && total > 0 ? total : 0;
}

bool lies_in(const fs::path& file, const fs::path& folder) {
  std::error_code failure;
  return fs::equivalent(file.parent_path(), folder, failure) && !failure;
}

std::string resume_command(const RunRequest& request, const report::RunResult& ending) {
  const bool repeats = std::ranges::any_of(
      kRepeat, [&](ErrorKind kind) { return static_cast<int>(kind) == ending.exit_code; });
  const bool is_complete = ending.exit_code == 0 && !is_part(request);
  if (is_complete || repeats || !ending.checkpoint) return "";
  const report::Command command = typed(request);
  std::vector<std::string> words{command.program, "run"};
  if (lies_in(request.config_file, ending.run_dir)) {  // that file contains the overrides
    words.insert(words.end(), {"--resume", ending.run_dir});
  } else {
    words.push_back(command.config);
    words.insert(words.end(), command.overrides.begin(), command.overrides.end());
    words.insert(words.end(), {"--run-dir", ending.run_dir, "--resume", "auto"});
  }
  words.insert(words.end(), request.node_flags.begin(), request.node_flags.end());
  return shell_command(std::move(words));
}

}  // namespace trainctl::study
