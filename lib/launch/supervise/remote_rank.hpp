#pragma once

#include "launch/nodes/node_message.hpp"
#include "launch/supervise/rank_state.hpp"

#include <memory>
#include <optional>
#include <string>

namespace trainctl::launch {

/// A rank of another node as the head knows it: by what its supervisor tells.
class RemoteRank final : public RankState {
 public:
  RemoteRank(int rank, std::optional<double> hang_timeout_s);

  /// Its node is told to start it.
  void begin(const std::string& host);
  void take(const events::Event& event, int round);
  void stamp(const RankPulse& pulse);
  /// It has ended.
  void bury_as(const RankEnd& end, int round);
  /// Its node is gone, or cannot take part.
  void lose(const Report& why, int round);

 private:
  RemoteRank(int rank, std::unique_ptr<events::Heartbeat> copy, std::optional<double> limit);

  std::unique_ptr<events::Heartbeat> copy_;  // of its page
};

}  // namespace trainctl::launch
