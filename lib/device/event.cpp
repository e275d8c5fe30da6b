#include "device/event.hpp"

#include "base/machine/host_waits.hpp"

#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <deque>
#include <exception>
#include <utility>

namespace trainctl::device {
namespace {

/// The steps that the device has not finished are in a queue, which grows as far as the host runs
/// ahead. The events of finished steps are reused.
class EventTimes final : public EventTimer {
 public:
  EventTimes(EventFactory make, int parts)
      : make_(std::move(make)), seconds_(static_cast<std::size_t>(parts)) {}

  void mark(int part) override {
    if (step_.used == step_.marks.size()) step_.marks.push_back({0, make_()});
    Mark& mark = step_.marks[step_.used++];
    mark.part = part;
    mark.event->record();
  }

  const std::vector<double>& end_step() override {
    close_step();
    while (!pending_.empty() && pending_.front().last().is_done()) add_first();
    return seconds_;
  }

  const std::vector<double>& finish() override {
    close_step();
    while (!pending_.empty()) {
      await(pending_.front().last(), "times of the last steps of an epoch");
      add_first();
    }
    return seconds_;
  }

 private:
  struct Mark {
    int part = 0;
    std::unique_ptr<Event> event;
  };
  struct Step {
    std::vector<Mark> marks;
    std::size_t used = 0;
    [[nodiscard]] Event& last() { return *marks[used - 1].event; }
  };

  void close_step() {
    std::ranges::fill(seconds_, 0.0);
    if (step_.used == 0) return;
    pending_.push_back(std::exchange(step_, {}));
    if (free_.empty()) return;
    step_ = std::move(free_.back());
    free_.pop_back();
  }

  void add_first() {
    Step step = std::move(pending_.front());
    pending_.pop_front();
    for (std::size_t i = 1; i < step.used; ++i) {
      seconds_[static_cast<std::size_t>(step.marks[i].part)] +=
          step.marks[i].event->seconds_after(*step.marks[i - 1].event);
    }
    step.used = 0;
    free_.push_back(std::move(step));
  }

  EventFactory make_;
  Step step_;
  std::deque<Step> pending_;  // the oldest first
  std::vector<Step> free_;
  std::vector<double> seconds_;
};

}  // namespace

void await(Event& event, std::string_view place) {
  if (event.is_done()) return;
  count_host_wait(place);
  event.wait();
}

bool wait_in_destructor(Event& event) noexcept {
  try {
    if (std::uncaught_exceptions() == 0) event.wait();
    return event.is_done();
  } catch (...) {  // the device has failed
    return false;
  }
}

std::unique_ptr<EventTimer> make_event_timer(EventFactory make, int parts) {
  return std::make_unique<EventTimes>(std::move(make), parts);
}

std::unique_ptr<EventTimer> make_event_timer(at::Device device, int parts) {
  if (!device.is_cuda()) return nullptr;
  return make_event_timer([device] { return make_event(device, EventUse::timing); }, parts);
}

PendingCopies::PendingCopies(const EventFactory& make, int most) {
  for (int i = 0; i <= most; ++i) events_.push_back(make());
}

void PendingCopies::advance() {
  current_ = (current_ + 1) % events_.size();
  await(*events_[current_], kPlace);
}

void PendingCopies::drain() {
  for (const auto& event : events_) await(*event, "copies of the last batches of an epoch");
}

bool PendingCopies::drain_in_destructor() noexcept {
  return std::ranges::all_of(events_, [](const auto& event) { return wait_in_destructor(*event); });
}

void LateValues::start(const at::Tensor& values) {
  if (!host_.defined()) {
    host_ = at::empty_like(values, at::TensorOptions(at::kCPU).pinned_memory(values.is_cuda()));
  }
  host_.copy_(values, /*non_blocking=*/true);
  if (copied_) copied_->record();
}

std::span<const double> LateValues::read(std::string_view place) {
  if (copied_) await(*copied_, place);
  return {host_.const_data_ptr<double>(), static_cast<std::size_t>(host_.numel())};
}

}  // namespace trainctl::device
