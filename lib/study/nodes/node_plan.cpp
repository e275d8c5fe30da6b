#include "study/nodes/node_plan.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/json.hpp"
#include "base/machine/machine.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"
#include "log/log.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <limits>
#include <thread>

namespace trainctl::study {
namespace {

constexpr const char* kSchema = "trainctl.rendezvous/2";
constexpr std::size_t kMaxRendezvousBytes = 8192;

bool is_plain(char letter) {
  const bool is_alphanumeric = (letter >= 'a' && letter <= 'z') ||
                               (letter >= 'A' && letter <= 'Z') || (letter >= '0' && letter <= '9');
  return is_alphanumeric || letter == '.' || letter == '_' || letter == '-';
}

std::string cause() { return std::strerror(errno); }

std::optional<std::string> content_of(const fs::path& path) {
  // Opening the folder makes an NFS client ask the server again, because clients cache the absence
  // of a file.
  const Fd folder(::open(path.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const Fd fd(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) {
    ENSURE(config, errno == ENOENT, "cannot read {}: {}", path.string(), cause());
    return std::nullopt;
  }
  struct stat info {};
  ENSURE(config, ::fstat(fd.get(), &info) == 0 && S_ISREG(info.st_mode),
         "{} must be a regular file", path.string());
  constexpr unsigned kOthers = 077;
  ENSURE(config, info.st_uid == ::geteuid() && (info.st_mode & kOthers) == 0,
         "the rendezvous file {} belongs to another user or is accessible to others\nhint: remove "
         "the file",
         path.string());
  std::array<char, kMaxRendezvousBytes> bytes{};
  const ssize_t count = ::pread(fd.get(), bytes.data(), bytes.size(), 0);
  return count > 0 ? std::optional(std::string(bytes.data(), static_cast<std::size_t>(count)))
                   : std::nullopt;
}

// Invalid content counts as no file, because it may be incomplete.
std::optional<RendezvousInfo> load_rendezvous(const fs::path& path) {
  const auto text = content_of(path);
  if (!text || !text->ends_with('\n')) return std::nullopt;
  return parse_rendezvous(*text, path.string());
}

fs::path write_temporary(const fs::path& path, const std::string& text) {
  const fs::path temporary =
      path.parent_path() / fmt::format("{}.tmp.{}", path.filename().string(), ::getpid());
  ::unlink(temporary.c_str());
  const Fd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  ENSURE(resource, fd.valid(),
         "cannot write {}, which gives the other nodes the address of node 0: {}\nhint: set --out "
         "to a writable folder that all nodes share",
         temporary.string(), cause());
  try {
    write_all(fd.get(), text, temporary.string());
    ENSURE(resource, ::fsync(fd.get()) == 0, "cannot write {}: {}", temporary.string(), cause());
  } catch (const Error&) {
    ::unlink(temporary.c_str());
    throw;
  }
  return temporary;
}

std::optional<LockHolder> holder_of(const fs::path& path) {
  try {
    const auto rendezvous = load_rendezvous(path);
    return rendezvous ? std::optional(rendezvous->coordinator) : std::nullopt;
  } catch (const Error&) {  // a different file type or owner: the later rename reports it
    return std::nullopt;
  }
}

void check_no_live_coordinator(const fs::path& path) {
  const auto holder = holder_of(path);
  if (!holder) return;
  ENSURE(resource, !is_certainly_alive(*holder, this_process()),
         "another run with this --rdzv-id is running: {} was written by pid {} on {} at {}\nhint: "
         "set another --rdzv-id for this run",
         path.string(), holder->pid, printable(holder->host), printable(holder->since));
  if (holder->pid == ::getpid()) return;
  log::get().warn("replacing {}, which pid {} on {} wrote at {}: that run has exited",
                  path.string(), holder->pid, printable(holder->host), printable(holder->since));
}

using launch::Launcher;
using launch::LauncherTask;
using Task = std::optional<LauncherTask>;

constexpr auto kRetryPause = std::chrono::milliseconds(100);
constexpr const char* kLoopback = "127.0.0.1";

std::string with_ignored(std::string text, const LauncherTask& task) {
  if (task.ignored.empty()) return text;
  if (!text.empty()) text += "; ";
  return text + "ignored: " + join(task.ignored, "; ");
}

void check_task_options(const PlacementRequest& request, const LauncherTask& task) {
  const char* launcher = name_of(task.launcher);
  const int hosts = std::max(1, task.world_size / task.local_world_size);
  ENSURE(config, !request.nodes || *request.nodes == task.world_size || *request.nodes == hosts,
         "--nnodes (trainer.num_nodes) is {}, but the run has {} task{} on {} host{} under "
         "{}\nhint: remove --nnodes and trainer.num_nodes",
         request.nodes.value_or(0), task.world_size, plural(task.world_size), hosts, plural(hosts),
         launcher);
  ENSURE(config, !request.node || *request.node == task.rank,
         "--node-rank is {}, but this process is task {} under {}\nhint: remove --node-rank",
         request.node.value_or(0), task.rank, launcher);
  const bool fits = task.whole_node || !request.devices || *request.devices == 1 ||
                    *request.devices == task.local_world_size;
  ENSURE(config, fits,
         "trainer.devices is {}, but this host has {} tasks under {}, one for each device\n"
         "hint: start as many tasks as devices, or one per host",
         request.devices.value_or(0), task.local_world_size, launcher);
}

NodePlan plan_of_task(const PlacementRequest& request, const LauncherTask& task) {
  check_task_options(request, task);
  NodePlan plan;
  plan.task = task;
  plan.nodes = task.world_size;
  plan.node = task.rank;
  plan.devices_per_node = task.whole_node ? 0 : 1;
  plan.local_rank = task.local_rank;
  plan.local_world_size = task.local_world_size;
  plan.description =
      with_ignored(fmt::format("{} {} of {} under {}", task.whole_node ? "node" : "rank", task.rank,
                               task.world_size, name_of(task.launcher)),
                   task);
  return plan;
}

NodePlan plan_from_options(const PlacementRequest& request) {
  NodePlan plan;
  plan.nodes = request.nodes.value_or(1);
  ENSURE(config, plan.nodes >= 1, "--nnodes must be at least 1, got {}", plan.nodes);
  if (plan.nodes == 1) {
    ENSURE(config, request.node.value_or(0) == 0,
           "--node-rank is {}, but the run has one node\nhint: add --nnodes",
           request.node.value_or(0));
    return plan;
  }
  ENSURE(config, request.node.has_value(),
         "a run of {} nodes needs the rank of this node\nhint: add --node-rank with 0 to {}",
         plan.nodes, plan.nodes - 1);
  plan.node = *request.node;
  ENSURE(config, plan.node >= 0 && plan.node < plan.nodes,
         "--node-rank must be from 0 to {1}, got {0}: the run has {2} nodes", plan.node,
         plan.nodes - 1, plan.nodes);
  ENSURE(config, !request.endpoint.empty(),
         "a run of {} nodes needs the address of node 0\nhint: add --rdzv-endpoint HOST:PORT",
         plan.nodes);
  plan.description = fmt::format("node {} of {}", plan.node, plan.nodes);
  return plan;
}

NodePlan placement(const PlacementRequest& request, const Task& task) {
  if (!task) return plan_from_options(request);
  // A complete placement on the command line takes precedence over any launcher.
  const bool is_typed = request.nodes && request.node && !request.endpoint.empty();
  if (task->launcher == Launcher::none || is_typed) {
    NodePlan plan = plan_from_options(request);
    LauncherTask ignored_task = *task;
    if (ignored_task.launcher != Launcher::none)
      ignored_task.ignored = {fmt::format("task {} of {} under {}, since --node-rank is given",
                                          ignored_task.rank, ignored_task.world_size,
                                          name_of(ignored_task.launcher))};
    plan.description = with_ignored(plan.description, ignored_task);
    return plan;
  }
  return plan_of_task(request, *task);
}

void take_token(const PlacementRequest& request, NodePlan& plan) {
  ENSURE(config, request.token_digits.empty() || request.token_file.empty(),
         "both {} and --rdzv-token-file are given\nhint: leave one out", kTokenVariable);
  plan.token_is_given = true;
  if (!request.token_digits.empty()) {
    plan.token = launch::parse_token(request.token_digits, kTokenVariable);
  } else if (!request.token_file.empty()) {
    plan.token = launch::read_token_file(request.token_file);
  } else {
    plan.token_is_given = false;
    if (plan.is_coordinator()) plan.token = launch::make_token();
  }
}

/// Sets the endpoint of node 0 as the other nodes know it, with port 0 if node 0 may choose and
/// announce the port. Returns false if not even the host is known.
bool take_endpoint(const PlacementRequest& request, NodePlan& plan) {
  if (!request.endpoint.empty()) {
    plan.endpoint = launch::parse_endpoint(request.endpoint);
    return plan.endpoint.port != 0;
  }
  const LauncherTask& task = *plan.task;
  plan.endpoint = {task.master_addr, 0};
  if (task.agent_store) {  // torchrun itself uses MASTER_PORT
    if (task.local_world_size == task.world_size) plan.endpoint.host = kLoopback;
    return false;
  }
  if (task.master_addr.empty()) {
    plan.endpoint.host = read_machine().host;
    return false;
  }
  if (task.launcher == Launcher::mpi && !task.master_port) return false;
  plan.endpoint.port = task.master_port.value_or(launch::kRendezvousPort);
  // The name of pod 0 may belong to a service, or resolve to "localhost".
  if (task.launcher == Launcher::kubernetes && plan.is_coordinator())
    plan.endpoint.host = read_machine().host;
  return true;
}

// Nodes may use different names for one endpoint. The token of a run and its endpoint identify the
// run by themselves; a rendezvous file needs an id for its name.
std::string id_of_endpoint(const NodePlan& plan) {
  if (plan.token_is_given && plan.endpoint.port != 0) return "by-token";
  std::string id = launch::to_text(plan.endpoint);
  std::ranges::transform(id, id.begin(), [](char letter) {
    return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
  });
  return id;
}

std::string id_of(const PlacementRequest& request, const NodePlan& plan) {
  constexpr std::size_t kMostBytes = 200;  // the handshake allows 256
  std::string id = request.id;
  if (id.empty() && plan.task) id = plan.task->job_id;
  const bool has_address = plan.task && !plan.task->master_addr.empty() && plan.task->master_port;
  if (id.empty() && plan.task && plan.task->launcher == Launcher::kubernetes) id = "kubernetes";
  if (id.empty() && has_address)
    id = fmt::format("{}-{}", plan.task->master_addr, *plan.task->master_port);
  if (id.empty() && !request.endpoint.empty()) id = id_of_endpoint(plan);
  ENSURE(
      config, !id.empty(),
      "cannot derive an id of the run from {}\nhint: give all tasks of the run the same --rdzv-id",
      plan.task ? name_of(plan.task->launcher) : "the command line");
  ENSURE(config, id.size() <= kMostBytes, "--rdzv-id must have at most {} bytes, got {}",
         kMostBytes, id.size());
  return id;
}

bool uses_agent_store(const NodePlan& plan) { return plan.task && plan.task->agent_store; }

/// Returns the key in torchrun's store, which survives restarts of its tasks.
std::string key_of(const NodePlan& plan) {
  return fmt::format("trainctl/{}/{}", plan.run_id, plan.nodes);
}

void apply_rendezvous(const RendezvousInfo& rendezvous, NodePlan& plan) {
  plan.endpoint = rendezvous.endpoint;
  if (plan.token_is_given) return;
  ENSURE(config, rendezvous.token.has_value(),
         "node 0 was given a token, but this node was not\nhint: give all nodes the same {} or the "
         "same --rdzv-token-file",
         kTokenVariable);
  plan.token = *rendezvous.token;
}

std::optional<RendezvousInfo> find_rendezvous(const NodePlan& plan) {
  auto rendezvous = read_rendezvous(*plan.rendezvous_file);
  return rendezvous && rendezvous->run_id == plan.run_id ? rendezvous : std::nullopt;
}

RendezvousInfo fetch_rendezvous(const NodePlan& plan, const ConnectStore& connect_store) {
  const std::string text = connect_store(*plan.task).fetch(key_of(plan));
  return parse_rendezvous(text, "torchrun's store");
}

void wait_for_file(const PlacementRequest& request, NodePlan& plan) {
  const Clock& clock = steady_clock();
  const double deadline = clock.now() + request.timeout_s;
  for (;;) {
    if (const auto rendezvous = find_rendezvous(plan)) return apply_rendezvous(*rendezvous, plan);
    ENSURE(interrupted, !request.give_up || !request.give_up(), "stopped while waiting for node 0");
    const char* hint = plan.task ? "" : ", and that all use the same --rdzv-endpoint or --rdzv-id";
    ENSURE(hang, clock.now() < deadline,
           "node 0 has not announced its address within {}: {} does not exist\nhint: check that "
           "node 0 runs and that --out is a folder that all nodes share{}",
           human_duration(request.timeout_s), plan.rendezvous_file->string(), hint);
    std::this_thread::sleep_for(kRetryPause);
  }
}

/// Returns whether a failed join may succeed later: node 0 is not listening yet, or the
/// announcement is that of an earlier run whose file still exists.
bool may_succeed_later(const Error& error, const NodePlan& plan) {
  if (error.kind() == ErrorKind::hang || error.kind() == ErrorKind::rank_failed) return true;
  if (error.kind() != ErrorKind::config || !plan.rendezvous_file) return false;
  const auto rendezvous = find_rendezvous(plan);
  return !rendezvous || !is_certainly_alive(rendezvous->coordinator, this_process());
}

}  // namespace

fs::path rendezvous_path(const fs::path& out, const std::string& run_id) {
  constexpr std::size_t kMostLetters = 100;
  constexpr std::size_t kDigestLetters = 12;
  std::string name = run_id.substr(0, kMostLetters);
  for (char& letter : name) letter = is_plain(letter) ? letter : '_';
  if (name != run_id) name += "-" + to_hex(sha256(run_id)).substr(0, kDigestLetters);
  return fs::absolute(out) / (".rendezvous-" + name);
}

std::string rendezvous_text(const RendezvousInfo& rendezvous) {
  Json json{{"schema", kSchema},
            {"run_id", rendezvous.run_id},
            {"endpoint", launch::to_text(rendezvous.endpoint)},
            {"coordinator", Json::parse(lock_line(rendezvous.coordinator))}};
  if (rendezvous.token) json["token"] = launch::token_digits(*rendezvous.token);
  return to_line(json) + "\n";
}

RendezvousInfo parse_rendezvous(const std::string& text, const std::string& where) {
  const Json json = parse_json(text);
  const auto word = [&](const char* key) {
    const bool is_there = json.is_object() && json.contains(key) && json[key].is_string();
    ENSURE(config, is_there, "{} is not a valid rendezvous file: '{}' must be a string", where,
           key);
    return json[key].get<std::string>();
  };
  ENSURE(config, word("schema") == kSchema,
         "the rendezvous file {} was written by another version of trainctl\nhint: use the same "
         "version on all nodes",
         where);
  RendezvousInfo rendezvous;
  rendezvous.run_id = word("run_id");
  rendezvous.endpoint = launch::parse_endpoint(word("endpoint"));
  if (json.contains("token")) rendezvous.token = launch::parse_token(word("token"), where);
  const auto coordinator =
      json.contains("coordinator") ? read_lock_line(to_line(json["coordinator"])) : std::nullopt;
  ENSURE(config, coordinator.has_value(),
         "{} is not a valid rendezvous file: it does not name the process of node 0", where);
  rendezvous.coordinator = *coordinator;
  return rendezvous;
}

void write_rendezvous(const fs::path& path, const RendezvousInfo& rendezvous) {
  make_folder(path.parent_path());
  const fs::path temporary = write_temporary(path, rendezvous_text(rendezvous));
  try {
    if (::link(temporary.c_str(), path.c_str()) != 0) {
      check_no_live_coordinator(path);
      ENSURE(resource, ::rename(temporary.c_str(), path.c_str()) == 0, "cannot write {}: {}",
             path.string(), cause());
    }
  } catch (const Error&) {
    ::unlink(temporary.c_str());
    throw;
  }
  ::unlink(temporary.c_str());
}

std::optional<RendezvousInfo> read_rendezvous(const fs::path& path) {
  auto rendezvous = load_rendezvous(path);
  if (!rendezvous || why_exited(rendezvous->coordinator, this_process())) return std::nullopt;
  return rendezvous;
}

void remove_rendezvous(const fs::path& path) {
  const auto holder = holder_of(path);
  const LockHolder here = this_process();
  const bool is_ours = holder && holder->host == here.host && holder->pid == here.pid &&
                       holder->started == here.started && holder->boot_id == here.boot_id;
  if (is_ours) ::unlink(path.c_str());
}

NodePlan plan_node(const PlacementRequest& request, const Task& task,
                   const ConnectStore& connect_store) {
  NodePlan plan = placement(request, task);
  if (plan.is_alone()) return plan;
  take_token(request, plan);
  const bool knows_endpoint = take_endpoint(request, plan);
  plan.run_id = id_of(request, plan);
  if (knows_endpoint && plan.token_is_given) return plan;
  if (uses_agent_store(plan)) {
    if (!plan.is_coordinator()) apply_rendezvous(fetch_rendezvous(plan, connect_store), plan);
    return plan;
  }
  plan.rendezvous_file = rendezvous_path(request.out, plan.run_id);
  if (!plan.is_coordinator()) wait_for_file(request, plan);
  return plan;
}

void announce(NodePlan& plan, const launch::Endpoint& bound, const ConnectStore& connect_store) {
  if (plan.is_alone() || !plan.is_coordinator()) return;
  const auto token = plan.token_is_given ? std::nullopt : std::optional(plan.token);
  const RendezvousInfo rendezvous{plan.run_id, bound, token, this_process()};
  if (plan.rendezvous_file) {
    write_rendezvous(*plan.rendezvous_file, rendezvous);
    plan.token_file_made = plan.rendezvous_file;
  } else if (uses_agent_store(plan)) {
    connect_store(*plan.task).publish(key_of(plan), rendezvous_text(rendezvous));
  }
}

void withdraw(NodePlan& plan) {
  if (!plan.token_file_made) return;
  remove_rendezvous(*plan.token_file_made);
  plan.token_file_made.reset();
}

bool refresh_rendezvous(NodePlan& plan, const ConnectStore& connect_store) {
  if (plan.is_alone() || plan.is_coordinator()) return false;
  std::optional<RendezvousInfo> rendezvous;
  if (plan.rendezvous_file) {
    rendezvous = find_rendezvous(plan);
  } else if (uses_agent_store(plan) && connect_store) {
    rendezvous = fetch_rendezvous(plan, connect_store);
  }
  if (!rendezvous) return false;
  const auto before = std::pair(launch::to_text(plan.endpoint), plan.token);
  apply_rendezvous(*rendezvous, plan);
  return before != std::pair(launch::to_text(plan.endpoint), plan.token);
}

launch::JoinedConnection join_coordinator(NodePlan& plan, const JoinRequest& request) {
  constexpr double kSlice = 5;
  constexpr double kOtherCoordinatorS = 20;  // as in launch::join()
  const Clock& clock = steady_clock();
  const double deadline = clock.now() + request.timeout_s;
  const bool is_announced = plan.rendezvous_file || uses_agent_store(plan);
  constexpr double kNever = std::numeric_limits<double>::infinity();
  double gone_at = kNever;  // when node 0 closed the connection
  for (;;) {
    const double left = std::max(deadline - clock.now(), 0.1);
    try {
      return launch::join({.endpoint = plan.endpoint,
                           .token = plan.token,
                           .run_id = plan.run_id,
                           .claim = request.claim,
                           .timeout_s = is_announced ? std::min(left, kSlice) : left,
                           .give_up = request.give_up});
    } catch (const Error& error) {
      if (!is_announced || clock.now() >= deadline || !may_succeed_later(error, plan)) throw;
      if (error.kind() == ErrorKind::rank_failed) gone_at = std::min(gone_at, clock.now());
      if (clock.now() - gone_at > kOtherCoordinatorS) throw;
    }
    if (refresh_rendezvous(plan, request.connect_store)) {
      gone_at = kNever;
    } else {
      std::this_thread::sleep_for(kRetryPause);
    }
  }
}

WorkerPlacement worker_placement(const NodePlan& plan, const VisibleGpus& gpus) {
  WorkerPlacement place{plan.local_rank, plan.local_world_size, {}};
  if (gpus.count == 0) return place;
  place.local_rank = 0;
  // Slurm, or a wrapper script of the task, may limit each task to its own GPU.
  const bool is_torchrun = plan.task && plan.task->launcher == Launcher::torchrun;
  const bool shows_own = gpus.count == 1 && !gpus.list.empty() && !is_torchrun;
  if (shows_own || plan.local_world_size == 1) return place;
  ENSURE(resource, plan.local_rank < gpus.count,
         "this host has {} tasks under {}, but only {} GPU{}\nhint: start as many tasks as GPUs, "
         "or set trainer.accelerator=cpu",
         plan.local_world_size, plan.task ? name_of(plan.task->launcher) : "a launcher", gpus.count,
         plural(gpus.count));
  const auto own = static_cast<std::size_t>(plan.local_rank);
  const std::vector<std::string> names = split(gpus.list, ',');
  const bool is_listed = !gpus.list.empty() && own < names.size();
  place.environment["CUDA_VISIBLE_DEVICES"] = is_listed ? names[own] : std::to_string(own);
  return place;
}

int cores_of(const NodePlan& plan, int usable, int online) {
  if (!plan.task) return 0;
  const int together =
      plan.task->may_bind ? std::max(plan.task->cores_here.value_or(online), usable) : usable;
  return std::max(1, std::min(usable, together / plan.local_world_size));
}

}  // namespace trainctl::study
