#include "launch/supervise/job_ranks.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "launch/nodes/coordinator.hpp"
#include "launch/process/stacks.hpp"
#include "launch/rendezvous/address.hpp"
#include "log/log.hpp"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace trainctl::launch {
namespace {

/// Returns "; stacks of its threads: logs/rank_2.stacks.txt".
std::string stacks_note(const LaunchSpec& spec, int rank) {
  const auto file = spec.log_folder.filename() / stacks_path("", rank);
  return "; stacks of its threads: " + file.string();
}

// Returns the worker's end of a new store socket; the other end belongs to the server.
Fd connect_store(StoreServer& store, int rank) {
  std::array<int, 2> ends{};
  const bool made = ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0;
  ENSURE(resource, made, "cannot create a socket between ranks: {}", std::strerror(errno));
  store.add_client(rank, Fd(ends[0]));
  return Fd(ends[1]);
}

RankEnd collect_rank_end(const FinalJobState& job, const RankState& rank) {
  RankEnd end = rank.end();
  const std::filesystem::path& folder = job.spec.log_folder;
  const bool is_remote = end.rank >= job.spec.first_rank() + job.spec.ranks_here();
  if (rank.is_alive() && is_remote && !end.report)
    end.report = FailureReport{
        static_cast<int>(ErrorKind::rank_failed),
        "it was stopped after another failure, and its node did not report how it exited"};
  const bool has_no_report = !end.report && is_failure(end);
  const auto written = has_no_report ? read_error_file(folder, end.rank) : std::nullopt;
  if (written) end.report = FailureReport{written->kind, written->message};
  if (job.remote_stacks_rank != end.rank || !end.report) return end;
  if (path_exists(stacks_path(folder, end.rank)))
    end.report->message.insert(without_hint(end.report->message).size(),
                               stacks_note(job.spec, end.rank));
  return end;
}

}  // namespace

void LocalRanks::start(const sigset_t& mask, const ConnectRank& connect) {
  for (int rank = spec_.first_rank(); rank < spec_.first_rank() + spec_.ranks_here(); ++rank) {
    ranks_.push_back(std::make_unique<Rank>(Rank::StartOptions{spec_, mask}, rank, connect(rank)));
    log::get().debug("rank {} is process {}", rank, ranks_.back()->end().pid);
  }
}

void LocalRanks::append_to(std::vector<pollfd>& polls) const {
  for (const auto& rank : ranks_) rank->append_to(polls);
}

void LocalRanks::read_events(const EventHandler& on_event, int round) {
  for (const auto& rank : ranks_) rank->read_events(on_event, round);
}

void LocalRanks::reap(const EventHandler& on_event, int round,
                      const std::function<void(Rank& rank)>& on_end) {
  for (const auto& rank : ranks_) {
    if (!rank->is_alive()) continue;
    rank->reap(on_event, round);
    if (rank->is_alive()) continue;
    const RankEnd end = rank->end();
    if (end.signal == SIGKILL && !end.sigkill_sent)
      rank->set_memory_hint(memory_.explain_kill(static_cast<double>(rank->peak_rss_kib()) * 1024));
    on_end(*rank);
  }
}

void LocalRanks::terminate() {
  for (const auto& rank : ranks_) rank->terminate();
}

void LocalRanks::kill() {
  for (const auto& rank : ranks_) rank->kill();
}

// A worker that has reported Finished can hang in a library's destructor; its results are saved.
void LocalRanks::kill_finished() {
  constexpr double kExitS = 10;
  const double now = clock_.now();
  for (const auto& rank : ranks_) {
    if (!rank->is_alive() || !rank->has_finished()) continue;
    const double finished_at = finished_at_.try_emplace(rank.get(), now).first->second;
    if (now - finished_at > kExitS) rank->kill();
  }
}

bool LocalRanks::none_alive() const {
  return std::ranges::none_of(ranks_, [](const auto& rank) { return rank->is_alive(); });
}

std::vector<StackSource> LocalRanks::stack_sources(const RankState* first) const {
  std::vector<StackSource> sources;
  for (const auto& rank : ranks_) {
    if (!rank->is_alive()) continue;
    const bool is_first = rank.get() == first;
    sources.insert(is_first ? sources.begin() : sources.end(), rank->stack_source());
  }
  return sources;
}

// This also runs if a handler has thrown, so that no node continues alone.
JobRanks::~JobRanks() {
  if (spec_.coordinator != nullptr) spec_.coordinator->nodes().kill(clock_.now());
}

void JobRanks::start(const sigset_t& mask, StoreServer& store) {
  local_.start(mask,
               [&](int rank) { return spec_.world_size > 1 ? connect_store(store, rank) : Fd(); });
  for (const auto& rank : local_.ranks()) all_.push_back(rank.get());
  if (spec_.coordinator == nullptr) return;
  spec_.coordinator->begin_attempt(spec_, clock_.now());
  for (const auto& rank : spec_.coordinator->nodes().ranks()) all_.push_back(rank.get());
}

bool JobRanks::none_alive() const {
  return std::ranges::none_of(all_, [](const auto* rank) { return rank->is_alive(); });
}

double JobRanks::stop_grace_s() const {
  if (spec_.stop_grace_s) return *spec_.stop_grace_s;
  bool has_stepped = false;
  double step_s = 0;
  double save_s = 0;
  for (const RankState* rank : all_) {
    has_stepped = has_stepped || rank->monitor().has_stepped();
    step_s = std::max(step_s, rank->monitor().step_s());
    save_s = std::max(save_s, rank->monitor().longest_save_s());
  }
  // Heartbeats are per batch, but ranks check for a stop per step.
  return has_stepped ? default_stop_grace(step_s * spec_.batches_to_stop, save_s) : spec_.grace_s;
}

std::string JobRanks::missing_nodes_note() const {
  if (spec_.coordinator == nullptr) return "";
  const std::vector<std::string> missing = spec_.coordinator->nodes().missing();
  if (missing.empty()) return "";
  return fmt::format(
      ": {}\nhint: if a node has not joined, start it with its --node-rank and --rdzv-endpoint {}; "
      "if it is connected or has left, look at its output",
      shortened(missing), to_text(spec_.coordinator->endpoint()));
}

void JobRanks::terminate(int signal) {
  local_.terminate();
  if (spec_.coordinator != nullptr) spec_.coordinator->nodes().stop(signal, clock_.now());
}

void JobRanks::kill() {
  local_.kill();
  if (spec_.coordinator != nullptr) spec_.coordinator->nodes().kill(clock_.now());
}

// The rank that caused the hang comes first, since time may run out for the others. Other nodes
// write theirs at the same time, before they follow the command to end.
std::string JobRanks::write_stacks(const RankState& hung) {
  if (spec_.coordinator != nullptr) spec_.coordinator->nodes().request_stacks(clock_.now());
  const int number = hung.number();
  const std::vector<int> written =
      launch::write_stacks(spec_.log_folder, local_.stack_sources(&hung));
  if (std::ranges::find(written, number) != written.end()) return stacks_note(spec_, number);
  if (number >= spec_.first_rank() + spec_.ranks_here()) remote_stacks_rank_ = number;
  return "";
}

Outcome collect_outcome(const FinalJobState& job) {
  JobEnd end;
  end.stop_signal = job.stop_signal;
  end.host = host_name();
  for (const RankState* rank : job.ranks) {
    if (rank->has_end()) end.ranks.push_back(collect_rank_end(job, *rank));
  }
  Outcome outcome = derive_outcome(end);
  const auto add_tail = [&](events::RankFailure& failure) {
    failure.log_tail = log_tail(log_path(job.spec.log_folder, failure.rank));
  };
  if (outcome.first_failure) add_tail(*outcome.first_failure);
  std::ranges::for_each(outcome.consequences, add_tail);
  return outcome;
}

}  // namespace trainctl::launch
