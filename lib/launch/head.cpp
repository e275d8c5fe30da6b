#include "launch/head.hpp"

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
  listener_.serve(now);
  for (const std::string& refusal : listener_.take_refusals())
    log::get().warn("{}", printable(refusal));
  for (Listener::Arrival& arrival : listener_.take_arrivals()) {
    const int number = arrival.claim.number;
    if (arrival.claim.role == Role::node) {
      nodes_.adopt(number, std::move(arrival.socket), arrival.peer, now);
    } else {
      claimed_.push_back(number);
      arrivals_.push_back({number, std::move(arrival.socket)});
    }
  }
  nodes_.serve(now, round, on_event);
  for (const int node : nodes_.take_gone()) listener_.release({Role::node, node});
}

}  // namespace trainctl::launch
