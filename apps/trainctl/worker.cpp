#include "cli/verb.hpp"
#include "launch/process/child.hpp"
#include "launch/process/stacks.hpp"
#include "launch/supervise/verdict.hpp"
#include "log/log.hpp"
#include "program.hpp"

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

namespace trainctl::app {
namespace {

int start_engine(const std::string& run_dir, const launch::WorkerEnv& environment) {
  const spec::Job job = spec::read_job(run_dir);
  const std::string& accelerator = environment.accelerator;
  const std::string& address = environment.group_address;
  const bool on_gpu = accelerator == "gpu";
  log::get().debug("rank {} of {}, pid {}, device '{}', engine {}", environment.rank,
                   environment.world_size, ::getpid(), accelerator,
                   find_engine_library(on_gpu).value_or("not found").string());
  const TrainctlEngineRequest request{
      .run_dir = run_dir.c_str(),
      .mode = spec::name_of(job.kind),
      .rank = environment.rank,
      .world_size = environment.world_size,
      .local_rank = environment.local_rank,
      .local_world_size = environment.local_world_size,
      .event_fd = environment.event_fd,
      .heartbeat_fd = environment.heartbeat_fd,
      .store_fd = environment.store_fd,
      .stop_signal = launch::stop_signal(),
      .accelerator = accelerator.empty() ? nullptr : accelerator.c_str(),
      .group_address = address.empty() ? nullptr : address.c_str()};
  const TrainctlEngineRun engine = load_engine(on_gpu);
  log::get().debug("rank {} of {}: the engine is loaded", environment.rank, environment.world_size);
  const int exit_code = engine(&request);
  log::get().debug("rank {}: the engine ended with {}", environment.rank, exit_code);
  // A signal during the last step came too late to stop the run; the exit code reports it, as the
  // supervisor's does.
  const int signal = *launch::stop_signal();
  if (exit_code != 0 || signal == 0) return exit_code;
  return static_cast<int>(signal == SIGINT ? ErrorKind::interrupted : ErrorKind::terminated);
}

/// Ends the process of a rank without the destructors of libtorch's static variables, which take
/// 0.1 s. On a GPU they run, because a profiler of the process may write its file at the exit.
int leave(int exit_code, const launch::WorkerEnv& environment) {
  if (environment.accelerator == "gpu") return exit_code;
  log::get().flush();
  std::fflush(nullptr);
  std::_Exit(exit_code);
}

int work(const std::string& run_dir, const Context& /*context*/) {
  launch::kill_group_on_exit();
  log::set_up(log::Level::verbose, log::Colors::off);  // stderr is logs/rank_N.log
  launch::install_stop_flag();
  const launch::WorkerEnv environment = launch::read_worker_env();
  launch::install_stack_handler(environment.stacks_fd);  // before the engine starts its threads
  try {
    return leave(start_engine(run_dir, environment), environment);
  } catch (const std::exception& exception) {
    // The engine reports its own errors; this error occurred before the engine ran.
    const Error error = to_error(exception);
    launch::write_error_file(fs::path(run_dir) / "logs", environment.rank, error);
    throw error;
  }
}

}  // namespace

void add_worker(CLI::App& program, Context& context) {
  const auto [verb, run_dir] = add_verb(
      program, context, {"worker", "one rank of a run; started by run, not by hand", ""}, work);
  add_options(verb, {{"--run-dir", run_dir, "TEXT", "run folder with config.resolved.yaml"}});
  verb.get_option("--run-dir")->required();
}

}  // namespace trainctl::app
