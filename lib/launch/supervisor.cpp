#include "launch/supervisor.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "launch/conclude.hpp"
#include "launch/ending.hpp"
#include "launch/head.hpp"
#include "launch/leftovers.hpp"
#include "launch/memory_watch.hpp"
#include "launch/rank.hpp"
#include "launch/signals.hpp"
#include "launch/silent_rank.hpp"
#include "launch/stacks.hpp"
#include "launch/store_server.hpp"
#include "log/log.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>

namespace trainctl::launch {
namespace {

constexpr double kTickS = 0.2;
// A worker that has said Finished may hang in the destructors of its libraries: its results are
// safe.
constexpr double kExitS = 10;
// After SIGKILL a process may stay in an uninterruptible wait: it is left behind.
constexpr double kBurialS = 5;
// A rank may tell that it has lost another one before the kernel has buried that.
constexpr double kPatienceS = 0.2;
constexpr double kRemotePatienceS = 1;  // what another node knows is a while on its way

// A worker's end of a new store socket; the other is the server's.
Fd connect_store(StoreServer& store, int rank) {
  std::array<int, 2> ends{};
  const bool made = ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0;
  ENSURE(resource, made, "cannot make a store socket: {}", std::strerror(errno));
  store.add_client(rank, Fd(ends[0]));
  return Fd(ends[1]);
}

class Watch {
 public:
  Watch(const LaunchSpec& spec, const EventHandler& on_event, const TickHandler& on_tick,
        const Clock& clock)
      : spec_(spec), on_event_(on_event), on_tick_(on_tick), clock_(clock), ending_(spec.grace_s) {}

  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  void start();
  Outcome run();

 private:
  void turn();
  int wait();
  void tick();
  void take_signals();
  void serve_store();
  void serve_nodes();
  void follow_nodes();
  void follow_asked(const StopAsked& asked);
  void look_for_the_dead();
  void check_start();
  void check_exits();
  void check_pulses();
  void check_deadlines();
  void check_failures();
  void follow(const RankEnd& end);
  void begin_stop(int signal);
  void terminate_all();
  void kill_all();
  void report_cuts();
  void blame_for_hang(RankState& rank, const std::string& sentence);
  [[nodiscard]] std::string write_all_stacks(const RankState& blamed);
  [[nodiscard]] std::string start_hint() const;
  [[nodiscard]] double allowance_s() const;
  [[nodiscard]] bool is_over() const;

  const LaunchSpec& spec_;
  const EventHandler& on_event_;
  const TickHandler& on_tick_;
  const Clock& clock_;
  MemoryWatch memory_;

  // Destroyed from the last to the first: ranks die while orphans are kept and signals are blocked.
  SignalGuard signals_;
  OrphanKeeper orphans_;
  StoreServer store_;
  std::vector<std::unique_ptr<Rank>> ranks_;  // of this node
  std::vector<RankState*> all_;               // by number, those of other nodes last

  int round_ = 1;
  double started_at_ = 0;
  double next_tick_ = 0;
  Ending ending_;
  std::optional<double> failed_at_;
  std::optional<double> killed_at_;
  std::vector<std::optional<double>> finished_at_;
  bool all_started_ = false;
  bool hangs_ = false;
  std::optional<int> asked_for_stacks_;  // the rank of another node that is to blame
};

void Watch::start() {
  make_folder(spec_.log_folder);
  for (int rank = spec_.first_rank(); rank < spec_.first_rank() + spec_.ranks_here(); ++rank) {
    const Fd socket = spec_.world_size > 1 ? connect_store(store_, rank) : Fd();
    ranks_.push_back(
        std::make_unique<Rank>(Rank::Start{spec_, signals_.child_mask()}, rank, socket));
  }
  for (const auto& rank : ranks_) {
    log::get().debug("rank {} is process {}", rank->end().rank, rank->end().pid);
    all_.push_back(rank.get());
  }
  finished_at_.resize(ranks_.size());
  started_at_ = clock_.now();
  if (spec_.head == nullptr) return;
  spec_.head->begin(spec_, started_at_);
  for (const auto& rank : spec_.head->nodes().ranks()) all_.push_back(rank.get());
}

// Also where a handler has thrown: no node goes on alone.
Watch::~Watch() {
  if (spec_.head != nullptr) spec_.head->nodes().kill(clock_.now());
}

Outcome Watch::run() {
  while (!is_over()) turn();
  return conclude({spec_, all_, ending_.signal(), asked_for_stacks_});
}

// Nothing here waits but poll; whoever is not ready answers EAGAIN.
void Watch::turn() {
  const int ready = wait();
  look_for_the_dead();
  for (const auto& rank : ranks_) rank->read_events(on_event_, round_);
  serve_nodes();
  serve_store();
  check_start();
  check_exits();
  check_pulses();
  check_failures();
  // Late, since a launcher sends signals because of a failure, which is to come first.
  take_signals();
  follow_nodes();
  check_deadlines();
  if (ready == 0 || clock_.now() >= next_tick_) tick();
  ++round_;
}

int Watch::wait() {
  std::vector<pollfd> polls{{signals_.fd(), POLLIN, 0}};
  for (const auto& rank : ranks_) rank->append_to(polls);
  store_.append_to(polls);
  if (spec_.head != nullptr) spec_.head->append_to(polls);
  const double left = std::clamp(next_tick_ - clock_.now(), 0.0, kTickS);
  return ::poll(polls.data(), polls.size(), static_cast<int>(std::ceil(left * 1000)));
}

void Watch::tick() {
  next_tick_ = clock_.now() + kTickS;
  if (on_tick_) on_tick_();
}

void Watch::take_signals() {
  for (const int signal : signals_.take()) {
    const double allowed_s = allowance_s();
    switch (ending_.ask(signal, clock_.now(), allowed_s)) {
      case Ending::Demand::stop:
        log::get().info(
            "{}: the run is asked to save and to end within {}; a second signal ends "
            "it at once",
            signal_name(signal), human_duration(allowed_s));
        terminate_all();
        break;
      case Ending::Demand::kill: kill_all(); break;
      case Ending::Demand::nothing: break;
    }
  }
}

void Watch::serve_store() {
  if (spec_.head != nullptr) {
    for (Head::RankArrival& arrival : spec_.head->take_rank_arrivals())
      store_.add_client(arrival.rank, std::move(arrival.socket));
  }
  store_.serve();
  report_cuts();
}

void Watch::serve_nodes() {
  if (spec_.head == nullptr) return;
  RemoteNodes& nodes = spec_.head->nodes();
  spec_.head->serve(clock_.now(), round_, on_event_);
  for (const RankEnd& end : nodes.take_ended()) {
    log::get().debug("rank {} on {} has gone", end.rank, printable(end.host));
    follow(end);
  }
}

void Watch::follow_nodes() {
  if (spec_.head == nullptr) return;
  for (const StopAsked& asked : spec_.head->nodes().take_asked()) follow_asked(asked);
}

// Whoever stops another node's supervisor stops the job.
void Watch::follow_asked(const StopAsked& asked) {
  if (!ending_.has_begun()) {
    log::get().info("{} on another node: the run is asked to save and to end",
                    signal_name(asked.signal));
    begin_stop(asked.signal == SIGINT ? SIGINT : SIGTERM);
  }
  if (asked.at_once) kill_all();
}

void Watch::begin_stop(int signal) {
  ending_.follow(signal, clock_.now(), allowance_s());
  terminate_all();
}

double Watch::allowance_s() const {
  if (spec_.stop_grace_s) return *spec_.stop_grace_s;
  bool stepped = false;
  double step_s = 0;
  double save_s = 0;
  for (const RankState* rank : all_) {
    stepped = stepped || rank->pulse().has_stepped();
    step_s = std::max(step_s, rank->pulse().step_s());
    save_s = std::max(save_s, rank->pulse().longest_save_s());
  }
  // A stamp is of a batch; the stop is that of a step.
  return stepped ? stop_allowance(step_s * spec_.batches_to_stop, save_s) : spec_.grace_s;
}

void Watch::look_for_the_dead() {
  for (const auto& rank : ranks_) {
    if (!rank->is_alive()) continue;
    rank->reap(on_event_, round_);
    if (rank->is_alive()) continue;
    const RankEnd end = rank->end();
    log::get().debug("rank {} has gone: {}", end.rank,
                     end.exit_code ? fmt::format("exit code {}", *end.exit_code)
                                   : fmt::format("signal {}", end.signal.value_or(0)));
    if (end.signal == SIGKILL && !end.killed_by_us)
      rank->hint_at_memory(memory_.explain_kill(static_cast<double>(rank->peak_rss_kib()) * 1024));
    follow(end);
  }
}

// Somebody stopped the workers themselves, as Slurm does: the job ends as if we had been asked.
void Watch::follow(const RankEnd& end) {
  const auto signal = stop_signal_of(end);
  if (!signal) return;
  if (!ending_.has_begun()) begin_stop(*signal);
  if (left_unsaved(end)) ending_.hurry(clock_.now());
}

void Watch::check_start() {
  if (all_started_ || ending_.has_begun()) return;
  std::vector<std::string> missing;
  RankState* first = nullptr;
  for (RankState* rank : all_) {
    if (rank->said_hello()) continue;
    missing.push_back(std::to_string(rank->number()));
    if (first == nullptr) first = rank;
  }
  all_started_ = missing.empty();
  if (all_started_ || clock_.now() - started_at_ < spec_.init_timeout_s) return;
  blame_for_hang(*first,
                 fmt::format("rank{} {} of {} did not report within {} of the start{}",
                             missing.size() == 1 ? "" : "s", trainctl::join(missing, ", "),
                             all_.size(), human_duration(spec_.init_timeout_s), start_hint()));
}

// Which nodes are missing, and how they come.
std::string Watch::start_hint() const {
  if (spec_.head == nullptr) return "";
  const std::vector<std::string> missing = spec_.head->nodes().missing();
  if (missing.empty()) return "";
  return fmt::format(
      ": {}; start each with its --node-rank and --rdzv-endpoint {}, which it has to reach",
      shortened(missing), to_text(spec_.head->endpoint()));
}

void Watch::check_pulses() {
  const double now = clock_.now();
  for (RankState* rank : all_) {
    rank->feel_pulse(now);
    if (rank->is_saving()) ending_.extend(rank->pulse().seen_at());
  }
  const auto silent = silent_rank(all_, now);
  if (!silent || ending_.has_begun() || hangs_) return;
  blame_for_hang(*silent->rank, sentence_of(silent->silence));
}

void Watch::blame_for_hang(RankState& rank, const std::string& sentence) {
  hangs_ = true;
  rank.keep_place();
  rank.blame({static_cast<int>(ErrorKind::hang), sentence + write_all_stacks(rank)}, round_);
}

// The one to blame comes first: for the others the time may run out. Other nodes write theirs
// meanwhile, before they heed the order to end.
std::string Watch::write_all_stacks(const RankState& blamed) {
  if (spec_.head != nullptr) spec_.head->nodes().ask_for_stacks(clock_.now());
  std::vector<StackSource> sources;
  for (const auto& rank : ranks_) {
    if (!rank->is_alive()) continue;
    const bool is_blamed = rank.get() == &blamed;
    sources.insert(is_blamed ? sources.begin() : sources.end(), rank->stack_source());
  }
  const int number = blamed.number();
  const std::vector<int> written = write_stacks(spec_.log_folder, sources);
  if (std::ranges::find(written, number) != written.end()) return stacks_note(spec_, number);
  if (number >= spec_.first_rank() + spec_.ranks_here()) asked_for_stacks_ = number;
  return "";
}

void Watch::check_exits() {
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    if (!ranks_[i]->is_alive() || !ranks_[i]->said_finished()) continue;
    if (!finished_at_[i]) finished_at_[i] = clock_.now();
    if (clock_.now() - *finished_at_[i] > kExitS) ranks_[i]->kill();
  }
}

void Watch::check_failures() {
  bool failed = false;
  bool explained = false;
  for (const RankState* rank : all_) {
    failed = failed || rank->has_failed();
    explained = explained || (rank->has_failed() && !lost_peer(rank->end()));
  }
  if (!failed || ending_.in_hurry()) return;
  const double now = clock_.now();
  const double patience_s = spec_.head == nullptr ? kPatienceS : kRemotePatienceS;
  if (!failed_at_) failed_at_ = now;
  if (!explained && now - *failed_at_ < patience_s) return;
  ending_.hurry(now);
  terminate_all();
}

void Watch::check_deadlines() {
  if (!killed_at_ && ending_.is_due(clock_.now())) kill_all();
}

void Watch::terminate_all() {
  for (const auto& rank : ranks_) rank->terminate();
  if (spec_.head != nullptr) spec_.head->nodes().stop(ending_.signal().value_or(0), clock_.now());
}

void Watch::kill_all() {
  if (!killed_at_) killed_at_ = clock_.now();
  for (const auto& rank : ranks_) rank->kill();
  if (spec_.head != nullptr) spec_.head->nodes().kill(clock_.now());
}

void Watch::report_cuts() {
  for (const StoreServer::Cut& cut : store_.take_cuts()) {
    on_event_(cut.rank, events::Warning{fmt::format("rank {} was cut off from the store: {}",
                                                    cut.rank, cut.reason)});
  }
}

bool Watch::is_over() const {
  const bool none_alive =
      std::ranges::none_of(all_, [](const auto* rank) { return rank->is_alive(); });
  return none_alive || (killed_at_ && clock_.now() - *killed_at_ > kBurialS);
}

}  // namespace

Outcome supervise(const LaunchSpec& spec, const EventHandler& on_event, const TickHandler& on_tick,
                  const Clock& clock) {
  ASSERT(spec.world_size >= 1 && spec.place.node == 0);
  ASSERT(spec.world_size % spec.place.nodes == 0);
  Watch watch(spec, on_event, on_tick, clock);
  watch.start();
  return watch.run();
}

}  // namespace trainctl::launch
