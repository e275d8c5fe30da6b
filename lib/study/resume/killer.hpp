#pragma once

#include "report/sinks/sink.hpp"

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>

namespace trainctl::study {

/// Kills the processes of a run with SIGKILL once it has reached a step. It is called on the thread
/// that reaps them, so none of their numbers can be that of another process by then.
class Killer final : public report::Sink {
 public:
  /// `rank` absent: all of them.
  Killer(std::int64_t step, std::optional<int> rank) : step_(step), rank_(rank) {}

  void on_event(int rank, const events::Event& event) override;
  void on_tick(double /*now*/) override {}
  void close() override {}

 private:
  void fire();

  std::int64_t step_;
  std::optional<int> rank_;
  std::map<int, pid_t> processes_;
  bool fired_ = false;
};

}  // namespace trainctl::study
