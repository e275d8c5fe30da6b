#include "base/machine/machine.hpp"
#include "cli/run_arguments.hpp"
#include "cli/verb.hpp"
#include "data/image/codec/png.hpp"
#include "launch/launchers/launcher_environment.hpp"
#include "launch/process/isolated_process.hpp"
#include "launch/process/signals.hpp"
#include "log/log.hpp"
#include "program.hpp"
#include "report/text/job_results.hpp"
#include "report/text/run_summary.hpp"
#include "study/folder/run_folder.hpp"
#include "study/nodes/node_plan.hpp"
#include "study/nodes/node_run.hpp"
#include "study/resume/resume.hpp"
#include "study/run/loggers.hpp"
#include "study/run/step_replay.hpp"
#include "study/tune/batch_size_search.hpp"
#include "study/workers/worker_jobs.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace trainctl::app {
namespace {

constexpr double kExchangeSeconds = 300;

/// Runs in a child process, since the engine stays loaded. Request and reply fit in the buffer of a
/// socket, so one process can hold both ends.
std::string ask_engine(const std::string& text) {
  std::array<int, 2> ends{};
  ENSURE(resource, ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0,
         "cannot create a socket: {}", std::strerror(errno));
  const Fd ours(ends[0]);
  Fd theirs(ends[1]);
  write_all(ours.get(), text, "the broadcast request");
  ::shutdown(ours.get(), SHUT_WR);
  const TrainctlEngineRequest request{.run_dir = "",
                                      .mode = "exchange",
                                      .rank = 0,
                                      .world_size = 1,
                                      .local_rank = 0,
                                      .local_world_size = 1,
                                      .event_fd = -1,
                                      .heartbeat_fd = -1,
                                      .store_fd = theirs.get(),
                                      .stop_signal = nullptr,
                                      .accelerator = nullptr};
  const int kind = load_engine()(&request);
  theirs.reset();
  std::string answer = launch::read_to_end(ours.get());
  if (kind != 0) throw Error(static_cast<ErrorKind>(kind), std::move(answer));
  return answer;
}

std::string exchange(const launch::LauncherTask& task, Json request) {
  request["host"] = task.master_addr;
  request["port"] = task.master_port.value_or(0);
  request["timeout_s"] = kExchangeSeconds;
  const auto body = [text = to_line(request)] {
    ::alarm(static_cast<unsigned>(2 * kExchangeSeconds));  // ends a connection that hangs
    ::setenv("TORCH_CPP_LOG_LEVEL", "FATAL", 0);           // its errors are reported as ours
    return ask_engine(text);
  };
  return launch::run_isolated(body, {.process_name = "the process that uses torchrun's store"})
      .text;
}

/// Returns functions that exchange data with torchrun's store in child processes that load the
/// engine. Must be called while this process has one thread.
study::RendezvousStore connect_agent_store(const launch::LauncherTask& task) {
  return {.publish =
              [task](const std::string& key, const std::string& text) {
                exchange(task, {{"do", "publish"}, {"key", key}, {"text", text}});
              },
          .fetch =
              [task](const std::string& key) {
                return exchange(task, {{"do", "fetch"}, {"key", key}});
              }};
}

constexpr int kMostNodes = 1024;

/// The command line settings of a run on several nodes.
struct NodeFlags {
  int nodes = 0;  // 0: not given, the file decides
  int node = -1;  // -1: not given
  std::string endpoint;
  std::string id;
  std::string token_file;
  bool any_address = false;
};

study::PlacementRequest placement_request_of(const study::RunRequest& request,
                                             const NodeFlags& flags) {
  const spec::Trainer& trainer = request.loaded.experiment.trainer;
  study::PlacementRequest placement;
  if (flags.nodes > 0 || trainer.num_nodes > 1) placement.nodes = trainer.num_nodes;
  if (flags.node >= 0) placement.node = flags.node;
  placement.endpoint = flags.endpoint;
  placement.id = flags.id;
  placement.token_file = flags.token_file;
  placement.out = request.folder.root;
  placement.devices = trainer.devices.value;
  return placement;
}

/// Determines the position from the flags, or else from the launcher. It may wait for node 0.
study::NodePlan place_node(study::PlacementRequest placement, Context& context) {
  placement.token_digits = context.token_digits;
  const auto task = launch::find_launcher_task([](const char* name) { return std::getenv(name); });
  study::NodePlan plan = study::plan_node(placement, task, connect_agent_store);
  if (plan.task && !plan.is_coordinator()) context.quiet = true;  // from now on, except for errors
  if (!plan.description.empty() && !context.quiet && !context.json)
    writer_for(stderr)(printable(plan.description) + "\n");
  return plan;
}

/// Returns the flags as they were given, for the command that resumes the run.
std::vector<std::string> words_of(const NodeFlags& flags) {
  std::vector<std::string> words;
  const auto add = [&](const char* flag, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {flag, value});
  };
  add("--nnodes", flags.nodes > 0 ? std::to_string(flags.nodes) : "");
  add("--node-rank", flags.node >= 0 ? std::to_string(flags.node) : "");
  add("--rdzv-endpoint", flags.endpoint);
  add("--rdzv-id", flags.id);
  add("--rdzv-token-file", flags.token_file);
  if (flags.any_address) words.emplace_back("--allow-public-address");
  return words;
}

/// Adds the options, also with underscores: torchrun accepts them too.
void add_node_flags(CLI::App& verb, NodeFlags& flags) {
  add_options(
      verb,
      {{"--nnodes", flags.nodes, "N", "number of machines (default: trainer.num_nodes)",
        within(1, kMostNodes)},
       {"--node-rank,--node_rank", flags.node, "K",
        "rank of this machine; node 0 writes the run folder", within(0, kMostNodes - 1)},
       {"--rdzv-endpoint,--rdzv_endpoint", flags.endpoint, "HOST:PORT",
        "address of node 0 in a private network"},
       {"--rdzv-id,--rdzv_id", flags.id, "ID", "name of the run, the same on all nodes"},
       {"--rdzv-token-file,--rdzv_token_file", flags.token_file, "FILE",
        "file with the shared secret, mode 0600 (default: the secret in $TRAINCTL_RDZV_TOKEN)"},
       {"--allow-public-address", flags.any_address,
        "allow node 0 to listen on a public address, without encryption"}});
}

/// Returns the request with its position among the nodes, from the flags, trainer.num_nodes, or the
/// launcher that started this process. A run on one node is returned unchanged; `reload` loads the
/// request again with more overrides. Throws the errors of study::plan_node().
study::RunRequest placed(study::RunRequest request, const NodeFlags& flags, const auto& reload,
                         Context& context) {
  const int nodes = request.loaded.experiment.trainer.num_nodes;
  study::NodePlan plan = place_node(placement_request_of(request, flags), context);
  if (plan.is_alone() && !plan.task && nodes == 1) return request;
  ENSURE(config, plan.devices_per_node == 0 || !request.loaded.experiment.trainer.devices.is_list(),
         "trainer.devices lists GPUs, but the launcher starts a task for each device\nhint: write "
         "a number, and set CUDA_VISIBLE_DEVICES to choose GPUs");
  std::vector<std::string> overrides;
  if (plan.nodes != nodes) overrides.push_back(fmt::format("++trainer.num_nodes={}", plan.nodes));
  if (plan.devices_per_node > 0)
    overrides.push_back(fmt::format("++trainer.devices={}", plan.devices_per_node));
  if (!overrides.empty()) request = reload(overrides);
  request.node_flags = words_of(flags);
  request.any_address = flags.any_address;
  request.connect_store = connect_agent_store;
  request.nodes = std::move(plan);
  return request;
}

/// Takes part in the run of node 0, prints how it ended, and returns the exit code.
int take_part(const study::RunRequest& request, const Context& context) {
  const auto say = [&](const std::string& line) {
    if (!context.quiet && !context.json) writer_for(stderr)(printable(line) + "\n");
  };
  const study::JoinedOutcome run = study::join_run(request, say, steady_clock());
  const int node = request.nodes->node;
  const bool shares_stdout = request.nodes->task.has_value();  // with node 0, which has a result
  if (context.json && !shares_stdout) {
    print_json({{"schema", "trainctl.node/2"},
                {"node", node},
                {"verdict", run.verdict},
                {"exit_code", run.exit_code},
                {"message", run.message},
                {"run_dir", run.folder.string()}});
    if (run.exit_code == static_cast<int>(ErrorKind::resource))
      print_error(context, fmt::format("node {}: {}", node, printable_lines(run.message)));
  } else if (run.exit_code != 0) {
    writer_for(stderr)(fmt::format("node {}: the run ended as {} (exit code {}){}{}\n", node,
                                   printable(run.verdict), run.exit_code,
                                   run.message.empty() ? "" : ": ", printable_lines(run.message)));
  } else if (!context.quiet && !context.json) {
    print(fmt::format("node {}: the run is done; see {}", node, printable(run.folder.string())));
  }
  return run.exit_code;
}

/// Encodes the image through a temporary file, since the PNG writer only writes files.
report::tensorboard::Picture picture_of(const fs::path& folder, int width, int height,
                                        const std::vector<unsigned char>& rgb) {
  constexpr std::uint64_t kMostBytes = 64 << 20;
  const fs::path file = folder / ".picture.png";
  data::write_png(file, data::ImageView(rgb.data(), {height, width, 3}));
  report::tensorboard::Picture picture{
      .width = width, .height = height, .png = read_file(file, kMostBytes, ReadFailure::resource)};
  std::error_code ignored;
  fs::remove(file, ignored);
  return picture;
}

/// Returns a function that creates the loggers of the experiment for each start of its run.
/// `request` and `context` must outlive it.
study::MakeSinks loggers_of(const study::RunRequest& request, const Context& context) {
  const std::vector<std::string> columns = study::metric_columns(request.loaded.experiment);
  const auto starts = std::make_shared<int>(0);
  return [&request, &context, columns, starts](const fs::path& run_dir) {
    return study::make_loggers(
        {.run_dir = run_dir,
         .loaded = request.loaded,
         .console = console_options(context, columns),
         .version = request.version,
         .host = read_machine().host,
         .restarts = (*starts)++,
         .class_names = request.samples.class_names,
         .picture = [run_dir](int width, int height, const std::vector<unsigned char>& rgb) {
           return picture_of(run_dir, width, height, rgb);
         }});
  };
}

struct RunFlags {
  ConfigArguments config;
  std::string out = "runs";
  std::string run_dir;
  std::string resume;  // auto, last, best or a path; empty: a new run
  bool accept_data_change = false;
  bool break_lock = false;
  int max_restarts = -1;  // -1: not given, the file decides
  int until_epoch = 0;    // 0: until the end
  std::string replay_step;
  std::string profile;  // "true": use the settings of the file or the defaults
  NodeFlags nodes;
};

/// Returns the overrides of the `profiler` section for `--profile=WAIT,WARMUP,ACTIVE`.
std::vector<std::string> profile_overrides(const std::string& flag) {
  if (flag == "true") return {"++profiler={}"};
  const std::vector<std::string> numbers = split(flag, ',');
  ENSURE(config, numbers.size() == 3,
         "--profile must be three numbers of steps, WAIT,WARMUP,ACTIVE, as in --profile=10,2,5, "
         "got '{}'",
         printable(flag));
  return {"++profiler.wait=" + numbers[0], "++profiler.warmup=" + numbers[1],
          "++profiler.active=" + numbers[2]};
}

/// Returns the experiment with the profiler of the flag.
spec::Loaded profiled(spec::Loaded loaded, const std::string& flag) {
  if (flag.empty() || (flag == "true" && loaded.experiment.profiler)) return loaded;
  config::Diagnostics found;  // its warnings were printed before
  loaded = spec::overridden(std::move(loaded), profile_overrides(flag), found);
  found.throw_if_errors();
  return loaded;
}

std::vector<std::string> joined(std::vector<std::string> words,
                                const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

study::RunRequest request_for(const RunFlags& flags, const std::vector<std::string>& added,
                              Context& context) {
  std::vector<std::string> changes;
  if (flags.max_restarts >= 0)
    changes.push_back(fmt::format("++trainer.max_restarts={}", flags.max_restarts));
  if (flags.nodes.nodes > 0)
    changes.push_back(fmt::format("++trainer.num_nodes={}", flags.nodes.nodes));
  changes = joined(changes, added);
  study::RunRequest request =
      study::make_request(invocation_of(flags.config, context), changes, context.diagnostics);
  request.loaded = profiled(std::move(request.loaded), flags.profile);
  request.overrides = flags.config.overrides;
  request.folder.root = flags.out;
  if (!flags.run_dir.empty()) request.folder.fixed = flags.run_dir;
  if (!flags.resume.empty()) request.resume = study::parse_resume(flags.resume);
  if (request.resume && flags.accept_data_change)
    request.resume->if_data_changed = study::IfDataChanged::restart_epoch;
  if (flags.until_epoch > 0) request.job.until_epoch = flags.until_epoch;
  if (flags.break_lock) request.folder.if_locked = study::IfLocked::take_over;
  return request;
}

/// Returns whether the run resumes from a checkpoint; false if `auto` starts from scratch.
bool finds_checkpoint(const study::RunRequest& request) {
  if (!request.resume) return false;
  if (request.resume->from != study::ResumeFrom::automatic) return true;
  const study::FolderRequest folder = study::resumed_folder(request.folder, *request.resume);
  return folder.fixed && study::has_checkpoint(*folder.fixed);
}

void print_ending(const study::RunOutcome& run, const Context& context) {
  if (context.json) {
    Json document = run.result;  // the file does not name its folder, which can be moved
    document["run_dir"] = run.folder.string();
    print_json(document);
  }
  if (!run.complete.empty()) {
    if (!context.json) print(context.quiet ? run.folder.string() : printable(run.complete));
    return;
  }
  if (!run.write_error.empty()) {
    writer_for(stderr)(fmt::format("result.json was not written ({}). Its content:\n{}\n",
                                   printable(run.write_error), to_pretty(run.result)));
  }
  if (run.ending.exit_code != 0) {
    print_failure(context, run.record, run.ending);
  } else if (!context.json) {
    writer_for(stdout)(
        context.quiet ? run.folder.string() + "\n"
                      : report::summary_text(run.record, run.ending, style_for(context, stdout)));
  }
}

/// Handles a missing experiment file or a run folder in its place: the run in the folder resumes
/// with its resolved config. Without a folder the default experiment is used.
RunFlags with_config(RunFlags flags, const Context& context) {
  std::error_code ignored;
  if (!flags.resume.empty() && !flags.config.file.empty())
    flags.config.file = run_word(
        flags.config.file, flags.out,
        flags.resume == "best" ? study::RunNeeds::resumable_best : study::RunNeeds::resumable);
  const bool resumes_by_link =
      flags.resume == "auto" || flags.resume == "last" || flags.resume == "best";
  if (!resumes_by_link)
    flags.resume = run_word(flags.resume, flags.out, study::RunNeeds::resumable);
  const bool is_run = is_folder(flags.config.file);
  const bool names_folder =
      !flags.resume.empty() &&
      (!flags.run_dir.empty() || study::parse_resume(flags.resume).from == study::ResumeFrom::path);
  if (flags.config.file.empty() && !names_folder)
    flags.config.file = default_config(context, Builtin::quickstart);
  if (flags.resume.empty() || !(flags.config.file.empty() || is_run)) return flags;
  std::string& folder = flags.run_dir;
  if (is_run) {
    ENSURE(config, folder.empty(),
           "both {} and --run-dir {} name a run folder\nhint: remove --run-dir",
           printable(flags.config.file), printable(folder));
    folder = flags.config.file;
  } else if (folder.empty()) {
    folder = study::run_folder_of(study::parse_resume(flags.resume)).string();
    flags.resume = fs::equivalent(folder, flags.resume, ignored) ? "last" : flags.resume;
  }
  const fs::path resolved = fs::canonical(folder, ignored);  // `latest` may change in the meantime
  if (!ignored) folder = resolved.string();
  flags.config.file = (fs::path(folder) / "config.resolved.yaml").string();
  if (const std::string said = study::restore_resolved_config(folder); !said.empty())
    log::get().warn("{}", said);
  ENSURE(config, is_file(flags.config.file),
         "{} is not a run folder: it has no config.resolved.yaml", printable(folder));
  return flags;
}

/// Repeats the step of a dump and prints the results. Returns 0 if the step could be repeated,
/// whatever its values.
int replay_step(const RunFlags& flags, Context& context) {
  const study::Invocation invocation = invocation_of(flags.config, context);
  study::ReplayPlan plan =
      study::plan_replay(invocation, run_word(flags.replay_step, flags.out), context.diagnostics);
  print_warnings(context);
  report::Replay replay = plan.replay;
  const study::RunRequest request = study::replay_request(invocation, std::move(plan));
  const launch::SignalGuard guard;  // until the scratch folder is removed
  study::ScratchFolder scratch(study::temporary_folder());
  study::RunOutcome outcome = run_job(request, scratch.path(), Tables::none, context);
  if (outcome.ending.exit_code != 0) return report_failed_job(outcome, &scratch, context);
  ENSURE(unexpected, outcome.record.replayed.has_value(), "no rank reported the repeated step");
  replay.step = *outcome.record.replayed;
  if (context.json) return print_json(report::replay_document(replay));
  put(stdout, report::replay_text(replay, style_for(context, stdout)));
  return 0;
}

int run(const RunFlags& typed, Context& context) {
  keep_running_without_output(LostOutput::is_tolerated);
  launch::exit_on_stop_signals();  // nothing to save so far
  if (!typed.replay_step.empty()) return replay_step(typed, context);
  ENSURE(config, !typed.accept_data_change || !typed.resume.empty(),
         "--accept-data-change requires --resume\nhint: add --resume auto, or remove "
         "--accept-data-change");
  const RunFlags flags = with_config(typed, context);
  std::vector<std::string> of_place;
  const auto reload = [&](const std::vector<std::string>& overrides) {
    context.diagnostics = {};
    of_place = overrides;
    return request_for(flags, overrides, context);
  };
  const auto remake = [&](const std::vector<std::string>& overrides) {
    context.diagnostics = {};
    return request_for(flags, joined(of_place, overrides), context);
  };
  const auto remake_as_trial = [&](const std::vector<std::string>& overrides) {
    RunFlags trial = flags;
    trial.profile.clear();
    trial.resume.clear();
    return request_for(trial, joined(of_place, overrides), context);
  };
  study::RunRequest request = placed(request_for(flags, {}, context), flags.nodes, reload, context);
  const launch::SignalGuard guard;  // also active between the parts of the run
  if (request.nodes && !request.nodes->is_coordinator()) return take_part(request, context);
  if (request.loaded.experiment.loader.batch_size.automatic)
    request = study::with_measured_batch({request, remake, remake_as_trial},
                                         progress_printer(context), steady_clock());
  if (!finds_checkpoint(request) && study::names_parameters(request.loaded)) {
    check_model(request.loaded, request.samples, context.diagnostics);
    context.diagnostics.throw_if_errors();
  }
  print_warnings(context);
  const study::RunOutcome outcome =
      study::run_experiment(request, loggers_of(request, context), steady_clock());
  print_ending(outcome, context);
  return outcome.ending.exit_code;
}

}  // namespace

void add_run(CLI::App& program, Context& context) {
  const auto [verb, flags] = add_verb(
      program, context,
      {"run", "train a model and write a run folder", kTrainGroup, WorkingDirectory::existing},
      run);
  add_config_arguments(verb, flags.config, context);
  context.complete_arguments.erase(&verb);  // a run folder may provide the experiment
  add_options(
      verb,
      {{"--out", flags.out, "DIR", "parent folder of the run folders (default: runs)"},
       {"--run-dir", flags.run_dir, "DIR", "run folder; new or empty unless --resume is given"},
       {"--resume", flags.resume, "WHICH",
        "resume from: auto (the newest checkpoint, if any), last, best, a path or run name"},
       {"--accept-data-change", flags.accept_data_change,
        "with --resume: accept changed data and restart the interrupted epoch"},
       {"--max-restarts", flags.max_restarts, "N", "restart up to N times after a failure or hang",
        within(0, 1000)},
       {"--until-epoch", flags.until_epoch, "N", "save a checkpoint and stop after epoch N",
        whole_number(1, 1'000'000'000)},
       {"--break-lock", flags.break_lock, "remove an exited process's lock on the run folder"},
       {"--profile", flags.profile,
        "profile a few steps; set the step numbers with --profile=WAIT,WARMUP,ACTIVE"}});
  add_node_flags(verb, flags.nodes);
  add_options(verb, {{"--replay-step", flags.replay_step, "PATH",
                      "repeat the saved step of a diverged run instead of training"}});
}

}  // namespace trainctl::app
