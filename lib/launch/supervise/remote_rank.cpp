#include "launch/supervise/remote_rank.hpp"

#include "base/error.hpp"

#include <atomic>
#include <utility>
#include <variant>

namespace trainctl::launch {

RemoteRank::RemoteRank(int rank, std::optional<double> hang_timeout_s)
    : RemoteRank(rank, std::make_unique<events::Heartbeat>(), hang_timeout_s) {}

RemoteRank::RemoteRank(int rank, std::unique_ptr<events::Heartbeat> copy,
                       std::optional<double> limit)
    : RankState(rank, *copy, limit), copy_(std::move(copy)) {}

void RemoteRank::begin(const std::string& host) {
  end_.host = host;
  start();
}

void RemoteRank::take(const events::Event& event, int round) {
  // Its node tells the number with its end, which is not heard where that node is lost.
  if (const auto* hello = std::get_if<events::Hello>(&event))
    end_.pid = static_cast<pid_t>(hello->pid);
  take_event(event, round);
}

void RemoteRank::stamp(const RankPulse& pulse) {
  copy_->global_step.store(pulse.step, std::memory_order_relaxed);
  copy_->phase.store(pulse.phase, std::memory_order_relaxed);
  copy_->loaded.store(pulse.loaded, std::memory_order_relaxed);
  copy_->begin_collective(pulse.collective);
  if (!pulse.in_collective) copy_->end_collective();
  copy_->monotonic_ns.store(pulse.stamp, std::memory_order_release);
}

void RemoteRank::bury_as(const RankEnd& end, int round) {
  const RankEnd before = this->end();
  end_ = end;
  end_.rank = before.rank;
  end_.host = before.host;
  end_.seen_in_round = before.seen_in_round;
  end_.finished = before.finished || end.finished;
  if (before.report) {  // its own word, or why it was ended
    end_.report = before.report;
    end_.step = before.step;
    end_.phase = before.phase;
  }
  bury(round);
  keep_told_place();
}

void RemoteRank::lose(const Report& why, int round) {
  keep_place();
  end_.node_lost = !end_.report && why.kind == static_cast<int>(ErrorKind::rank_failed);
  blame(why, round);
  bury(round);
}

}  // namespace trainctl::launch
