#include "study/run/run_inputs.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/strings.hpp"
#include "checkpoint/export.hpp"
#include "config/tree/load.hpp"
#include "report/text/run_summary.hpp"
#include "spec/plugins.hpp"
#include "weights/import.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <optional>
#include <system_error>
#include <utility>

namespace trainctl::study {
namespace {

// Returns the experiment file verbatim, followed by the files that it extends as comments, so that
// the folder is self-contained.
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
  return fmt::format("# loader.batch_size: auto was resolved to {}: {}\n{}",
                     request.loaded.experiment.loader.batch_size.samples, request.batch_size_why,
                     text);
}

Json found_batch(const RunRequest& request) {
  if (request.batch_size_why.empty()) return nullptr;
  return {{"value", request.loaded.experiment.loader.batch_size.samples},
          {"why", request.batch_size_why}};
}

/// Returns how the data set is split, and the file of the run folder that lists the samples of each
/// part.
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

/// Safetensors that are used unchanged need no copy.
void import_file(const fs::path& file, const weights::Selection& selection,
                 const fs::path& folder) {
  const bool as_it_is = selection.section.empty() && selection.renaming.is_empty();
  if (weights::format_of(file) == weights::Format::torch || !as_it_is)
    weights::import_weights(file, folder / weights::kImportedName, selection);
}

constexpr double kGitTimeout = 1.0;
constexpr std::array kKeptNames{"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER",
                                "OMP_NUM_THREADS",      "OMP_WAIT_POLICY",
                                "GOMP_SPINCOUNT",       "MKL_NUM_THREADS",
                                "GOMP_CPU_AFFINITY",    "MALLOC_CONF",
                                "LD_PRELOAD",           "TRAINCTL_DATA",
                                "TRAINCTL_TORCH_ROOT",  "SLURM_JOB_ID",
                                "SLURM_NNODES",         "PYTORCH_CUDA_ALLOC_CONF",
                                "GLIBC_TUNABLES",       "MIMALLOC_ALLOW_DECOMMIT"};

Json kept_environment() {
  Json kept = Json::object();
  for (const char* name : kKeptNames) {
    if (const char* value = std::getenv(name)) kept[name] = value;
  }
  return kept;
}

Json describe(const Machine& machine) {
  return {{"host", machine.host},
          {"kernel", machine.kernel},
          {"distribution", machine.distribution},
          {"cpu", machine.cpu_model},
          {"cpu_features", machine.cpu_features},
          {"cores", machine.cores},
          {"memory_bytes", machine.memory_bytes},
          {"gpus", machine.gpus},
          {"gpu_models", machine.gpu_models}};
}

// Reads until end of file, the deadline or a full buffer, whichever comes first.
std::string read_until_deadline(int fd) {
  std::string text;
  std::array<char, 4096> buffer{};
  const double deadline = steady_clock().now() + kGitTimeout;
  while (text.size() < buffer.size()) {
    const double left = deadline - steady_clock().now();
    pollfd ready{fd, POLLIN, 0};
    if (left <= 0 || ::poll(&ready, 1, static_cast<int>(left * 1000)) <= 0) break;
    const ssize_t count = ::read(fd, buffer.data(), buffer.size());
    if (count <= 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  return text;
}

// Returns the standard output of a command, or nullopt if the command failed.
std::optional<std::string> output_of(std::vector<std::string> command) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return std::nullopt;
  const Fd reader(ends[0]);
  Fd writer(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, writer.get(), STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::vector<char*> argv;
  for (std::string& word : command) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t pid = 0;
  const int failure = ::posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failure != 0) return std::nullopt;
  writer.reset();
  std::string text = read_until_deadline(reader.get());
  ::kill(pid, SIGKILL);  // harmless if it has already exited
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  const bool ended_well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  return ended_well || !text.empty() ? std::optional(text) : std::nullopt;
}

Json file_with_digest(const fs::path& file) {
  return in_context(fmt::format("plug-in '{}'", printable(file.string())), [&]() -> Json {
    const FileMapping bytes(file, ErrorKind::config);
    return {{"path", file.string()}, {"digest", to_hex(hash_bytes(bytes.bytes()))}};
  });
}

}  // namespace

void write_config(const Start& start, const fs::path& folder) {
  const fs::path written = folder / "config.yaml";
  std::error_code failure;  // on an error the resolved file in the folder is used
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
  const char* folder = std::getenv(kSourceFolder);
  return folder != nullptr && *folder != '\0' ? fs::path(folder) : config_file.parent_path();
}

ManifestInput manifest_before(const Start& start) {
  return {.argv = start.request.argv,
          .config_file = start.request.config_file,
          .version = start.request.version,
          .data_fingerprints = start.past.fingerprints,
          .batch_size = found_batch(start.request),
          .split = split_entry(start.request.loaded.experiment.dataset),
          .machine = read_machine(),
          .git = git_state(source_folder(start.request.config_file))};
}

void import_weights(const RunRequest& request, const fs::path& folder) {
  if (request.task.kind == spec::TaskKind::replay) return;  // the dump contains its weights
  if (request.task.kind != spec::TaskKind::train) {
    in_context("--checkpoint", [&] {
      const fs::path& path = request.task.weights;  // a file, or a checkpoint folder
      if (!fs::is_directory(path)) return import_file(path, request.weights, folder);
      checkpoint::export_weights(path, checkpoint::Weights::validated,
                                 folder / weights::kImportedName);
    });
    return;
  }
  const auto& pretrained = request.loaded.experiment.weights;
  if (!pretrained) return;
  in_context("weights", [&] {
    if (pretrained->sha256) weights::check_sha256(pretrained->path, *pretrained->sha256);
    // The workers apply the renaming, because only the model knows which names match.
    import_file(pretrained->path, {.section = pretrained->section}, folder);
  });
}

GitState git_state(const fs::path& folder) {
  const std::string place = folder.empty() ? "." : folder.string();
  const auto commit = output_of({"git", "-C", place, "rev-parse", "HEAD"});
  if (!commit || commit->size() < 40) return {};
  const auto changes =
      output_of({"git", "-C", place, "status", "--porcelain", "--untracked-files=no"});
  return {commit->substr(0, 40), changes && !changes->empty() ? "modified" : "clean"};
}

Json manifest(const ManifestInput& input, const report::RunRecord& record) {
  std::error_code failure;  // the folder may have been deleted in the meantime
  const std::string working_directory = fs::current_path(failure).string();
  const auto hello = record.hellos.find(0);
  const bool has_hello = hello != record.hellos.end();
  const events::RunStarted started = record.started.value_or(events::RunStarted());
  const auto where = [](bool is_known, Json value) { return is_known ? std::move(value) : Json(); };
  const std::string allocator = has_hello ? hello->second.allocator : "";
  return {
      {"schema", "trainctl.manifest/2"},
      {"version", input.version},
      {"started_at", input.started_at},
      {"argv", input.argv},
      {"config", input.config_file.string()},
      {"working_directory", working_directory},
      {"libraries", has_hello ? hello->second.versions : std::map<std::string, std::string>()},
      {"hardware", describe(input.machine)},
      {"environment", kept_environment()},
      {"data_fingerprints", record.started ? started.data_fingerprints : input.data_fingerprints},
      {"split", input.split},
      {"num_threads", where(record.started && started.num_threads > 0,
                            {{"value", started.num_threads},
                             {"why", started.num_threads_why},
                             {"contended", started.num_threads_taken > 0}})},
      {"thread_waiting", where(!input.thread_waiting.empty(), input.thread_waiting)},
      {"num_workers",
       where(started.prefetch_factor > 0, {{"value", started.num_workers},
                                           {"prefetch_factor", started.prefetch_factor},
                                           {"why", started.num_workers_why}})},
      {"batch_size", input.batch_size},
      {"activation_checkpointing",
       where(!started.recomputes_why.empty(),
             {{"value", started.recomputes ? "blocks" : "off"}, {"why", started.recomputes_why}})},
      {"channels_last",
       where(!started.channels_last_why.empty(),
             {{"value", started.channels_last}, {"why", started.channels_last_why}})},
      {"fp32_precision",
       where(!started.fp32_precision_why.empty(),
             {{"value", started.fp32_precision}, {"why", started.fp32_precision_why}})},
      {"benchmark", where(!started.benchmark_why.empty(),
                          {{"value", started.benchmark}, {"why", started.benchmark_why}})},
      {"allocator", where(!allocator.empty(), allocator)},
      {"plugins", input.plugins},
      {"weights", record.weights ? report::weights_document(*record.weights) : Json()},
      {"git", where(!input.git.commit.empty(),
                    {{"commit", input.git.commit}, {"state", input.git.status}})},
      {"course", where(record.started.has_value(),  // shows the progress of a running run
                       {{"world_size", started.world_size},
                        {"steps_per_epoch", started.steps_per_epoch},
                        {"max_epochs", started.max_epochs},
                        {"global_batch", started.global_batch},
                        {"train_samples", started.train_samples}})}};
}

Json plugin_files(const std::vector<fs::path>& libraries) {
  Json files = Json::array();
  for (const fs::path& library : libraries) {
    Json one = file_with_digest(library);
    const char* engine = spec::load_plugin(library).entry->engine;
    one["engine"] =
        engine == nullptr ? Json(nullptr) : file_with_digest(library.parent_path() / engine);
    files.push_back(std::move(one));
  }
  return files;
}

}  // namespace trainctl::study
