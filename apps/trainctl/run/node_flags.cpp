#include "run/node_flags.hpp"

#include "launch/launchers/launcher_environment.hpp"
#include "launch/process/isolated_process.hpp"
#include "program.hpp"
#include "study/nodes/node_run.hpp"

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

}  // namespace

void add_node_flags(CLI::App& verb, NodeFlags& flags) {
  // torchrun accepts underscores too.
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

std::vector<std::string> overrides_of(const NodeFlags& flags) {
  if (flags.nodes == 0) return {};
  return {fmt::format("++trainer.num_nodes={}", flags.nodes)};
}

study::RunRequest placed(study::RunRequest request, const NodeFlags& flags, const Reload& reload,
                         Context& context) {
  const int nodes = request.loaded.experiment.trainer.num_nodes;
  study::NodePlan plan = place_node(placement_request_of(request, flags), context);
  if (plan.is_alone() && !plan.task && nodes == 1) return request;
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

}  // namespace trainctl::app
