#include "study/run/run_start.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/strings.hpp"
#include "checkpoint/export.hpp"
#include "checkpoint/store.hpp"
#include "config/tree/load.hpp"
#include "log/log.hpp"
#include "report/record/run_files.hpp"
#include "report/text/run_summary.hpp"
#include "spec/experiment/experiment.hpp"
#include "spec/plugins.hpp"
#include "study/folder/run_folder.hpp"
#include "study/preflight/named_weights.hpp"
#include "study/resume/config_changes.hpp"
#include "study/run/run_ending.hpp"
#include "study/workers/devices.hpp"
#include "weights/import.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <system_error>

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
          {"val", split.share(spec::Part::val)},
          {"test", split.test},
          {"folds", split.folds ? Json(*split.folds) : Json(nullptr)},
          {"fold", split.folds ? Json(split.fold) : Json(nullptr)},
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

int world_size_of(const RunRequest& request) {
  const spec::Trainer& trainer = request.loaded.experiment.trainer;
  const int nodes = request.nodes ? request.nodes->nodes : 1;
  if (request.loaded.experiment.distributed.type == spec::Strategy::data_parallel) return 1;
  if (trainer.devices.value) return nodes * *trainer.devices.value;
  try {
    return nodes *
           choose_devices(trainer, read_machine(), [] { return launch::probe_gpus(); }).ranks;
  } catch (const Error&) {
    return 0;
  }
}

namespace {

Start start_at(RunRequest request, const fs::path& folder, ResumeOrigin origin) {
  request.job.resume = origin.checkpoint;
  request.job.accepts_data_change = !origin.checkpoint.empty() && request.resume &&
                                    request.resume->if_data_changed == IfDataChanged::restart_epoch;
  PriorState past = continue_run(request.loaded, folder, std::move(origin), world_size_of(request));
  return {std::move(request), std::move(past)};
}

/// Returns the run in which a checkpoint was made: its parent run, unless it was copied elsewhere.
fs::path source_of(const ResumeOrigin& origin, const fs::path& run_dir) {
  const fs::path parent = origin.checkpoint.parent_path();
  return parent.filename() == "checkpoints" ? parent.parent_path() : run_dir;
}

std::string fact(const ResumeOrigin& origin, const char* name) {
  const auto found = origin.manifest.facts.find(name);
  return found == origin.manifest.facts.end() ? std::string() : found->second;
}

/// Returns the resolved config of the checkpoint, or else of its run; empty if both are missing.
std::string config_of(const ResumeOrigin& origin, const fs::path& run_dir) {
  if (std::string kept = fact(origin, "config"); !kept.empty()) return kept;
  return resolved_config_of(source_of(origin, run_dir)).value_or("");
}

struct Resumption {
  const spec::Loaded& loaded;
  const ResumeOrigin& origin;
  std::string config_before;
  int world_size = 0;

  [[nodiscard]] StepSamples samples() const {
    return {.ranks_before = origin.manifest.world_size,
            .ranks_now = world_size,
            .batch_before = resolved_number(config_before, "loader.batch_size").value_or(0),
            .batch_now = loaded.experiment.loader.batch_size};
  }
};

/// Records the accepted changes as notices and throws for the others.
void compare(const Resumption& resumption, PriorState& past) {
  if (resumption.config_before.empty()) return;
  const ResumeOrigin& origin = resumption.origin;
  const StepSamples samples = resumption.samples();
  auto changes =
      config_changes(resumption.config_before, resumption.loaded, fact(origin, "device"));
  accept_same_global_batch(changes, samples);
  refuse_changes(changes, origin.checkpoint.string(), same_global_batch_clause(samples));
  past.why_not_bitwise = why_not_bitwise(changes);
  for (const std::string& notice : {changes_text(changes), global_batch_notice(samples)}) {
    if (!notice.empty()) past.notices.push_back(notice);
  }
}

/// Returns the fingerprints of the data that the checkpoint was trained on; manifest.json may
/// belong to a later start.
std::map<std::string, std::string> fingerprints_of(const ResumeOrigin& origin,
                                                   const fs::path& run_dir) {
  std::map<std::string, std::string> found = recorded_fingerprints(origin.manifest);
  return found.empty() ? recorded_fingerprints(source_of(origin, run_dir)) : found;
}

/// Reports only rows that the previous start did not write; gaps of earlier starts were reported
/// when that start began.
void warn_about_gap(const fs::path& run_dir, const ResumePoint& point, const std::string& config,
                    PriorState& past) {
  const auto from = last_origin(run_dir);
  if (!from) return;
  const auto log_every = resolved_number(config, "trainer.log_every_n_steps");
  std::string missing = missing_history(run_dir, {*from, point, log_every.value_or(0)});
  if (!missing.empty()) past.notices.push_back(std::move(missing));
}

/// Marks the epochs that improved the monitor, which epochs.csv does not record.
void mark_improved(std::vector<events::EpochEnded>& epochs, const spec::Experiment& experiment) {
  const std::string monitor = spec::checkpoint_monitor(experiment);
  const spec::Mode mode = spec::resolve_mode(experiment.checkpoint.mode, monitor);
  std::optional<double> best;
  for (events::EpochEnded& epoch : epochs) {
    const auto value = events::find_metric(epoch.metrics, monitor);
    if (!value) continue;
    epoch.improved = !best || (mode == spec::Mode::min ? *value < *best : *value > *best);
    if (epoch.improved) best = value;
  }
}

std::int64_t last_step_in(std::string_view lines) {
  while (!lines.empty()) {
    lines.remove_suffix(lines.ends_with('\n') ? 1 : 0);
    const std::size_t before = lines.rfind('\n');
    const std::size_t start = before == std::string_view::npos ? 0 : before + 1;
    const Json line = parse_json(lines.substr(start));
    const bool has_step = line.is_object() && line.contains("step");
    if (has_step && line["step"].is_number_integer()) return line["step"].get<std::int64_t>();
    lines = lines.substr(0, start);
  }
  return 0;
}

std::string ends_with(const char* file, std::string_view what, std::int64_t last) {
  return last > 0 ? fmt::format("{} ends with {} {}", file, what, with_thousands(last))
                  : fmt::format("{} has no {}", file, what);
}

std::string missing_epochs(const fs::path& csv, const HistoryRange& range) {
  if (!is_file(csv) || range.to.epoch <= range.from.epoch) return "";
  const auto epochs = report::read_epochs(csv);
  const std::int64_t last = epochs.empty() ? 0 : epochs.back().epoch + 1;
  return last < range.to.epoch ? ends_with("epochs.csv", "epoch", last) : "";
}

std::string missing_steps(const fs::path& lines, const HistoryRange& range) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 32;
  if (!is_file(lines) || range.log_every <= 0) return "";
  const std::int64_t logged = range.to.global_step / range.log_every * range.log_every;
  if (logged <= range.from.global_step) return "";
  const std::int64_t last = last_step_in(read_file(lines, kMostBytes, ReadFailure::resource));
  return last < logged ? ends_with("metrics.jsonl", "step", last) : "";
}

}  // namespace

ResumeOrigin first_origin(const RunRequest& request, const fs::path& folder) {
  if (!request.resume) return {};
  if (restore_superseded(folder))
    log::get().warn("{}: restored the checkpoints and files that a failed --resume had moved",
                    printable(folder.string()));
  if (const std::string note = restore_if_possible(folder); !note.empty())
    log::get().warn("{}", note);
  return choose_checkpoint(folder, *request.resume);
}

Start first_start(const RunRequest& request, const fs::path& folder, ResumeOrigin origin) {
  if (!request.resume) return {request, {}};
  return start_at(request, folder, std::move(origin));
}

Start restarted(const RunRequest& request, const fs::path& folder, const Restarts& restarts) {
  Start start = start_at(request, folder, *restarts.next());
  start.past.notices.insert(start.past.notices.begin(), restarts.notice());
  return start;
}

void expect_same_experiment(const spec::Loaded& loaded, const fs::path& run_dir,
                            const ResumeOrigin& origin, int world_size) {
  PriorState unused;
  compare({loaded, origin, config_of(origin, run_dir), world_size}, unused);
}

PriorState continue_run(const spec::Loaded& loaded, const fs::path& run_dir, ResumeOrigin origin,
                        int world_size) {
  PriorState past;
  past.wall_s = earlier_wall_s(run_dir);  // must be read before files are rewritten
  past.notices = origin.damaged;
  std::error_code ignored;
  const bool is_own =
      !origin.checkpoint.empty() &&
      fs::equivalent(origin.checkpoint.parent_path(), run_dir / "checkpoints", ignored);
  ResumePoint point{.of_this_run = is_own};
  if (!origin.checkpoint.empty()) {
    compare({loaded, origin, config_of(origin, run_dir), world_size}, past);
    past.fingerprints = fingerprints_of(origin, run_dir);
    point.epoch = origin.manifest.epoch;
    point.global_step = origin.manifest.global_step;
  }
  std::vector<std::string> damaged = damaged_history(run_dir);
  if (const auto superseded = supersede_history(run_dir, point)) {
    past.in_place = true;
    past.epochs = report::read_epochs(run_dir / "epochs.csv");
    mark_improved(past.epochs, loaded.experiment);
  }
  for (std::string& note : damaged) past.notices.push_back(std::move(note));
  if (is_own) warn_about_gap(run_dir, point, config_of(origin, run_dir), past);
  if (origin.checkpoint.empty()) commit_superseded(run_dir);  // no worker can reject the first step
  if (is_own)
    checkpoint::Store(run_dir / "checkpoints").point(checkpoint::Link::last, origin.checkpoint);
  past.origin = std::move(origin);
  return past;
}

std::optional<checkpoint::Moment> last_origin(const fs::path& run_dir) {
  const Json result = read_object(run_dir / "result.json");
  if (result.is_null() || !result.contains("resumed_from")) return std::nullopt;
  const Json& from = result["resumed_from"];
  if (from.is_null()) return checkpoint::Moment{};
  if (!from.is_object() || !from.contains("path") || !from["path"].is_string()) return std::nullopt;
  return checkpoint::parse_folder_name(
      fs::path(from["path"].get<std::string>()).filename().string());
}

std::string missing_history(const fs::path& run_dir, const HistoryRange& range) {
  std::string text = missing_epochs(run_dir / "epochs.csv", range);
  const std::string steps = missing_steps(run_dir / "metrics.jsonl", range);
  if (!text.empty() && !steps.empty()) text += ", ";
  text += steps;
  if (text.empty()) return text;
  return fmt::format(
      "{}, and the checkpoint is at step {} (epoch {}): the entries in between are lost", text,
      with_thousands(range.to.global_step), range.to.epoch + 1);
}

void write_config(const Start& start, const fs::path& folder) {
  const fs::path written = folder / "config.yaml";
  std::error_code failure;  // on an error the resolved file in the folder is used
  const bool is_there = start.past.in_place && fs::exists(written) &&
                        fs::equivalent(start.request.config_file.parent_path(), folder, failure);
  if (!is_there) write_atomically(written, as_written(start.request.loaded.files));
  write_atomically(folder / "config.resolved.yaml", resolved(start.request));
}

void write_job(const spec::Job& job, const fs::path& folder) {
  std::error_code ignored;
  const fs::path file = folder / spec::kJobFile;
  if (job == spec::Job{}) {
    fs::remove(file, ignored);
  } else {
    write_atomically(file, spec::dump_job(job));
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
  if (request.job.kind == spec::JobKind::replay) return;  // the dump contains its weights
  if (request.job.kind != spec::JobKind::train) {
    in_context("--checkpoint", [&] {
      const fs::path& path = request.job.weights;  // a file, or a checkpoint folder
      if (!fs::is_directory(path)) return import_file(path, request.weights, folder);
      checkpoint::export_weights(path, checkpoint::Weights::validated,
                                 folder / weights::kImportedName);
    });
    return;
  }
  const auto& pretrained = request.loaded.experiment.weights;
  if (!pretrained) return;
  in_context("weights", [&] {
    const fs::path file = local_weights(pretrained->path);
    if (pretrained->sha256) weights::check_sha256(file, *pretrained->sha256);
    // The workers apply the renaming, because only the model knows which names match.
    import_file(file, {.section = pretrained->section}, folder);
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
      {"task", where(!started.task.empty(), started.task)},
      {"num_threads", where(record.started && started.num_threads > 0,
                            {{"value", started.num_threads},
                             {"why", started.num_threads_why},
                             {"contended", started.num_threads_taken > 0}})},
      {"thread_waiting", where(!input.thread_waiting.empty(), input.thread_waiting)},
      {"num_workers",
       where(started.prefetch_factor > 0, {{"value", started.num_workers},
                                           {"prefetch_factor", started.prefetch_factor},
                                           {"why", started.num_workers_why},
                                           {"contended", started.num_workers_taken > 0}})},
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
