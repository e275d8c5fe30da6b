#include "launch/nodes/coordinator.hpp"

#include "base/clock.hpp"
#include "base/strings.hpp"
#include "log/log.hpp"

namespace trainctl::launch {

void Head::begin(const LaunchSpec& spec, double now) {
  for (const int rank : std::exchange(claimed_, {})) listener_.release({Role::rank, rank});
  arrivals_.clear();
  ++welcome_.attempt;
  nodes_.begin(welcome_, spec.hang_timeout_s, now);
}

void Head::append_to(std::vector<pollfd>& polls) const {
  listener_.append_to(polls);
  nodes_.append_to(polls);
}

void Head::serve(double now, int round, const EventHandler& on_event) {
  adopt_arrivals(now);
  nodes_.serve(now, round, on_event);
  for (const int node : nodes_.take_gone()) listener_.release({Role::node, node});
}

// True: a node has come.
bool Head::adopt_arrivals(double now) {
  bool has_come = false;
  listener_.serve(now);
  for (const std::string& refusal : listener_.take_refusals())
    log::get().warn("{}", printable(refusal));
  for (Listener::Arrival& arrival : listener_.take_arrivals()) {
    const int number = arrival.claim.number;
    if (arrival.claim.role == Role::node) {
      nodes_.adopt(number, std::move(arrival.socket), arrival.peer, now);
      has_come = true;
    } else {
      claimed_.push_back(number);
      arrivals_.push_back({number, std::move(arrival.socket)});
    }
  }
  return has_come;
}

void Head::end(const RunOver& over, double patience_s, const GiveUp& give_up) {
  constexpr int kTickMs = 50;
  const Clock& clock = steady_clock();
  const double until = clock.now() + patience_s;
  nodes_.end(over, clock.now());
  while (nodes_.lacks_nodes() && clock.now() < until && !(give_up && give_up())) {
    std::vector<pollfd> polls;
    listener_.append_to(polls);
    ::poll(polls.data(), polls.size(), kTickMs);
    if (adopt_arrivals(clock.now())) nodes_.end(over, clock.now());
  }
}

}  // namespace trainctl::launch
