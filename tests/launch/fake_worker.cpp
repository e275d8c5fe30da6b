// A worker that executes its arguments in order: "hello", "1:kill=9" (on rank 1 only), "finish".
// With "supervise WORLD LOGS WORDS..." it is the supervisor of such workers, so that tests can kill
// a supervisor as well; with "join PORT NODES NODE RANKS WORDS..." the supervisor of another node.

#include "base/clock.hpp"
#include "base/machine/machine.hpp"
#include "base/machine/stack_signal.hpp"
#include "events/heartbeat.hpp"
#include "events/pipe.hpp"
#include "launch/nodes/node_supervisor.hpp"
#include "launch/process/child.hpp"
#include "launch/process/stacks.hpp"
#include "launch/rendezvous/rendezvous.hpp"
#include "launch/rendezvous/store.hpp"
#include "launch/supervise/supervisor.hpp"

#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace {

using namespace trainctl;

class Worker {
 public:
  explicit Worker(launch::WorkerEnv env)
      : env_(env), events_(env.event_fd), page_(events::HeartbeatPage::attach(env.heartbeat_fd)) {}

  void execute(std::string word) {
    const std::size_t colon = word.find(':');
    if (colon != std::string::npos) {
      if (std::stoi(word) != env_.rank) return;
      word = word.substr(colon + 1);
    }
    const std::size_t equals = word.find('=');
    const std::string argument = equals == std::string::npos ? "" : word.substr(equals + 1);
    actions_.at(word.substr(0, equals))(argument);
  }

 private:
  void train() {
    for (std::int64_t step = 1; *launch::stop_signal() == 0; ++step) {
      page_.get().stamp(events::Phase::train, step);
      pause();
    }
    leave(143);
  }

  void pause() {
    if (reports_) events_.write(events::Warning{"progress"});
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  [[noreturn]] void leave(int code) {
    events_.write(events::Finished{.stop_reason = "signal"});
    ::_exit(*launch::stop_signal() == SIGINT ? 130 : code);
  }

  launch::StoreClient& store() {
    if (!store_) store_.emplace(env_.store_fd);
    return *store_;
  }

  // Like in a run, a rank that gets a stop signal reports it to the others at its next step.
  void agree_in(const std::string& name) {
    const events::Phase phase = parse_phase(name);
    events_.write(events::Progress{.phase = phase});
    for (std::int64_t step = 1;; ++step) {
      page_.get().stamp(phase, step);
      const bool stop_requested = *launch::stop_signal() != 0;
      if (env_.world_size == 1 ? stop_requested : store().add("stop", stop_requested ? 1 : 0) > 0)
        return;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  // A checkpoint is complete when all ranks have written their parts.
  void save(int parts) {
    for (int part = 1; part <= parts; ++part) {
      page_.get().stamp(events::Phase::checkpoint, part);
      pause();
    }
    if (env_.world_size == 1) return;
    store().add("saved", 1);
    while (store().add("saved", 0) < env_.world_size) {
      page_.get().stamp(events::Phase::checkpoint, 0);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  // Loads without a stamp, like a loader.
  void load(int samples) {
    page_.get().stamp(events::Phase::load, 0);
    for (int i = 0; i < samples; ++i) {
      page_.get().loaded.fetch_add(1);
      pause();
    }
  }

  // Ends like a collective whose peer has ended.
  void lose(const std::string& peer, int kind) {
    const auto key = "pid" + peer;
    store().wait({key}, std::chrono::seconds(60));
    const auto pid = std::stoi(store().try_get(key).value());
    const auto fd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
    pollfd end{fd, POLLIN, 0};
    while (fd >= 0 && ::poll(&end, 1, -1) < 0) {
    }
    events_.write(
        events::Failed{env_.rank, kind, "connection reset by peer", 3, events::Phase::train});
    ::_exit(kind);
  }

  static events::Phase parse_phase(const std::string& name) {
    using events::Phase;
    for (const Phase phase : {Phase::startup, Phase::train, Phase::validate, Phase::checkpoint,
                              Phase::shutdown, Phase::load}) {
      if (name == events::phase_name(phase)) return phase;
    }
    ::_exit(98);
  }

  void fail(int kind) {
    events_.write(events::Failed{env_.rank, kind, "boom", 3, events::Phase::train});
    ::_exit(kind);
  }

  static void print_fds() {
    DIR* folder = ::opendir("/proc/self/fd");
    while (const dirent* entry = ::readdir(folder)) {
      if (entry->d_name[0] != '.' && std::stoi(entry->d_name) != ::dirfd(folder))
        std::printf("fd %s\n", entry->d_name);
    }
    ::closedir(folder);
    std::fflush(stdout);
  }

  static void linger() {
    ::signal(SIGTERM, SIG_IGN);
    while (true) ::pause();
  }

  static void die_by(int signal) {
    ::signal(signal, SIG_DFL);  // sanitizers catch crashes
    ::kill(::getpid(), signal);
    linger();
  }

  static void start_daemon() {
    if (::fork() != 0) return;
    ::setsid();
    if (::fork() != 0) ::_exit(0);
    linger();
  }

  // Returns once the thread has started, is named, and is about to run `body`.
  static void start_thread(const char* name, const std::function<void()>& body) {
    std::atomic<bool> ready = false;
    std::thread([&ready, name, body] {
      ::pthread_setname_np(::pthread_self(), name);
      ready = true;
      body();
    }).detach();
    while (!ready) std::this_thread::yield();
  }

  static void block() {
    static std::mutex mutex;
    mutex.lock();
    start_thread("blocked", [] { const std::lock_guard lock(mutex); });
  }

  static void spin() {
    start_thread("spinning", [] {
      while (steady_clock().now() >= 0) {
      }
    });
  }

  static void be_deaf() {
    sigset_t all;
    sigset_t before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_BLOCK, &all, &before);
    start_thread("deaf", [] {
      while (true) ::pause();
    });
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  static void start_idlers(int number) {
    for (int i = 0; i < number; ++i) {
      start_thread("idle", [] {
        while (true) ::pause();
      });
    }
  }

  void barrier() {
    launch::StoreClient& store = this->store();
    store.set("rank" + std::to_string(env_.rank), "here");
    std::vector<std::string> keys;
    for (int rank = 0; rank < env_.world_size; ++rank)
      keys.push_back("rank" + std::to_string(rank));
    store.wait(keys, std::chrono::seconds(60));
    if (store.add("met", 1) == env_.world_size) store.set("all", "yes");
    store.wait({"all"}, std::chrono::seconds(60));
  }

  void break_store_protocol() const {
    const std::string garbage(1000, '\xff');
    const ssize_t written = ::write(env_.store_fd, garbage.data(), garbage.size());
    if (written < 0) ::_exit(99);
  }

  void write_raw(const std::string& bytes) const {
    const ssize_t written = ::write(env_.event_fd, bytes.data(), bytes.size());
    if (written < 0) ::_exit(99);
  }

  void flood() {
    while (true) events_.write(events::Warning{std::string(1000, 'x')});
  }

  using Action = std::function<void(const std::string& argument)>;
  launch::WorkerEnv env_;
  events::EventWriter events_;
  events::HeartbeatPage page_;
  std::optional<launch::StoreClient> store_;
  bool reports_ = false;  // sends an event after each step, part or sample
  std::map<std::string, Action> actions_{
      {"hello",
       [this](const auto&) { events_.write(events::Hello{.rank = env_.rank, .pid = ::getpid()}); }},
      {"finish",
       [this](const auto&) { events_.write(events::Finished{.stop_reason = "max_epochs"}); }},
      {"warn", [this](const auto& text) { events_.write(events::Warning{text}); }},
      {"step", [this](const auto& n) { page_.get().stamp(events::Phase::train, std::stoll(n)); }},
      {"begin_collective", [this](const auto& name) { page_.get().begin_collective(name); }},
      {"end_collective", [this](const auto&) { page_.get().end_collective(); }},
      {"save",
       [this](const auto& n) { page_.get().stamp(events::Phase::checkpoint, std::stoll(n)); }},
      {"load", [this](const auto& samples) { load(std::stoi(samples)); }},
      {"train", [this](const auto&) { train(); }},
      {"announce", [this](const auto&) { events_.write(events::Progress{}); }},
      {"agree_in", [this](const auto& phase) { agree_in(phase); }},
      {"save_parts", [this](const auto& parts) { save(std::stoi(parts)); }},
      {"report", [this](const auto&) { reports_ = true; }},
      {"end",
       [](const auto&) {
         const int signal = *launch::stop_signal();
         ::_exit(signal == 0 ? 0 : signal == SIGINT ? 130 : 143);
       }},
      {"leave", [this](const auto& code) { leave(std::stoi(code)); }},
      {"publish_pid",
       [this](const auto&) {
         store().set("pid" + std::to_string(env_.rank), std::to_string(::getpid()));
       }},
      {"lose", [this](const auto& peer) { lose(peer, 7); }},
      {"lose_unexpectedly", [this](const auto& peer) { lose(peer, 1); }},
      {"block", [](const auto&) { block(); }},
      {"spin", [](const auto&) { spin(); }},
      {"deaf", [](const auto&) { be_deaf(); }},
      {"idlers", [](const auto& number) { start_idlers(std::stoi(number)); }},
      {"mute", [](const auto&) { ::signal(stack_signal(), [](int) {}); }},
      {"stop", [](const auto&) { ::kill(::getpid(), SIGSTOP); }},
      {"fail", [this](const auto& kind) { fail(std::stoi(kind)); }},
      {"write_error",
       [this](const auto& folder) {
         launch::write_error_file(folder, env_.rank, Error(ErrorKind::data, "row 7 is damaged"));
       }},
      {"kill", [](const auto& signal) { die_by(std::stoi(signal)); }},
      {"raise", [](const auto& signal) { ::raise(std::stoi(signal)); }},
      {"exit", [](const auto& code) { ::_exit(std::stoi(code)); }},
      {"sleep_ms",
       [](const auto& ms) {
         std::this_thread::sleep_for(std::chrono::milliseconds(std::stoi(ms)));
       }},
      {"catch_term", [](const auto&) { launch::install_stop_flag(); }},
      {"until_asked",
       [](const auto&) {
         while (*launch::stop_signal() == 0)
           std::this_thread::sleep_for(std::chrono::milliseconds(1));
       }},
      {"ignore_term", [](const auto&) { ::signal(SIGTERM, SIG_IGN); }},
      {"wait",
       [](const auto&) {
         while (true) ::pause();
       }},
      {"linger", [](const auto&) { linger(); }},
      {"grandchild",
       [](const auto&) {
         if (::fork() == 0) linger();
       }},
      {"daemon", [](const auto&) { start_daemon(); }},
      {"end_group", [](const auto&) { launch::kill_group_on_exit(); }},
      {"print",
       [](const auto& text) {
         std::printf("%s\n", text.c_str());
         std::fflush(stdout);
       }},
      {"print_env",
       [](const auto& name) {
         const char* value = std::getenv(name.c_str());
         std::printf("%s=%s\n", name.c_str(), value == nullptr ? "" : value);
         std::fflush(stdout);
       }},
      {"print_cores",
       [](const auto&) {
         std::printf("cores");
         for (const int core : allowed_cores()) std::printf(" %d", core);
         std::printf("\n");
         std::fflush(stdout);
       }},
      {"print_fds", [](const auto&) { print_fds(); }},
      {"garbage", [this](const auto&) { write_raw("\x01 this is no event\n"); }},
      {"long_line",
       [this](const auto&) {
         while (true) write_raw(std::string(10'000, 'x'));
       }},
      {"flood", [this](const auto&) { flood(); }},
      {"close_pipe", [this](const auto&) { ::close(env_.event_fd); }},
      {"barrier", [this](const auto&) { barrier(); }},
      {"break_store_protocol", [this](const auto&) { break_store_protocol(); }},
  };
};

int supervise_words(int argc, char** argv) {
  launch::LaunchSpec spec;
  spec.world_size = std::atoi(argv[2]);
  spec.log_folder = argv[3];
  spec.argv = {argv[0]};
  spec.argv.insert(spec.argv.end(), argv + 4, argv + argc);
  const auto announce = [](int rank, const events::Event& event) {
    if (!std::holds_alternative<events::Hello>(event)) return;
    std::printf("hello %d\n", rank);
    std::fflush(stdout);
  };
  const launch::Outcome outcome = launch::supervise(spec, announce, {}, steady_clock());
  std::printf("%s: %s\n", outcome.verdict.c_str(), outcome.message.c_str());
  return outcome.exit_code;
}

// Runs the supervisor of a node that joins a test's coordinator, with RANKS ranks per attempt.
int join_words(int argc, char** argv) {
  const launch::Endpoint endpoint{"127.0.0.1", static_cast<std::uint16_t>(std::atoi(argv[2]))};
  const launch::NodePlacement place{.nodes = std::atoi(argv[3]), .node = std::atoi(argv[4])};
  const int ranks = std::atoi(argv[5]);
  const auto connect = [&](launch::Role role, int number) {
    return launch::join({.endpoint = endpoint, .run_id = "test", .claim = {role, number}}).socket;
  };
  launch::NodeLink link(connect(launch::Role::node, place.node),
                        {.interval_s = 0.2, .timeout_s = 60}, steady_clock().now());
  link.send(launch::NodeHello{place.node, place.node * ranks, ranks, "far", "1", "config", "cpu"},
            steady_clock().now());
  std::optional<launch::RunEnded> over;
  while (!over && !link.lost()) {
    std::optional<launch::Welcome> welcome;
    link.serve(steady_clock().now(), [&](const launch::NodeMessage& message) {
      if (const auto* one = std::get_if<launch::Welcome>(&message)) welcome = *one;
      if (const auto* one = std::get_if<launch::RunEnded>(&message)) over = *one;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (!welcome) continue;
    launch::LaunchSpec spec;
    spec.placement = place;
    spec.world_size = ranks * place.nodes;
    spec.log_folder = welcome->run_dir;
    spec.argv = {argv[0]};
    spec.argv.insert(spec.argv.end(), argv + 6, argv + argc);
    over =
        launch::supervise_node(
            spec, link, [&](int rank) { return connect(launch::Role::rank, rank); }, steady_clock())
            .over;
  }
  return over ? over->exit_code : 7;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 3 && std::string(argv[1]) == "supervise") return supervise_words(argc, argv);
  if (argc > 5 && std::string(argv[1]) == "join") return join_words(argc, argv);
  const launch::WorkerEnv env = launch::read_worker_env();
  launch::install_stack_handler(env.stacks_fd);
  Worker worker(env);
  for (int i = 1; i < argc; ++i) worker.execute(argv[i]);
  return 0;
}
