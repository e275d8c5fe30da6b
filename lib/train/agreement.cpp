#include "train/agreement.hpp"

#include <ATen/ops/zeros.h>

#include <cstdint>
#include <utility>

namespace trainctl::train {

Agreement::Agreement(dist::Communicator& communicator, StopSources sources, Cadence cadence)
    : communicator_(communicator),
      sources_(sources),
      cadence_(cadence),
      alone_(communicator.place().world_size == 1),
      wishes_(at::zeros({3}, at::kInt)) {}

Agreement::~Agreement() {
  try {
    if (pending_) pending_->wait();  // the exchange writes into wishes_
  } catch (...) {                    // the failure that ends the run has been told already
  }
}

Stop Agreement::own(double now) const {
  if (sources_.signal != nullptr && *sources_.signal != 0) return Stop::signal;
  return sources_.deadline && now >= *sources_.deadline ? Stop::time : Stop::none;
}

Stop Agreement::read() {
  std::exchange(pending_, nullptr)->wait();
  const auto* wishes = wishes_.const_data_ptr<std::int32_t>();
  save_agreed_ = wishes[2] > 0;
  if (wishes[0] > 0) return Stop::signal;
  return wishes[1] > 0 ? Stop::time : Stop::none;
}

void Agreement::start(double now) {
  const Stop wish = own(now);
  auto* wishes = wishes_.mutable_data_ptr<std::int32_t>();
  wishes[0] = wish == Stop::signal ? 1 : 0;
  wishes[1] = wish == Stop::time ? 1 : 0;
  // What was agreed just now is still to be done: it is no new wish.
  wishes[2] = wishes_save_ && !save_agreed_ && communicator_.place().rank == 0 ? 1 : 0;
  pending_ = communicator_.start_sum(wishes_, "agreement on stopping");
}

Stop Agreement::after_step(At at, double now) {
  save_agreed_ = alone_ && wishes_save_;
  if (alone_) return own(now);
  if (cadence_ == Cadence::meeting_points)
    return at == At::meeting_point ? settle(now) : Stop::none;
  const Stop agreed = pending_ ? read() : Stop::none;
  if (agreed == Stop::none) start(now);
  return agreed;
}

Stop Agreement::settle(double now) {
  if (alone_) return own(now);
  if (pending_) {
    const Stop agreed = read();
    if (agreed != Stop::none) return agreed;
  }
  start(now);
  return read();
}

}  // namespace trainctl::train
