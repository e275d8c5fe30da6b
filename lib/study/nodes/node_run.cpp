#include "study/nodes/node_run.hpp"

#include "base/strings.hpp"
#include "launch/nodes/node_supervisor.hpp"
#include "launch/rendezvous/address.hpp"
#include "log/log.hpp"
#include "study/folder/folder_lock.hpp"
#include "study/workers/devices.hpp"
#include "study/workers/worker_launch.hpp"

#include <poll.h>

#include <chrono>
#include <thread>

namespace trainctl::study {
namespace {

// This is longer than the pause between two connection attempts of a node, and short for a user who
// waits for the prompt.
constexpr double kLateJoinTimeoutS = 5;

using launch::NodeLink;

// Between attempts node 0 looks for a checkpoint and waits for memory, and does not answer.
constexpr double kPauseS = 300;
constexpr int kTickMs = 200;

/// Stop signals that arrive while no ranks run here.
class StopSignals {
 public:
  bool received() {
    for (const int signal : guard_.take()) {
      if (!first_) first_ = signal;
      ++number_;
    }
    return first_.has_value();
  }
  [[nodiscard]] int number() const { return number_; }
  [[nodiscard]] int first() const { return first_.value_or(SIGTERM); }
  [[nodiscard]] int fd() const { return guard_.fd(); }

 private:
  launch::SignalGuard guard_;
  std::optional<int> first_;
  int number_ = 0;
};

JoinedOutcome stopped_by(int signal) {
  const bool interrupted = signal == SIGINT;
  const ErrorKind kind = interrupted ? ErrorKind::interrupted : ErrorKind::terminated;
  return {
      .exit_code = static_cast<int>(kind),
      .verdict = interrupted ? "interrupted" : "terminated",
      .message = "stopped by " + launch::signal_name(signal) + " while no rank of the node ran"};
}

/// The folder may appear late, because NFS clients cache directory entries.
bool sees_folder(const launch::Welcome& welcome) {
  constexpr int kTries = 50;
  constexpr std::chrono::milliseconds kPause{100};
  constexpr std::uint64_t kMostBytes = 1 << 16;
  for (int i = 0; i < kTries; ++i) {
    if (i > 0) std::this_thread::sleep_for(kPause);
    try {
      const fs::path lock = fs::path(welcome.run_dir) / FolderLock::kFileName;
      if (read_file(lock, kMostBytes, ReadFailure::resource) == welcome.lock_text) return true;
    } catch (const Error&) {  // missing, or not visible yet
    }
  }
  return false;
}

using Order = std::variant<launch::Welcome, JoinedOutcome>;

class JoinedRun {
 public:
  JoinedRun(const RunRequest& request, const PrintLine& print, const Clock& clock)
      : request_(request), plan_(*request.nodes), print_(print), clock_(clock) {}

  JoinedOutcome execute() {
    choose();
    if (!join()) return stopped_by(stops_.first());
    send_hello();
    for (;;) {
      Order order = wait_for_order();
      if (auto* outcome = std::get_if<JoinedOutcome>(&order)) return std::move(*outcome);
      if (auto outcome = attempt(std::get<launch::Welcome>(order))) return std::move(*outcome);
    }
  }

 private:
  // This precedes the join, because it takes a while. A failure is reported to node 0, which would
  // otherwise wait.
  void choose() {
    try {
      devices_ = choose_devices(request_.loaded.experiment.trainer, machine_,
                                [] { return launch::probe_gpus(); });
      if (!devices_.warning.empty()) log::get().warn("{}", devices_.warning);
    } catch (const Error& error) {
      log::get().warn("this node cannot join the run: {}", error.message());
      device_error_ = error;
    }
  }

  // Returns false if a signal came.
  bool join() {
    print_(fmt::format("node {} of {} is connecting to node 0 at {}", plan_.node, plan_.nodes,
                       launch::to_text(plan_.endpoint)));
    try {
      launch::JoinedConnection joined =
          join_coordinator(plan_, {.claim = {launch::Role::node, plan_.node},
                                   .give_up = [&] { return stops_.received(); },
                                   .connect_store = request_.connect_store});
      local_address_ = joined.local_address;
      link_.emplace(std::move(joined.socket), keepalive_, clock_.now());
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::interrupted && stops_.received()) return false;
      throw;
    }
    return true;
  }

  void send_hello() {
    try {
      if (device_error_) throw Error(*device_error_);
      address_ = group_address(request_.loaded.experiment, local_address_);
    } catch (const Error& error) {
      leave({error.exit_code(), error.what()});
      throw;
    }
    link_->send(launch::NodeHello{.node = plan_.node,
                                  .first_rank = plan_.node * devices_.ranks,
                                  .ranks = devices_.ranks,
                                  .host = launch::host_name(),
                                  .version = request_.version,
                                  .config = config_digest(request_.loaded),
                                  .accelerator = devices_.gpu ? "gpu" : "cpu"},
                clock_.now());
  }

  Order wait_for_order() {
    link_->set_silence_timeout(kPauseS);
    int requested = 0;
    for (;;) {
      std::vector<pollfd> polls{{stops_.fd(), POLLIN, 0}};
      link_->append_to(polls);
      ::poll(polls.data(), polls.size(), kTickMs);
      if (stops_.received()) {
        // Before the run there is nothing to save; between attempts node 0 decides.
        if (folder_.empty() || stops_.number() > 1) return stopped_by(stops_.first());
        if (std::exchange(requested, 1) == 0)
          link_->send(launch::StopRequested{stops_.first(), false}, clock_.now());
      }
      std::optional<Order> order;
      link_->serve(clock_.now(), [&](const launch::NodeMessage& message) {
        if (auto next = order_of(message)) {
          order = std::move(next);
        } else if (order) {
          link_->put_back(message);  // an order for ranks that start next
        }
      });
      if (order) return std::move(*order);
      if (link_->lost()) return lost(*link_->lost());
    }
  }

  std::optional<Order> order_of(const launch::NodeMessage& message) const {
    if (const auto* welcome = std::get_if<launch::Welcome>(&message)) return *welcome;
    if (const auto* refused = std::get_if<launch::JoinRefusal>(&message)) refuse(*refused);
    if (const auto* over = std::get_if<launch::RunEnded>(&message))
      return JoinedOutcome{over->exit_code, over->verdict, over->message, folder_};
    return std::nullopt;  // orders for ranks that have already exited
  }

  std::optional<JoinedOutcome> attempt(const launch::Welcome& welcome) {
    const fs::path folder = welcome.run_dir;
    const int first = plan_.node * devices_.ranks;
    try {
      ENSURE(
          resource, sees_folder(welcome),
          "node {} ({}) cannot access the run folder {} of node 0\nhint: set --out to a folder on "
          "a file system that all nodes share",
          plan_.node, launch::host_name(), printable(welcome.run_dir));
      if (folder_.empty())
        print_(fmt::format("node {} of {} has joined node 0 at {}: ranks {} to {} in {}",
                           plan_.node, plan_.nodes, launch::to_text(plan_.endpoint), first,
                           first + devices_.ranks - 1, folder.string()));
      folder_ = folder;
      link_->set_silence_timeout(keepalive_.timeout_s);
      link_->reset_silence_timer(clock_.now());
      const launch::LaunchSpec spec = launch_spec({request_, folder, machine_, devices_, address_});
      const auto connect = [&](int rank) {
        return std::move(join_coordinator(plan_, {.claim = {launch::Role::rank, rank},
                                                  .timeout_s = 60,
                                                  .give_up = [&] { return stops_.received(); },
                                                  .connect_store = request_.connect_store})
                             .socket);
      };
      const launch::NodeAttempt done = launch::supervise_node(spec, *link_, connect, clock_);
      if (done.over)
        return JoinedOutcome{done.over->exit_code, done.over->verdict, done.over->message, folder};
      if (done.lost) return lost(*done.lost);
      return std::nullopt;
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::interrupted && stops_.received()) {
        JoinedOutcome stopped = stopped_by(stops_.first());
        link_->send(launch::StopRequested{stops_.first(), false}, clock_.now());
        leave({stopped.exit_code, stopped.message});
        return stopped;
      }
      leave({error.exit_code(), error.what()});
      throw;
    }
  }

  // Throws the rejection with the values that differ, if they are known from the config in node 0's
  // run folder.
  [[noreturn]] void refuse(const launch::JoinRefusal& refused) const {
    constexpr std::uint64_t kMostBytes = 16 << 20;
    std::string reason = refused.reason;
    if (!refused.run_dir.empty()) {
      try {
        const fs::path file = fs::path(refused.run_dir) / "config.resolved.yaml";
        const std::string difference =
            first_difference(read_file(file, kMostBytes, ReadFailure::resource), request_.loaded);
        if (!difference.empty()) reason += ": " + difference;
      } catch (const Error&) {  // the folder is not visible here
      }
      reason += "\nhint: start all nodes with the same file and the same overrides";
    }
    throw Error(static_cast<ErrorKind>(refused.kind), "node 0 rejects this node: " + reason);
  }

  [[nodiscard]] JoinedOutcome lost(const std::string& why) const {
    return {.exit_code = static_cast<int>(ErrorKind::rank_failed),
            .verdict = "failed",
            .message = fmt::format(
                "the connection to node 0 at {} is lost: {}; all ranks of this node were stopped",
                launch::to_text(plan_.endpoint), why),
            .folder = folder_};
  }

  // The number of tries is limited, because node 0 notices the end of the connection in any case.
  void leave(const launch::NodeLeaves& last) {
    constexpr int kTries = 10;
    link_->send(last, clock_.now());
    for (int i = 0; i < kTries && !link_->has_sent_all() && !link_->lost(); ++i) {
      link_->serve(clock_.now(), [](const launch::NodeMessage&) {});
      std::this_thread::sleep_for(std::chrono::milliseconds(kTickMs / 2));
    }
    link_->close_sending();
  }

  const RunRequest& request_;
  NodePlan plan_;
  const PrintLine& print_;
  const Clock& clock_;
  const Machine machine_ = read_machine();
  DeviceChoice devices_;
  std::optional<Error> device_error_;  // why no devices could be chosen
  StopSignals stops_;
  launch::KeepaliveTimes keepalive_ = keepalive_times();
  std::optional<NodeLink> link_;
  std::string local_address_;
  std::string address_;
  fs::path folder_;  // set once an attempt has started
};

}  // namespace

CoordinatorRun::CoordinatorRun(const RunRequest& request, const fs::path& folder,
                               launch::SignalGuard& guard)
    : plan_(*request.nodes), guard_(guard) {
  const DeviceChoice devices = choose_devices(request.loaded.experiment.trainer, read_machine(),
                                              [] { return launch::probe_gpus(); });
  launch::Listener listener({.endpoint = plan_.endpoint,
                             .token = plan_.token,
                             .run_id = plan_.run_id,
                             .world_size = plan_.nodes * devices.ranks,
                             .nodes = plan_.nodes,
                             .any_address = request.any_address,
                             .other_hosts = plan_.has_other_hosts(),
                             .give_up = [&guard] { return guard.received_stop(); }});
  const launch::Endpoint bound = listener.endpoint();
  launch::JobFacts facts{.nodes = plan_.nodes,
                         .ranks_per_node = devices.ranks,
                         .version = request.version,
                         .config = config_digest(request.loaded),
                         .accelerator = devices.gpu ? "gpu" : "cpu"};
  coordinator_.emplace(std::move(listener), std::move(facts), keepalive_times());
  constexpr std::uint64_t kMostBytes = 1 << 16;
  // A folder on two machines may have the same path without being the same folder, so the nodes
  // compare the content of the lock.
  coordinator_->set_folder(folder.string(), read_file(folder / FolderLock::kFileName, kMostBytes,
                                                      ReadFailure::resource));
  announce(plan_, bound, request.connect_store);
  log::get().info(
      "node 0 of {} listens at {}; the traffic between ranks is neither encrypted nor "
      "authenticated, so use a private network",
      plan_.nodes, launch::to_text(bound));
}

CoordinatorRun::~CoordinatorRun() {
  try {
    report::RunResult none;
    none.exit_code = static_cast<int>(ErrorKind::rank_failed);
    none.verdict = "failed";
    none.message = "node 0 exited without a result";
    if (!has_ended_) end(none);
    withdraw(plan_);  // if end() was interrupted
  } catch (const std::exception& error) {
    log::get().warn("cannot report the end of the run to the other nodes: {}", error.what());
  }
}

void CoordinatorRun::end(const report::RunResult& ending) {
  has_ended_ = true;
  // This precedes the report to the other nodes: once one of them exits, its launcher may kill this
  // process.
  if (!coordinator_->nodes().has_missing_nodes()) withdraw(plan_);
  coordinator_->end({ending.exit_code, ending.verdict, ending.message}, kLateJoinTimeoutS,
                    [this] { return guard_.received_stop(); });
  withdraw(plan_);
}

void report_failure(const RunRequest& request, const Error& error, launch::SignalGuard& guard) {
  NodePlan plan = *request.nodes;
  const auto give_up = [&guard] { return guard.received_stop(); };
  const bool is_announced = plan.rendezvous_file || (plan.task && plan.task->agent_store);
  if (is_announced) plan.endpoint.port = 0;  // the intended port may have caused the failure
  try {
    launch::Listener listener({.endpoint = plan.endpoint,
                               .token = plan.token,
                               .run_id = plan.run_id,
                               .world_size = plan.nodes,
                               .nodes = plan.nodes,
                               .any_address = request.any_address,
                               .other_hosts = plan.has_other_hosts(),
                               .port_wait_s = 0,
                               .give_up = give_up});
    const launch::Endpoint bound = listener.endpoint();
    launch::Coordinator coordinator(std::move(listener), {.nodes = plan.nodes}, keepalive_times());
    announce(plan, bound, request.connect_store);
    coordinator.end({error.exit_code(), "failed", error.what()}, kLateJoinTimeoutS, give_up);
  } catch (const Error& obstacle) {
    log::get().debug("cannot report the failure to the other nodes: {}", obstacle.message());
  }
  withdraw(plan);
}

JoinedOutcome join_run(const RunRequest& request, const PrintLine& print, const Clock& clock) {
  ASSERT(request.nodes && !request.nodes->is_coordinator());
  return JoinedRun(request, print, clock).execute();
}

}  // namespace trainctl::study
