#include "study/run/run_inputs.hpp"

#include "base/strings.hpp"
#include "checkpoint/export.hpp"
#include "config/tree/load.hpp"
#include "report/text/weights.hpp"
#include "weights/import.hpp"

#include <cstdlib>
#include <system_error>
#include <utility>

namespace trainctl::study {
namespace {

// The experiment file verbatim; the files it extends below, as comments, so that the folder alone
// tells everything.
std::string as_written(const std::vector<config::ConfigFile>& files) {
  std::string text;
  for (const config::ConfigFile& file : files) {
    if (&file == &files.front()) {
      text = file.text;
      continue;
    }
    text += fmt::format("{}# extends {}:\n", text.ends_with('\n') ? "" : "\n",
                        printable(file.path.string()));
    for (const std::string& line : split(file.text, '\n')) text += "#   " + line + "\n";
  }
  return text;
}

std::string resolved(const RunRequest& request) {
  const std::string text = spec::dump_resolved(request.loaded);
  if (request.batch_size_why.empty()) return text;
  return fmt::format("# loader.batch_size: auto was found to be {}: {}\n{}",
                     request.loaded.experiment.loader.batch_size.samples, request.batch_size_why,
                     text);
}

FoundBatch found_batch(const RunRequest& request) {
  if (request.batch_size_why.empty()) return {};
  return {request.loaded.experiment.loader.batch_size.samples, request.batch_size_why};
}

/// How the data set is divided, and the file of the run folder with the samples of each part.
Json split_entry(const spec::Dataset& dataset) {
  if (!dataset.split) return nullptr;
  const spec::SplitOptions& split = *dataset.split;
  return {{"file", spec::kSplitFile},
          {"val", split.val},
          {"test", split.test},
          {"seed", split.seed},
          {"stratify", split.stratify},
          {"group_by", split.group_by ? Json(*split.group_by) : Json(nullptr)}};
}

/// Safetensors that are taken as they are need no copy.
void import_file(const fs::path& file, const weights::Selection& selection,
                 const fs::path& folder) {
  const bool as_it_is = selection.section.empty() && selection.renaming.is_empty();
  if (weights::format_of(file) == weights::Format::torch || !as_it_is)
    weights::import_weights(file, folder / weights::kImportedName, selection);
}

// Also out of a checkpoint, which is a folder.
void take_weights(const RunRequest& request, const fs::path& folder) {
  const fs::path& path = request.task.weights;
  if (!fs::is_directory(path)) return import_file(path, request.weights, folder);
  checkpoint::export_weights(path, checkpoint::Weights::validated, folder / weights::kImportedName);
}

/// What a look at the folder of a run that is under way needs to tell how far it is.
Json course_of(const events::RunStarted& started) {
  return {{"world_size", started.world_size},
          {"steps_per_epoch", started.steps_per_epoch},
          {"max_epochs", started.max_epochs},
          {"global_batch", started.global_batch},
          {"train_samples", started.train_samples}};
}

}  // namespace

void write_config(const Start& start, const fs::path& folder) {
  const fs::path written = folder / "config.yaml";
  std::error_code failure;  // none: it goes on by the resolved file, which is in the folder
  const bool is_there = start.past.in_place && fs::exists(written) &&
                        fs::equivalent(start.request.config_file.parent_path(), folder, failure);
  if (!is_there) write_atomically(written, as_written(start.request.loaded.files));
  write_atomically(folder / "config.resolved.yaml", resolved(start.request));
}

void write_task(const spec::Task& task, const fs::path& folder) {
  std::error_code ignored;
  const fs::path file = folder / spec::kTaskFile;
  if (task == spec::Task{}) {
    fs::remove(file, ignored);
  } else {
    write_atomically(file, spec::dump_task(task));
  }
}

fs::path source_folder(const fs::path& config_file) {
  const char* told = std::getenv(kSourceFolder);
  return told != nullptr && *told != '\0' ? fs::path(told) : config_file.parent_path();
}

ManifestInput manifest_before(const Start& start) {
  return {.argv = start.request.argv,
          .config_file = start.request.config_file,
          .version = start.request.version,
          .started_at = {},
          .library_versions = {},
          .data_fingerprints = start.past.fingerprints,
          .threads = {},
          .thread_waiting = {},
          .workers = {},
          .batch_size = found_batch(start.request),
          .recomputes = {},
          .layout = {},
          .allocator = {},
          .split = split_entry(start.request.loaded.experiment.dataset),
          .plugins = Json::array(),
          .weights = nullptr,
          .machine = read_machine(),
          .git = git_state(source_folder(start.request.config_file))};
}

void write_manifest(ManifestInput input, const report::RunRecord& record, const fs::path& folder) {
  if (const auto hello = record.hellos.find(0); hello != record.hellos.end()) {
    input.library_versions = hello->second.versions;
    input.allocator = hello->second.allocator;
  }
  if (const auto& started = record.started) {
    input.data_fingerprints = started->data_fingerprints;
    input.threads = {started->num_threads, started->num_threads_why,
                     started->num_threads_taken > 0};
    input.workers = {started->num_workers, started->prefetch_factor, started->num_workers_why};
    input.recomputes = {started->recomputes, started->recomputes_why};
    input.layout = {started->channels_last, started->channels_last_why};
  }
  if (const auto& weights = record.weights) input.weights = report::weights_document(*weights);
  Json document = manifest(input);
  document["course"] = record.started ? course_of(*record.started) : Json(nullptr);
  write_atomically(folder / "manifest.json", to_pretty(document) + "\n");
}

void import_weights(const RunRequest& request, const fs::path& folder) {
  if (request.task.kind == spec::TaskKind::replay) return;  // its weights are in the dump
  if (request.task.kind != spec::TaskKind::train) {
    in_context("--checkpoint", [&] { take_weights(request, folder); });
    return;
  }
  const auto& wish = request.loaded.experiment.weights;
  if (!wish) return;
  in_context("weights", [&] {
    if (wish->sha256) weights::check_sha256(wish->path, *wish->sha256);
    // The workers rename: only the model tells which names fit.
    import_file(wish->path, {.section = wish->section}, folder);
  });
}

}  // namespace trainctl::study
