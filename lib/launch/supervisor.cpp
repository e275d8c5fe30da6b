#include "launch/supervisor.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "launch/ending.hpp"
#include "launch/failure.hpp"
#include "launch/leftovers.hpp"
#include "launch/memory_watch.hpp"
#include "launch/rank.hpp"
#include "launch/signals.hpp"
#include "launch/stacks.hpp"
#include "launch/store_server.hpp"
#include "log/log.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <memory>

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

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "this machine";
}

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

  void start();
  Outcome run();

 private:
  void turn();
  int wait();
  void tick();
  void take_signals();
  void look_for_the_dead();
  void check_start();
  void check_exits();
  void check_pulses();
  void check_deadlines();
  void check_failures();
  void follow(const RankEnd& end);
  void terminate_all();
  void kill_all();
  void report_cuts();
  [[nodiscard]] bool is_one_stopped();
  void blame_for_hang(Rank& rank, const std::string& sentence);
  [[nodiscard]] Rank* awaited_by(const Silence& silence) const;
  [[nodiscard]] std::string write_all_stacks(const Rank& blamed) const;
  [[nodiscard]] double allowance_s() const;
  [[nodiscard]] bool is_over() const;
  [[nodiscard]] Outcome conclude() const;

  const LaunchSpec& spec_;
  const EventHandler& on_event_;
  const TickHandler& on_tick_;
  const Clock& clock_;
  MemoryWatch memory_;

  // Destroyed from the last to the first: ranks die while orphans are kept and signals are blocked.
  SignalGuard signals_;
  OrphanKeeper orphans_;
  StoreServer store_;
  std::vector<std::unique_ptr<Rank>> ranks_;

  int round_ = 1;
  double started_at_ = 0;
  double next_tick_ = 0;
  Ending ending_;
  std::optional<double> failed_at_;
  std::optional<double> killed_at_;
  std::vector<std::optional<double>> finished_at_;
  bool all_started_ = false;
  bool hangs_ = false;
};

void Watch::start() {
  make_folder(spec_.log_folder);
  for (int rank = 0; rank < spec_.world_size; ++rank) {
    const Fd socket = spec_.world_size > 1 ? connect_store(store_, rank) : Fd();
    ranks_.push_back(
        std::make_unique<Rank>(Rank::Start{spec_, signals_.child_mask()}, rank, socket));
  }
  for (const auto& rank : ranks_)
    log::get().debug("rank {} is process {}", rank->end().rank, rank->end().pid);
  finished_at_.resize(ranks_.size());
  started_at_ = clock_.now();
}

Outcome Watch::run() {
  while (!is_over()) turn();
  return conclude();
}

// Nothing here waits but poll; whoever is not ready answers EAGAIN.
void Watch::turn() {
  const int ready = wait();
  take_signals();
  look_for_the_dead();
  for (const auto& rank : ranks_) rank->read_events(on_event_, round_);
  store_.serve();
  report_cuts();
  check_start();
  check_exits();
  check_pulses();
  check_failures();
  check_deadlines();
  if (ready == 0 || clock_.now() >= next_tick_) tick();
  ++round_;
}

int Watch::wait() {
  std::vector<pollfd> polls{{signals_.fd(), POLLIN, 0}};
  for (const auto& rank : ranks_) rank->append_to(polls);
  store_.append_to(polls);
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

double Watch::allowance_s() const {
  if (spec_.stop_grace_s) return *spec_.stop_grace_s;
  bool stepped = false;
  double step_s = 0;
  double save_s = 0;
  for (const auto& rank : ranks_) {
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
  if (!ending_.has_begun()) {
    ending_.follow(*signal, clock_.now(), allowance_s());
    terminate_all();
  }
  if (left_unsaved(end)) ending_.hurry(clock_.now());
}

void Watch::check_start() {
  if (all_started_ || ending_.has_begun()) return;
  std::vector<std::string> missing;
  Rank* first = nullptr;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    if (ranks_[i]->said_hello()) continue;
    missing.push_back(std::to_string(i));
    if (first == nullptr) first = ranks_[i].get();
  }
  all_started_ = missing.empty();
  if (all_started_ || clock_.now() - started_at_ < spec_.init_timeout_s) return;
  blame_for_hang(*first, fmt::format("rank{} {} of {} did not report within {} of the start",
                                     missing.size() == 1 ? "" : "s", join(missing, ", "),
                                     ranks_.size(), human_duration(spec_.init_timeout_s)));
}

// Ranks wait for each other, so one that hangs silences all: the one that fell silent first is to
// blame, but none that may be waiting for one that saves or loads, or waits where another has not
// come.
void Watch::check_pulses() {
  const double now = clock_.now();
  for (const auto& rank : ranks_) {
    rank->feel_pulse(now);
    if (rank->is_saving()) ending_.extend(rank->pulse().seen_at());
  }
  const bool awaited =
      std::ranges::any_of(ranks_, [](const auto& rank) { return rank->is_between_steps(); });
  const bool gets_on = std::ranges::any_of(
      ranks_, [&](const auto& rank) { return rank->is_between_steps() && !rank->silence(now); });
  Rank* first = nullptr;
  Silence longest;
  for (const auto& rank : ranks_) {
    const auto silence = rank->silence(now);
    if (!silence || silence->seconds <= longest.seconds) continue;
    if (awaited && takes_steps(silence->phase)) continue;
    if (gets_on && may_load(silence->phase)) continue;  // its first step meets the other's
    longest = *silence;
    first = rank.get();
  }
  if (ending_.has_begun() || hangs_ || is_one_stopped() || first == nullptr) return;
  if (Rank* culprit = awaited_by(longest)) {
    first = culprit;
    longest = culprit->standstill(now);
  }
  blame_for_hang(*first, sentence_of(longest));
}

// A stopped process waits for nobody, whatever its phase: while there is one, no other is to blame.
bool Watch::is_one_stopped() {
  for (const auto& rank : ranks_) {
    const auto stopped = rank->stopped(clock_.now());
    if (!stopped) continue;
    if (stopped->seconds > stopped->limit_s) blame_for_hang(*rank, sentence_of(*stopped));
    return true;
  }
  return false;
}

// The one whom a rank in a collective waits for has stamped about as long ago, and is in none.
Rank* Watch::awaited_by(const Silence& silence) const {
  constexpr double kAsLong = 0.5;
  if (!silence.collective.under_way) return nullptr;
  Rank* awaited = nullptr;
  double longest = kAsLong * silence.seconds;
  for (const auto& rank : ranks_) {
    const double seconds = rank->pulse().silent_s(clock_.now());
    if (!rank->is_at_work() || seconds <= longest) continue;
    longest = seconds;
    awaited = rank.get();
  }
  return awaited;
}

void Watch::blame_for_hang(Rank& rank, const std::string& sentence) {
  hangs_ = true;
  rank.keep_place();
  rank.blame({static_cast<int>(ErrorKind::hang), sentence + write_all_stacks(rank)}, round_);
}

// The one to blame comes first: for the others the time may run out.
std::string Watch::write_all_stacks(const Rank& blamed) const {
  std::vector<StackSource> sources;
  if (blamed.is_alive()) sources.push_back(blamed.stack_source());
  for (const auto& rank : ranks_) {
    if (rank->is_alive() && rank.get() != &blamed) sources.push_back(rank->stack_source());
  }
  const int number = blamed.stack_source().rank;
  const std::vector<int> written = write_stacks(spec_.log_folder, sources);
  if (std::ranges::find(written, number) == written.end()) return "";
  const auto file = spec_.log_folder.filename() / stacks_path("", number);
  return "; stacks of its threads: " + file.string();
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
  for (const auto& rank : ranks_) {
    failed = failed || rank->has_failed();
    explained = explained || (rank->has_failed() && !lost_peer(rank->end()));
  }
  if (!failed || ending_.in_hurry()) return;
  const double now = clock_.now();
  if (!failed_at_) failed_at_ = now;
  if (!explained && now - *failed_at_ < kPatienceS) return;
  ending_.hurry(now);
  terminate_all();
}

void Watch::check_deadlines() {
  if (!killed_at_ && ending_.is_due(clock_.now())) kill_all();
}

void Watch::terminate_all() {
  for (const auto& rank : ranks_) rank->terminate();
}

void Watch::kill_all() {
  if (!killed_at_) killed_at_ = clock_.now();
  for (const auto& rank : ranks_) rank->kill();
}

void Watch::report_cuts() {
  for (const StoreServer::Cut& cut : store_.take_cuts()) {
    on_event_(cut.rank, events::Warning{fmt::format("rank {} was cut off from the store: {}",
                                                    cut.rank, cut.reason)});
  }
}

bool Watch::is_over() const {
  const bool none_alive =
      std::ranges::none_of(ranks_, [](const auto& rank) { return rank->is_alive(); });
  return none_alive || (killed_at_ && clock_.now() - *killed_at_ > kBurialS);
}

Outcome Watch::conclude() const {
  JobEnd job;
  job.stop_signal = ending_.signal();
  job.host = host_name();
  for (const auto& rank : ranks_) {
    RankEnd end = rank->end();
    const bool speechless = !end.report && is_failure(end);
    if (const auto written =
            speechless ? read_error_file(spec_.log_folder, end.rank) : std::nullopt) {
      end.report = Report{written->kind, written->message};
    }
    job.ranks.push_back(std::move(end));
  }
  Outcome outcome = judge(job);
  const auto add_tail = [&](RankFailure& failure) {
    failure.log_tail = log_tail(log_path(spec_.log_folder, failure.rank));
  };
  if (outcome.first_failure) add_tail(*outcome.first_failure);
  std::ranges::for_each(outcome.consequences, add_tail);
  return outcome;
}

}  // namespace

Outcome supervise(const LaunchSpec& spec, const EventHandler& on_event, const TickHandler& on_tick,
                  const Clock& clock) {
  ASSERT(spec.world_size >= 1);
  Watch watch(spec, on_event, on_tick, clock);
  watch.start();
  return watch.run();
}

}  // namespace trainctl::launch
