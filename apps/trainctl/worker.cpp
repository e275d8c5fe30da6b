#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "context.hpp"
#include "engine_library.hpp"
#include "launch/worker_env.hpp"
#include "verbs.hpp"

namespace trainctl::app {
namespace {

int work(const std::string& run_dir) {
  launch::install_stop_flag();
  const launch::WorkerEnv environment = launch::read_worker_env();
  const TrainctlEngineRun engine = load_engine();
  const TrainctlEngineRequest request{.run_dir = run_dir.c_str(),
                                      .mode = "train",
                                      .rank = environment.rank,
                                      .world_size = environment.world_size,
                                      .local_rank = environment.local_rank,
                                      .local_world_size = environment.local_world_size,
                                      .event_fd = environment.event_fd,
                                      .heartbeat_fd = environment.heartbeat_fd,
                                      .store_fd = environment.store_fd,
                                      .stop_signal = launch::stop_signal()};
  return engine(&request);
}

// An error before the engine runs has to reach the supervisor, too: the log alone would hide it.
int work_and_tell(const std::string& run_dir) {
  try {
    return work(run_dir);
  } catch (const Error& error) {
    launch::write_error_file(std::filesystem::path(run_dir) / "logs", launch::rank_or_zero(), error);
    throw;
  }
}

}  // namespace

void add_worker(CLI::App& program, Context& context) {
  const auto run_dir = std::make_shared<std::string>();
  CLI::App& verb = add_verb(program, context, {"worker", "one rank of a run; started by run, not by hand", ""},
                            [run_dir] { return work_and_tell(*run_dir); });
  verb.add_option("--run-dir", *run_dir, "run folder with config.resolved.yaml")->required();
}

}  // namespace trainctl::app
